"""What Prometheus sees of records that wait, on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from firnline_adapters.kafka import consumer_lag
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.ports import Delivery
from firnline_domain.records.events import RewriteSkipped
from prometheus_client import REGISTRY

TOPIC, BUCKETS = "maintenance-events", 8
PLENTY_S = 60.0


def lag(group: str, partition: int) -> float | None:
    labels = {"group": group, "topic": TOPIC, "partition": str(partition)}
    return REGISTRY.get_sample_value("firnline_consumer_lag_records", labels)


def put(publisher: KafkaPublisher, table: str, records: int) -> None:
    name = TableName(table, ("db",), "t")
    for number in range(records):
        event = RewriteSkipped(f"task-{number}", name, "main", None, "nothing_to_do", number)
        publisher.publish(TOPIC, table, event)
    publisher.flush()


def poll_until(inbox: KafkaInbox, met: Callable[[list[Delivery]], bool]) -> list[Delivery]:
    until_s, found = time.monotonic() + PLENTY_S, list[Delivery]()
    while not met(found):
        assert time.monotonic() < until_s, found
        found += inbox.poll(0.2)
    return found


@pytest.mark.stack
def test_lag_is_what_is_not_dealt_with_of_what_the_client_has_heard(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_lag, "LOOK_S", 0.0)
    group, table = uuid.uuid4().hex, uuid.uuid4().hex
    place = (TOPIC, bucket_of(table, BUCKETS))
    publisher = KafkaPublisher(kafka, BUCKETS, "lag")
    inbox = KafkaInbox(kafka, group, [TOPIC], publisher, Log("lag"))
    try:
        put(publisher, table, 5)
        mine = poll_until(inbox, lambda all_: sum(one.key == table for one in all_) == 5)
        for one in mine:
            inbox.mark_done(one)
        inbox.commit()
        poll_until(inbox, lambda _: lag(group, place[1]) == 0)
        put(publisher, table, 3)
        more = poll_until(inbox, lambda _: lag(group, place[1]) == 3)  # read, and not done
        for one in more:
            inbox.mark_done(one)
        poll_until(inbox, lambda _: lag(group, place[1]) == 0)
        other = (place[1] + 1) % BUCKETS
        poll_until(inbox, lambda _: lag(group, other) is not None)
    finally:
        inbox.close()
    assert lag(group, place[1]) is None
