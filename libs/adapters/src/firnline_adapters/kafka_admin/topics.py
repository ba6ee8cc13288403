"""Are topics there? A fleet that is upgraded may lack new ones; those of groups are made when
FIRNLINE_GROUPS names them, not before."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka.admin import AdminClient
from firnline_domain.errors import Misconfigured
from firnline_domain.records.assignments import is_by_bucket

from firnline_adapters.kafka.client import LIBRDKAFKA
from firnline_adapters.kafka.connection import Kafka, client_config

TIMEOUT_S = 30.0


def require_topics(kafka: Kafka, wanted: Collection[str], homes: int) -> None:
    """Return if each is there with so many partitions, or more where buckets may be added.

    Raises Misconfigured, with what to do; KafkaException where the broker does not answer.
    """
    if not wanted:
        return
    admin = AdminClient(client_config(kafka), logger=LIBRDKAFKA)
    there = admin.list_topics(timeout=TIMEOUT_S).topics  # asked for by name it might be made
    counts = {name: len(there[name].partitions) for name in wanted if name in there}
    wrong = [f"{name} is not there" for name in wanted if name not in counts]
    wrong += [
        f"{name} has {count}"
        for name, count in counts.items()
        if count < homes or (count > homes and not is_by_bucket(name))
    ]
    if wrong:
        raise Misconfigured(
            f"FIRNLINE_BUCKETS is {homes}, so each topic needs as many partitions: "
            f"{', '.join(wrong)}. Set it as for `firnline topics`, or run that command with the "
            "deployment's FIRNLINE_GROUPS"
        )
