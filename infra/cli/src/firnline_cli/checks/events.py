"""Checks the path of events: a commit through the gateway is on `table-commits` within two
seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from firnline_cli.checks.catalog import SCRATCH, CatalogChecks
from firnline_cli.checks.findings import Check, CheckAnswer, Failed, NotTried
from firnline_cli.checks.kafka import KafkaChecks
from firnline_cli.checks.settings import Given

TOPIC = "table-commits"
SOON_S, LATE_S = 2.0, 10.0
READ_S = 10.0


class EventsChecks:
    """The checks of events of one catalog. One commit serves all of them."""

    def __init__(self, given: Given, catalog: CatalogChecks, kafka: KafkaChecks) -> None:
        self._given, self._catalog, self._kafka = given, catalog, kafka

    def checks(self) -> Iterator[Check]:
        """Yield the checks; only a commit if Kafka does not answer."""
        name = self._catalog.name
        tried = f"make {SCRATCH}.*, commit to it, drop it"
        yield Check(f"{name}.commit", tried, self.try_commit, (f"{name}.config",), 40.0)
        tried = f"see a commit on {TOPIC} within {SOON_S:g} s"
        needs = (f"{name}.commit", "kafka.reach")
        yield Check(
            f"events.{self._catalog.connection.name}", tried, self.commit_and_await, needs, 60.0
        )

    def try_commit(self) -> str:
        """Create a table, commit to it and drop it: all that a commit needs of the catalog."""
        if not self._given.writes:
            raise NotTried("asked for with --write")
        with self._catalog.scratch_table() as table:
            table.commit()
        return "made, committed to and dropped"

    def commit_and_await(self) -> CheckAnswer | str:
        """Commit, and await the event from the topic's end, so that nothing is missed."""
        consumer = self._open_consumer_at_end()
        try:
            with self._catalog.scratch_table() as table:
                table.commit()
                heard = self._await_commit(consumer, table.uuid)
                late_s = time.time() - table.committed_s
        finally:
            consumer.close()
        if not heard:
            raise Failed(
                f"no event within {LATE_S:g} s",
                f"uri of [catalogs.{self._catalog.connection.name}] is the gateway's, not the "
                "catalog's: writers use it, too; is the gateway ready (/readyz), and does it write "
                "to this Kafka?",
            )
        if late_s > SOON_S:
            raise Failed(
                f"seen after {late_s:.1f} s",
                "see firnline_gateway_outbox_* at the gateway's /metrics: is Kafka slow or far?",
            )
        return f"seen after {max(0.0, late_s):.2f} s"

    def _open_consumer_at_end(self) -> Any:
        """Open a consumer that reads the topic's records from now on. The caller closes it."""
        from confluent_kafka import Consumer, TopicPartition
        from firnline_adapters.kafka.connection import reader_group
        from firnline_adapters.kafka.questions import ask_broker

        own = {"group.id": reader_group(), "enable.auto.commit": False}
        consumer = Consumer(self._kafka.config(**own))
        places = []
        for number in sorted(consumer.list_topics(TOPIC, timeout=READ_S).topics[TOPIC].partitions):
            place = TopicPartition(TOPIC, number)
            ask = partial(consumer.get_watermark_offsets, place, timeout=READ_S)
            _, place.offset = ask_broker(ask, READ_S)
            places.append(place)
        consumer.assign(places)
        return consumer

    def _await_commit(self, consumer: Any, uuid: str) -> bool:
        """Return whether the record of the commit with this key arrives. The creation is another
        one, and arrives before it."""
        deadline, count = time.monotonic() + LATE_S, 0
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            if uuid.encode() in (message.key() or b""):
                count += 1
            if count == 2:
                return True
        return False
