"""What is measured, each part a function of a stage that answers with plain numbers."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from firnline_domain.identity import MAIN, bucket_of
from firnline_planner.drivers.kafka import changelog
from firnline_planner.drivers.kafka.serve import topic_of
from firnline_planner.state import encoding

from bench.planner import fleet
from bench.planner.stage import (
    BUCKETS,
    Sample,
    Stage,
    ends,
    folder_bytes,
    memory_bytes,
    producer,
    publish,
    send,
)

KeyValueStore = Iterator[tuple[int, bytes, bytes]]  # partition, key, value


def seed(stage: Stage) -> dict[str, Any]:
    """Write the changelog that `stage.tables` tables of LIVED commits each have left."""
    topic = changelog_topic(stage)
    config = changelog.CONFIG
    admin = AdminClient({"bootstrap.servers": stage.kafka})
    admin.create_topics([NewTopic(topic, BUCKETS, 1, config=config)])[topic].result()
    to = producer(stage.kafka)
    sizes: dict[str, int] = defaultdict(int)
    started_s = time.monotonic()
    for kind, partition, key, value in _entries(stage.tables):
        send(to, topic, key, value, partition)
        sizes[kind] += len(key) + len(value)
    for partition, end in ends(stage.kafka).items():
        send(to, topic, encoding.cursor_key("file-changes"), str(end).encode(), partition)
    to.flush()
    stage.skip()
    return {
        "state_bytes_per_table": round(sizes["table"] / stage.tables),
        "state_bytes_per_partition": round(sizes["partition"] / stage.tables),
        "seeding_s": round(time.monotonic() - started_s, 1),
    }


def changelog_topic(stage: Stage) -> str:
    """Where the driver keeps the state."""
    if stage.driver == "kafka":
        return topic_of(stage.app)
    return f"{stage.app}-state-changelog"


def _entries(tables: int) -> Iterator[tuple[str, int, bytes, bytes]]:
    for table, partition in fleet.lived(range(tables)):
        table_key = table.counters.table.key
        place = bucket_of(table_key, BUCKETS)
        key = encoding.partition_key(table_key, MAIN, partition.counters.scope)
        yield "partition", place, key, encoding.to_bytes(partition)
        yield "table", place, encoding.ref_key(table_key, MAIN), encoding.to_bytes(table)


def cold_start(stage: Stage) -> dict[str, Any]:
    """From nothing on the disk to ready: what a planner on another host takes after a kill."""
    started_s = time.monotonic()
    with stage.planner() as process:
        ready_s = time.monotonic() - started_s
        memory = memory_bytes(process)
        process.kill_group()
        process.wait_or_kill()
    again_s = time.monotonic()
    with stage.planner() as process:
        warm_s = time.monotonic() - again_s
        warm = memory_bytes(process)
    return {
        "cold_s": round(ready_s, 2),
        "after_kill_s": round(warm_s, 2),
        "memory": warm,
        "memory_cold": memory,
        "memory_bytes_per_table": round(warm["rss"] / stage.tables),
        "disk_bytes": folder_bytes(stage.log.parent / "state"),
    }


def throughput(stage: Stage, events: int, dice: random.Random) -> dict[str, Any]:
    """Events that lie on the topic, worked off: commits of random tables of the fleet."""
    before = stage.committed()
    until = before + publish(stage.kafka, Commits(stage.tables, dice).next(events))
    with stage.planner() as process:
        samples = stage.samples(process, until)
        memory = memory_bytes(process)
    return {"events": events, **rates(samples), "memory": memory}


class Commits:
    """Of random tables of the fleet, one after the other."""

    def __init__(self, tables: int, dice: random.Random) -> None:
        self._tables = tables
        self._dice = dice
        self._heads: dict[int, int] = defaultdict(lambda: fleet.LIVED)

    def next(self, events: int) -> Iterator[tuple[str, bytes]]:
        """So many more, as messages."""
        for _ in range(events):
            table = self._dice.randrange(self._tables)
            self._heads[table] += 1
            yield fleet.message(table, self._heads[table])


def rates(samples: list[Sample]) -> dict[str, float]:
    """Between the first step forward and the last: wall clock and CPU."""
    steps = [one for one, two in itertools.pairwise(samples) if one.done < two.done]
    first, last = steps[0], samples[-1]
    done = last.done - first.done
    return {
        "events_per_s": round(done / max(last.at_s - first.at_s, 1e-9)),
        "events_per_cpu_s": round(done / max(last.cpu_s - first.cpu_s, 1e-9)),
        "seconds": round(last.at_s - first.at_s, 1),
    }
