"""Whatever is lost, repeated, reordered or late: in the end the counters are those of the table."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange, TickPassed
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.bucket_state import BucketState
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.memory_store import MemoryStore

TABLE = TableName("11111111-aaaa", ("db",), "t")
SCOPES = [Scope(0, "[]"), Scope(1, '["a"]'), Scope(1, '["b"]'), Scope(1, '["c"]')]
Files = dict[Scope, int]  # fragments per partition: enough to tell every fold apart


def tally(files: int) -> FileTally:
    return FileTally(fragments=Tally(files, files * 10, files * 100))


@dataclass
class Lake:
    """The table as it is, and the enricher that reads it."""

    version: int  # of the format: sequence numbers of v1 are all 0
    files: dict[int | None, Files] = field(default_factory=lambda: {None: {}})
    parents: dict[int, int | None] = field(default_factory=dict)
    head: int | None = None
    moment: int = 0  # of the enricher's clock

    def commit(self, adds: Files, removes: Files) -> None:
        """A snapshot on the head; removals stay within what is there."""
        now = dict(self.files[self.head])
        for scope, count in adds.items():
            now[scope] = now.get(scope, 0) + count
        for scope, count in removes.items():
            now[scope] = max(now.get(scope, 0) - count, 0)
        snapshot = len(self.parents) + 1
        self.parents[snapshot], self.files[snapshot] = self.head, now
        self.head = snapshot

    def changes(self, old: Files, new: Files) -> list[PartitionChange]:
        return [
            PartitionChange(
                scope,
                tally(max(new.get(scope, 0) - old.get(scope, 0), 0)),
                tally(max(old.get(scope, 0) - new.get(scope, 0), 0)),
            )
            for scope in SCOPES
            if old.get(scope, 0) != new.get(scope, 0)
        ]

    def told(
        self, kind: ChangeKind, snapshot: int | None, parts: list[PartitionChange], chunks: int
    ) -> list[FilesChanged]:
        """The event as the enricher would send it, in so many chunks."""
        self.moment += 1
        cut = [tuple(parts[number::chunks]) for number in range(chunks)]
        parent = self.parents[snapshot] if snapshot else None
        return [
            FilesChanged(
                event_id=f"{kind}:{snapshot}:{self.moment}",
                table=TABLE,
                ref="main",
                kind=kind,
                snapshot_id=snapshot,
                parent_snapshot_id=parent,
                sequence_number=(snapshot or 0) if self.version > 1 else 0,
                timestamp_ms=0,
                operation="append",
                partitions=part,
                format_version=self.version,
                chunk=number,
                chunks=chunks,
                observed_at_ms=self.moment,
            )
            for number, part in enumerate(cut)
        ]

    def delta(self, snapshot: int, chunks: int) -> list[FilesChanged]:
        parts = self.changes(self.files[self.parents[snapshot]], self.files[snapshot])
        return self.told(ChangeKind.DELTA, snapshot, parts, chunks)

    def absolute(self, chunks: int) -> list[FilesChanged]:
        parts = self.changes({}, self.files[self.head])
        return self.told(ChangeKind.ABSOLUTE, self.head, parts, chunks)

    def moved(self, back_to: int, with_difference: bool) -> list[FilesChanged]:
        """A rollback; the enricher may or may not know the difference."""
        old = self.head
        self.head = back_to
        parts = self.changes(self.files[old], self.files[back_to]) if with_difference else []
        [event] = self.told(ChangeKind.REF_MOVED, back_to, parts, 1)
        return [replace(event, parent_snapshot_id=old)]

    def answer(self, request: ResyncTable, chunks: int) -> list[FilesChanged]:
        """Deltas where the known snapshot is an ancestor of the head, else absolute counters."""
        path: list[int] = []
        step = self.head
        while step is not None and step != request.known_snapshot_id:
            path.append(step)
            step = self.parents[step]
        if request.known_snapshot_id is None or step is None:
            return self.absolute(chunks)
        return [event for snapshot in reversed(path) for event in self.delta(snapshot, chunks)]


@dataclass
class Planner:
    """One bucket, its clock, and what it asked for."""

    bucket: PlannerBucket
    state: BucketState
    now_ms: int = 1_000_000
    asked: list[ResyncTable] = field(default_factory=list)

    def take(self, record: object) -> None:
        self.now_ms += 100
        step = self.bucket.handle(record, self.now_ms)
        self.bucket.commit()
        self.asked.extend(one.record for one in step.outputs if one.topic == "resync-requests")

    def tick(self, seconds: int) -> None:
        self.now_ms += seconds * 1000
        self.take(TickPassed(0, self.now_ms))


def planner() -> Planner:
    pairs = MemoryStore()
    return Planner(PlannerBucket(pairs, Thresholds()), BucketState(pairs))


file_counts = st.dictionaries(st.sampled_from(SCOPES), st.integers(1, 5), max_size=4)
commit = st.tuples(st.just("commit"), file_counts, file_counts, st.integers(1, 3))
rollback = st.tuples(st.just("rollback"), st.integers(1, 6), st.booleans())
fate = st.sampled_from(["sent"] * 6 + ["twice", "late", "lost"])


@dataclass(frozen=True)
class Story:
    """One random history."""

    moves: list[tuple[Any, ...]]
    fates: list[str]  # of events, in turn
    version: int
    born_before_us: bool  # the planner hears only the second half
    chunks: int  # of an answer to a resync request
    answers_take: float  # slots
    answers_lost: int


stories = st.builds(
    Story,
    moves=st.lists(st.one_of(commit, commit, commit, rollback), min_size=1, max_size=25),
    fates=st.lists(fate, min_size=1, max_size=40),
    version=st.sampled_from([1, 2]),
    born_before_us=st.booleans(),
    chunks=st.integers(1, 3),
    answers_take=st.sampled_from([0.0, 0.5, 2.5, 5.5]),
    answers_lost=st.integers(0, 3),
)


@dataclass
class Road:
    """From enricher to planner: records arrive in the order of their slots."""

    arriving: list[tuple[float, int, FilesChanged]] = field(default_factory=list)
    sent: int = 0

    def put(self, event: FilesChanged, slot: float) -> None:
        self.sent += 1
        heapq.heappush(self.arriving, (slot, self.sent, event))

    def until(self, slot: float) -> Iterator[FilesChanged]:
        while self.arriving and self.arriving[0][0] <= slot:
            yield heapq.heappop(self.arriving)[2]


def play(lake: Lake, side: Planner, story: Story) -> None:
    """Writers commit, the enricher tells, the planner hears some of it, some of it late."""
    road = Road()
    deaf = len(story.moves) // 2 if story.born_before_us else 0
    for slot, move in enumerate(story.moves):
        for event in one_move(lake, move):
            luck = story.fates[road.sent % len(story.fates)]
            if slot >= deaf and luck != "lost":
                road.put(event, slot + (3.5 if luck == "late" else 0))
            road.sent += 1
            if luck == "twice":
                road.put(event, slot + 6.5)
        for event in road.until(slot):
            side.take(event)
        if story.fates[slot % len(story.fates)] != "sent":
            side.tick(4)
        for request in side.asked[:1]:
            side.asked.clear()
            for event in lake.answer(request, story.chunks):
                road.put(event, slot + story.answers_take)
    for event in road.until(float("inf")):
        side.take(event)


def one_move(lake: Lake, move: tuple[Any, ...]) -> list[FilesChanged]:
    if move[0] == "rollback":
        ancestors = list(range(1, len(lake.parents) + 1))
        if not ancestors:
            return []
        target = lake.head
        for _ in range(move[1]):
            target = lake.parents[target] if target else None
        return lake.moved(target, move[2]) if target else []
    _, adds, removes, chunks = move
    lake.commit(adds, removes)
    assert lake.head is not None
    return lake.delta(lake.head, chunks)


def settle(lake: Lake, side: Planner, story: Story) -> None:
    """Time passes, requests are answered; the first ones may get lost."""
    lost = story.answers_lost
    for _ in range(8):
        side.tick(400)
        while side.asked:
            request = side.asked.pop(0)
            if lost:
                lost -= 1
                continue
            for event in lake.answer(request, story.chunks):
                side.take(event)


def counted(side: Planner) -> Files:
    found: Files = defaultdict(int)
    for partition in side.state.partitions(TABLE.uuid, "main"):
        found[partition.counters.scope] += partition.counters.holds.fragments.files
    return {scope: files for scope, files in found.items() if files}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories)
def test_counters_equal_a_recount(story: Story) -> None:
    lake, side = Lake(story.version), planner()
    play(lake, side, story)
    lake.commit({SCOPES[0]: 1}, {})
    assert lake.head is not None
    for event in lake.delta(lake.head, 1):  # a last commit arrives: without one nobody can know
        side.take(event)
    settle(lake, side, story)

    table = side.state.table(TABLE.uuid, "main")
    assert table is not None
    truth = {scope: files for scope, files in lake.files[lake.head].items() if files}
    assert (table.counters.head_snapshot_id, table.counters.waiting) == (lake.head, None)
    assert counted(side) == truth
    assert table.counters.totals.holds == tally(sum(truth.values()))
    assert table.counters.totals.partitions == len(truth)
    assert table.counters.held == ()
