"""Another number of buckets: `python -m firnline_local.rebucket --to N`, on FIRNLINE_KAFKA.

Records of a table lie in partition crc32(uuid) modulo the number of buckets, so with another number
every topic begins anew. What the planner counts is counted again by `firnline adopt`; what people
have switched is carried over. docs/how-to/buckets.md has the whole procedure.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection
from functools import partial

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicMetadata
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.lanes import group_at
from firnline_domain.records.pauses import TOPIC as ORDERS
from firnline_domain.settings.groups import Group

from firnline_local import consumer_groups, pauses_copy
from firnline_local.consumer_groups import LOOK_S
from firnline_local.topics import REPLICAS, TIMEOUT_S, fleet_groups, make_topics, topics_with

BUCKETS_OF = "table-commits"  # every deployment has it, with as many partitions as buckets
RESULTS, COMMITTER = "task-results", "committer"
Topics = dict[str, TopicMetadata]


class Refused(RuntimeError):
    """Something would be lost; the message says what to wait for, or what to stop. Nothing was
    touched."""


def rebucket(bootstrap: str, wanted: int, groups: Collection[Group] = ()) -> int:
    """Make every topic anew with `wanted` partitions; how many there were. Repeatable: a run that
    was killed half-way is ended by the next, also by one that wants another number. `groups`: the
    fleet's; topics of others that are there are made anew like theirs.

    Raises Refused; pauses_copy.PausesNotCopied and KafkaException where the broker does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = _topics(admin)
    groups = {*groups, *(Group(name) for name in map(group_at, there) if name)}
    topics = topics_with(groups)
    names = [one.name for one in topics if one.fixed_partitions is None and one.name in there]
    other = {name: there[name] for name in names if len(there[name].partitions) != wanted}
    if other:
        _refuse_copies(other)
        _refuse_readers(admin, set(other))
        _refuse_results(admin, other)
        _delete(admin, [name for name in other if name != ORDERS])
    if ORDERS in other:
        pauses_copy.set_aside(admin, bootstrap)
        _delete(admin, [ORDERS])
    make_topics(bootstrap, wanted, groups)
    if pauses_copy.MOVING in _topics(admin):
        pauses_copy.put_back(bootstrap, wanted)
        _delete(admin, [pauses_copy.MOVING])
    return len(there[BUCKETS_OF].partitions) if BUCKETS_OF in there else 0


def _topics(admin: AdminClient) -> Topics:
    return dict(admin.list_topics(timeout=TIMEOUT_S).topics)


def _refuse_copies(topics: Topics) -> None:
    """Topics are made as their files say, on one broker: not like those of a cluster."""
    for name, topic in topics.items():
        if any(len(one.replicas) != REPLICAS for one in topic.partitions.values()):
            raise Refused(f"{name} has replicas, which would be lost: see docs/how-to/buckets.md")


def _refuse_readers(admin: AdminClient, topics: set[str]) -> None:
    reading = {
        one: consumer_groups.held(admin, one) & topics for one in consumer_groups.names(admin)
    }
    readers = ", ".join(f"{one} ({min(held)})" for one, held in sorted(reading.items()) if held)
    if readers:
        raise Refused(f"stop every service but the gateway first; still reading: {readers}")


def _refuse_results(admin: AdminClient, topics: Topics) -> None:
    """A result that no committer has seen is a rewrite in vain."""
    if RESULTS not in topics:
        return
    places = [TopicPartition(RESULTS, one) for one in topics[RESULTS].partitions]
    firsts, lasts = (
        consumer_groups.answered(partial(_offsets, admin, places, which))
        for which in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    read = {
        one.partition: one.offset
        for one in consumer_groups.offsets(admin, COMMITTER)
        if one.topic == RESULTS
    }
    left = sum(end - max(read.get(one, 0), firsts[one]) for one, end in lasts.items())
    if left:
        raise Refused(f"{left} results wait for the committer: `firnline resume`, let it commit")


def _offsets(admin: AdminClient, places: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    answers = admin.list_offsets(dict.fromkeys(places, which))
    return {place.partition: one.result(TIMEOUT_S).offset for place, one in answers.items()}


def _delete(admin: AdminClient, names: list[str]) -> None:
    """Return when they are gone, and with them what groups remember of them."""
    for answer in admin.delete_topics(names).values() if names else ():
        answer.result(TIMEOUT_S)
    while set(names) & set(_topics(admin)):
        time.sleep(LOOK_S)


def main() -> int:
    """Exit code: 0 done, 1 refused or to be tried again."""
    flags = argparse.ArgumentParser(prog="firnline_local.rebucket", description=__doc__)
    flags.add_argument("--to", type=int, required=True, help="partitions of every topic by table")
    wanted = flags.parse_args().to
    try:
        found = rebucket(os.environ["FIRNLINE_KAFKA"], wanted, fleet_groups())
    except (Refused, Misconfigured, pauses_copy.PausesNotCopied) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{found} buckets were there, {wanted} are. Start every service, the gateway first, with")
    print(f"FIRNLINE_BUCKETS={wanted}, the planner with another FIRNLINE_PLANNER_APP; then")
    print("`firnline adopt --all`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
