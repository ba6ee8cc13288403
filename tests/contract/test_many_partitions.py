"""A table of 500 partitions: planner, workers and committer in simulated time, as they stand.

Only the rewrites themselves are not run: they take a moment, and replace all small files that a
partition has when they begin by one.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.attempts import AttemptProgress
from firnline_committer.handlers import CommitterHandlers
from firnline_committer.pump import CommitterPump
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    FilesChanged,
    PartitionChange,
    RewriteCommitted,
    TickPassed,
)
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import (
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket

from tests.kit.changes import delta
from tests.kit.long_run import mark_long
from tests.kit.memory_store import MemoryStore
from tests.kit.names import TABLE

PARTITIONS = 500
SCOPES = [Scope(0, f'["{number:03}"]') for number in range(PARTITIONS)]
HOUR_MS = 3_600_000
ENRICHED_MS = 500  # from a commit until the planner knows of it
AT_ONCE = 4  # rewrites, of one worker
QUICK, SLOW = (300, 700), (3_000, 9_000)  # ms that each takes, on a quiet host and on a busy one
KB = 1_000


@dataclass
class Table:
    """What is in it, and what has been told of it."""

    files: dict[Scope, int] = field(default_factory=lambda: dict.fromkeys(SCOPES, 0))
    head: int = 0
    ours_ms: list[int] = field(default_factory=list)  # when we have committed

    @property
    def at_rest(self) -> bool:
        return max(self.files.values()) == 1


class Committing(CommitterHandlers):
    """Every result of a turn is one snapshot."""

    def __init__(self, world: World) -> None:
        self._world = world

    def advance(self, records: Sequence[Any]) -> AttemptProgress:
        world, table = self._world, self._world.table
        taken = {one.scope: len(one.groups[0].inputs) for one in records}
        head = world.commits({scope: (1, count) for scope, count in taken.items()}, records)
        table.ours_ms.append(world.now_ms)
        return AttemptProgress([committed(one, head, world.now_ms) for one in records])


def committed(result: RewriteFinished, snapshot: int, at_ms: int) -> RewriteCommitted:
    files = len(result.groups[0].inputs)
    return RewriteCommitted(
        task_id=result.task_id, table=TABLE, ref="main", scope=result.scope,
        snapshot_ids=(snapshot,), start_snapshot_id=result.start_snapshot_id,
        files_removed=files, files_added=1, equality_deletes_removed=0,
        position_deletes_removed=0, bytes_before=files * KB, bytes_after=files * KB, rows_in=files,
        rows_masked=0, rows_out=files, mode=Mode.NATIVE, redelivered=False, committed_at_ms=at_ms,
    )  # fmt: skip


class World:
    """A clock, and everybody who moves with it."""

    def __init__(self, took: tuple[int, int] = QUICK, step_ms: int = 50) -> None:
        """`took`: ms of a rewrite, at least and at most."""
        self.now_ms, self._step_ms, self._took = 1_795_000_000_000, step_ms, took
        self.table, self._dice = Table(), random.Random(1)
        self._bucket = PlannerBucket(MemoryStore(), Thresholds(min_fragments=3))
        self._broker = MemoryBroker(1)
        self._publisher = MemoryPublisher(self._broker)
        self._events = MemoryInbox(self._broker, "planner", ["maintenance-events"])
        self._told: deque[tuple[int, FilesChanged]] = deque()
        self._orders: deque[RewriteFiles] = deque()
        self._running: list[tuple[int, RewriteFiles, int]] = []
        inbox = MemoryInbox(self._broker, "committer", ["task-results"])
        self._pump = CommitterPump(
            inbox,
            self._publisher,
            Committing(self),
            Log("t"),
            lambda: self.now_ms / 1000,
            gather_s=30.0,
        )

    def commits(
        self, changes: dict[Scope, tuple[int, int]], results: Sequence[RewriteFinished] = ()
    ) -> int:
        """Files added and removed by partition; the planner hears of them later."""
        table = self.table
        for scope, (added, removed) in changes.items():
            table.files[scope] += added - removed
        table.head += 1
        parts = tuple(
            PartitionChange(scope, fragments(added), fragments(removed))
            for scope, (added, removed) in changes.items()
        )
        change = delta(
            TABLE, table.head, self.now_ms, *parts, operation="replace" if results else "append",
            task_id=",".join(one.task_id for one in results) or None,
        )  # fmt: skip
        self._told.append((self.now_ms + ENRICHED_MS, change))
        return table.head

    def step(self) -> None:
        self.now_ms += self._step_ms
        while self._told and self._told[0][0] <= self.now_ms:
            self._plan(self._told.popleft()[1])
        for delivery in self._events.poll(0):
            self._plan(delivery.record)
        if self.now_ms % max(5 * self._step_ms, 1_000) == 0:
            self._plan(TickPassed(0, self.now_ms))
        self._work()
        self._pump.step(0)

    def _plan(self, record: Any) -> None:
        step = self._bucket.handle(record, self.now_ms)
        self._bucket.commit()
        self._orders += [one.record for one in step.outputs if isinstance(one.record, RewriteFiles)]

    def _work(self) -> None:
        for ended in [one for one in self._running if one[0] <= self.now_ms]:
            self._running.remove(ended)
            self._publisher.publish("task-results", TABLE.uuid, self._result(*ended))
        while self._orders and len(self._running) < AT_ONCE:
            order, took = self._orders.popleft(), self._dice.randint(*self._took)
            self._running.append((self.now_ms + took, order, self.table.files[order.scope]))

    def _result(self, at_ms: int, order: RewriteFiles, files: int) -> RewriteFinished:
        inputs = tuple(InputFile(f"{order.task_id}-{n}", 1, 1, KB) for n in range(files))
        group = RewriteGroup(inputs, (OutputFile(order.task_id, files, KB, "{}"),), files, 0, files)
        return RewriteFinished(
            task_id=order.task_id, table=TABLE, ref="main", scope=order.scope,
            attempt=1, worker="w", mode=Mode.NATIVE, start_snapshot_id=1,
            start_sequence_number=1, schema_id=0, groups=(group,), applied_deletes=(),
            output_list=None, ordered_at_ms=order.ordered_at_ms,
            started_at_ms=at_ms - self._took[1], first_byte_at_ms=at_ms,
            finished_at_ms=at_ms, batch_size=order.batch_size,
        )  # fmt: skip

    def run(self, until: Callable[[], bool], most_s: float) -> float:
        """Seconds until it was so; or `most_s`."""
        began = self.now_ms
        while not until() and self.now_ms < began + most_s * 1000:
            self.step()
        return (self.now_ms - began) / 1000


def fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count, count * KB)) if count else FileTally()


def all_at_once() -> Iterator[list[Scope]]:
    """Three commits of all partitions."""
    yield from [SCOPES] * 3


def a_few_at_a_time() -> Iterator[list[Scope]]:
    """As a stream's checkpoints: ten partitions each."""
    for _ in range(3):
        yield from (SCOPES[first : first + 10] for first in range(0, PARTITIONS, 10))


def written(world: World, writes: Callable[[], Iterator[list[Scope]]]) -> None:
    for scopes in writes():
        world.commits(dict.fromkeys(scopes, (1, 0)))
        world.run(lambda: False, 0.6)


@pytest.mark.parametrize("writes", mark_long([all_at_once, a_few_at_a_time], but=[all_at_once]))
def test_they_are_at_rest_two_minutes_after_the_last_write(
    writes: Callable[[], Iterator[list[Scope]]],
) -> None:
    world = World()
    written(world, writes)
    assert world.run(lambda: world.table.at_rest, 3_600) <= 120
    assert len(world.table.ours_ms) <= 30


@pytest.mark.parametrize("writes", mark_long([all_at_once, a_few_at_a_time], but=[all_at_once]))
def test_on_a_busy_host_they_wait_for_its_workers_and_not_for_the_ceiling(
    writes: Callable[[], Iterator[list[Scope]]],
) -> None:
    """Results come four at a time, with seconds between them."""
    world = World(SLOW)
    written(world, writes)
    work_s = PARTITIONS * sum(SLOW) / 2 / AT_ONCE / 1000
    assert world.run(lambda: world.table.at_rest, 2 * 3_600) <= work_s + 60
    assert len(world.table.ours_ms) <= 60


@pytest.mark.long
def test_a_stream_into_all_of_them_passes_no_ceiling_and_is_kept_up_with() -> None:
    """Twenty partitions every three seconds, so each is written to every 75 s."""
    world, dice = World(step_ms=1_000), random.Random(2)
    end_ms, most = world.now_ms + HOUR_MS * 5 // 4, 0
    while world.now_ms < end_ms:
        world.commits(dict.fromkeys(dice.sample(SCOPES, 20), (1, 0)))
        world.run(lambda: False, 3.0)
        most = max(most, *world.table.files.values())
    ours = world.table.ours_ms
    assert max(sum(1 for one in ours if at <= one < at + HOUR_MS) for at in ours) <= 120
    assert most < 20
