"""Another number of buckets: `python -m firnline_local.rebucket --to N`, on FIRNLINE_KAFKA.

Records of a table lie in partition crc32(uuid) modulo the number of buckets, so with another number
every topic begins anew. What the planner counts is counted again by `firnline adopt`; people's
orders are carried over. docs/operating.md has the whole procedure.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicMetadata,
)
from firnline_domain.identity import bucket_of
from firnline_domain.switches import FLEET, FLEET_PARTITION
from firnline_schemas.topics import all_topics

from firnline_local import consumer_groups
from firnline_local.topics import REPLICAS, TIMEOUT_S, make_topics

TOLD_BY = "table-commits"  # every deployment has it, with as many partitions as buckets
ORDERS, MOVING = "operator-orders", "operator-orders-moving"
RESULTS, COMMITTER = "task-results", "committer"
LOOK_S = 0.1


class StillInUse(RuntimeError):
    """Something would be lost; the message says what to wait for, or what to stop."""


@dataclass(frozen=True)
class Order:
    """A record of people's orders, as bytes."""

    at_ms: int
    key: str
    value: bytes


def rebucket(bootstrap: str, wanted: int) -> int:
    """Make every topic anew with `wanted` partitions; how many there were. Repeatable: a run that
    was killed half-way is ended by the next.

    Raises StillInUse before anything is touched, KafkaException when the broker does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = {name: len(one.partitions) for name, one in _topics(admin).items()}
    names = [one.name for one in all_topics() if one.fixed_partitions is None and one.name in there]
    other = [name for name in names if there[name] != wanted]
    if other:
        groups = _groups(admin, set(other))
        _all_results_are_read(admin, there)
        _delete(admin, [name for name in other if name != ORDERS], groups)
    if ORDERS in other:
        _set_aside(admin, bootstrap)
    make_topics(bootstrap, wanted)
    if MOVING in _topics(admin):
        _write(bootstrap, _orders(bootstrap, MOVING), ORDERS, wanted)
        _delete(admin, [MOVING], [])
    return there.get(TOLD_BY, 0)


def _topics(admin: AdminClient) -> dict[str, TopicMetadata]:
    return dict(admin.list_topics(timeout=TIMEOUT_S).topics)


def _set_aside(admin: AdminClient, bootstrap: str) -> None:
    """People's orders are in one of two topics at any moment, whole."""
    orders = _orders(bootstrap, ORDERS)
    _delete(admin, [MOVING] if MOVING in _topics(admin) else [], [])
    for made in admin.create_topics([NewTopic(MOVING, 1, REPLICAS)]).values():
        made.result(TIMEOUT_S)
    _write(bootstrap, orders, MOVING, 1)
    _delete(admin, [ORDERS], [])


def _groups(admin: AdminClient, topics: set[str]) -> list[str]:
    """Consumer groups that have read any of the topics. Raises StillInUse where one is reading."""
    every = consumer_groups.names(admin)
    reading = {group: sorted(consumer_groups.held(admin, group) & topics) for group in every}
    told = ", ".join(f"{group} ({held[0]})" for group, held in sorted(reading.items()) if held)
    if told:
        raise StillInUse(f"stop every service but the gateway first; still reading: {told}")
    return [one for one in every if topics & {o.topic for o in consumer_groups.offsets(admin, one)}]


def _all_results_are_read(admin: AdminClient, there: dict[str, int]) -> None:
    """A result that no committer has seen is a rewrite in vain. Raises StillInUse."""
    places = [TopicPartition(RESULTS, number) for number in range(there.get(RESULTS, 0))]
    if not places:
        return
    read = {
        one.partition: one.offset
        for one in consumer_groups.offsets(admin, COMMITTER)
        if one.topic == RESULTS
    }
    latest = admin.list_offsets({place: OffsetSpec.latest() for place in places})
    ends = {place.partition: one.result(TIMEOUT_S).offset for place, one in latest.items()}
    left = sum(end - max(read.get(number, 0), 0) for number, end in ends.items())
    if left:
        raise StillInUse(f"{left} results wait for the committer: `firnline resume`, let it commit")


def _orders(bootstrap: str, topic: str) -> list[Order]:
    """What people ordered, in time; what is in every partition once."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "rebucket"})
    try:
        found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        records = [one for number in found for one in _records(consumer, topic, number)]
    finally:
        consumer.close()
    return [
        Order(one.timestamp()[1], (one.key() or b"").decode(), one.value() or b"")
        for one in sorted(records, key=lambda one: one.timestamp()[1])
        if one.key() != FLEET.encode() or one.partition() == FLEET_PARTITION
    ]


def _records(consumer: Consumer, topic: str, number: int) -> Iterator[Message]:
    place = TopicPartition(topic, number, OFFSET_BEGINNING)
    start, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
    consumer.assign([place])
    deadline = time.monotonic() + TIMEOUT_S
    while start < end:
        if time.monotonic() > deadline:
            raise StillInUse(f"{topic} could not be read within {TIMEOUT_S:.0f} s; try again")
        for message in consumer.consume(500, LOOK_S):
            if message.error() is None:
                start = (message.offset() or 0) + 1
                yield message


def _delete(admin: AdminClient, names: list[str], groups: list[str]) -> None:
    """Return when they are gone."""
    for group in groups:
        consumer_groups.forget(admin, group)
    for answer in admin.delete_topics(names).values() if names else ():
        answer.result(TIMEOUT_S)
    while set(names) & set(admin.list_topics(timeout=TIMEOUT_S).topics):
        time.sleep(LOOK_S)


def _write(bootstrap: str, orders: list[Order], topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for order in orders:
        home = [bucket_of(order.key, partitions)]
        for place in range(partitions) if order.key == FLEET else home:
            producer.produce(topic, order.value, order.key, place, timestamp=order.at_ms)
    if left := producer.flush(TIMEOUT_S):
        raise StillInUse(f"{left} of people's orders were not taken by the broker; try again")


def main() -> int:
    """Exit code: 0 done, 1 refused."""
    flags = argparse.ArgumentParser(prog="firnline_local.rebucket", description=__doc__)
    flags.add_argument("--to", type=int, required=True, help="partitions of every topic by table")
    wanted = flags.parse_args().to
    try:
        found = rebucket(os.environ["FIRNLINE_KAFKA"], wanted)
    except StillInUse as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{found} buckets were there, {wanted} are. Start every service, the gateway too, with")
    print(f"FIRNLINE_BUCKETS={wanted}, the planner with another FIRNLINE_PLANNER_APP; then")
    print("`firnline adopt --all`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
