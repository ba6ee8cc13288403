"""After a rewrite no policy orders the same again, whatever has happened before.

A partition lives through random commits, moments and rewrites. The worker is modelled by its own
rules (`planning.plan`): all fragments of two or more, or with deletes; for a merge or a conversion
the undersized files where they fill one; larger files from the order's share of dead rows on;
outputs full, and one of what is left; of a whole table two at least (decision 0008). What a
conversion leaves of larger files gets a file of positions each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import debt_added_by, debt_of
from firnline_domain.counters.state.file_sizes import fills_target
from firnline_domain.counters.state.work import Partition, PartitionWork, Table, TableWork
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import order_for
from firnline_domain.policy.partition.outcomes import after_change, after_order, after_success
from firnline_domain.policy.reasons import Decision
from firnline_domain.policy.triggers.dead_files import positional_records
from firnline_domain.policy.triggers.full_rewrites import with_full_interval
from firnline_domain.records.parts.dead_rows import build_histogram
from firnline_domain.records.parts.tallies import FileTally, Tally, size_class
from firnline_domain.settings.thresholds import PROPERTIES, ConversionPolicy, Thresholds
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kit.partitions import decide, policy_input

MB = 1 << 20
TARGET = 128 * MB
KNOWN = TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7)
SCOPE = Scope(1, '["a"]')
MOMENT_MS = 60_000
Commit = tuple[list[int], FileTally, int]


def data(size: int) -> FileTally:
    return FileTally(**{size_class(size, TARGET).value: Tally(1, size // 30, size)})


def summed(files: list[FileTally]) -> FileTally:
    return sum(files, FileTally())


@dataclass
class Life:
    """A partition with its files, one by one, as the worker sees them."""

    limits: Thresholds
    whole_table: bool
    now_ms: int = 10**12
    work: PartitionWork = PartitionWork()  # noqa: RUF009 - it is frozen
    rewrites: int = 0

    def __post_init__(self) -> None:
        self.sizes: list[int] = []
        self.dead: dict[int, int] = {}  # rows, by the size of their file: no two have the same
        self.deletes = FileTally()
        self.changed_ms = 0

    @property
    def partition(self) -> Partition:
        holds = summed([data(size) for size in self.sizes]) + self.deletes
        counters = PartitionCounters(SCOPE, 1, 1, holds, changed_ms=self.changed_ms)
        return Partition(counters, self.work)

    def decision(self) -> Decision:
        self.work = with_full_interval(self.work, self.limits, "a", self.now_ms)
        return decide(Table(KNOWN, TableWork()), self.partition, self.limits, self.now_ms)

    def commit(self, sizes: list[int], deletes: FileTally) -> None:
        self.sizes, self.deletes = self.sizes + sizes, self.deletes + deletes
        self._mask(deletes)
        self.changed_ms = self.now_ms
        added = debt_added_by(summed([data(size) for size in sizes]) + deletes)
        debt = debt_of(self.partition.counters.holds, TARGET)
        self.work = after_change(self.work, debt, added, self.now_ms)

    def _mask(self, deletes: FileTally) -> None:
        """Vectors are about the largest file alone, position deletes about all."""
        rows = dict.fromkeys(
            self.sizes, deletes.position_deletes.records // max(len(self.sizes), 1)
        )
        if self.sizes:
            rows[max(self.sizes)] += deletes.deletion_vectors.records
        for size, count in rows.items():
            self.dead[size] = min(self.dead.get(size, 0) + count, size // 30)

    def _ratio(self, size: int) -> float:
        records = sum(one // 30 for one in self.sizes)
        hits = self.deletes.equality_deletes.records / max(records, 1)
        return round(1 - (1 - self.dead.get(size, 0) / max(size // 30, 1)) * math.exp(-hits), 9)

    def rewrite(self, decision: Decision, meanwhile: tuple[list[int], FileTally]) -> None:
        _, task = order_for(
            policy_input(Table(KNOWN, TableWork()), self.partition, self.limits, self.now_ms),
            decision,
        )
        self.work = after_order(self.work)
        taken = self._taken(decision)
        left = [size for size in self.sizes if size not in taken]
        equality = self.deletes.equality_deletes.records
        if decision.action is Action.CONVERT:
            share = equality / max(sum(size // 30 for size in self.sizes), 1)
            for size in left:
                hit = int(size // 30 * min(share, 1.0))
                self.dead[size] = min(self.dead.get(size, 0) + hit, size // 30)
        self.deletes = self._left_of_deletes(decision.action, left)
        self.dead = {size: self.dead.get(size, 0) for size in left}
        self.sizes = left + self._outputs(sum(taken), bool(left))
        told = build_histogram(
            (size, size // 30, self.dead.get(size, 0)) for size in self.sizes if size * 8 >= TARGET
        )
        self.commit(*meanwhile)
        holds = self.partition.counters.holds
        done = replace(task, dead_rows=told)
        debt, masked = debt_of(holds, TARGET), positional_records(holds)
        changed = self.changed_ms
        self.work = after_success(self.work, debt, done, self.limits, self.now_ms, masked, changed)
        self.rewrites += 1

    def _left_of_deletes(self, action: Action, left: list[int]) -> FileTally:
        if not left:
            return FileTally()
        masked = [self.dead.get(size, 0) for size in left if self.dead.get(size, 0)]
        if action is Action.CONVERT:
            return FileTally(position_deletes=Tally(len(masked), sum(masked), sum(masked)))
        return replace(self.deletes, equality_deletes=Tally()) if masked else FileTally()

    def _taken(self, decision: Decision) -> list[int]:
        action, ratio = decision.action, decision.min_dead_ratio
        if action is Action.FULL:
            return list(self.sizes)
        holds = self.partition.counters.holds
        by_level = action is not Action.COMPACT and fills_target(holds, TARGET)
        small = [s for s in self.sizes if s * 100 < TARGET * (75 if by_level else 12.5)]
        taken = small if len(small) > 1 else []
        if self.deletes.delete_files:
            taken += [s for s in self.sizes if s * 8 < TARGET or self._ratio(s) >= ratio]
        if self.deletes.equality_deletes.files and action is Action.COMPACT:
            taken += self.sizes
        return [size for size in self.sizes if size in taken]

    def _outputs(self, size: int, others: bool) -> list[int]:
        least = 2 if self.whole_table and not others and size > 1 else 1
        files = max(-(-size // TARGET), least) if size else 0
        return [size // files + (place < size % files) for place in range(files)]


SIZES = st.lists(st.integers(1, 200 * MB), max_size=6, unique=True)
RECORDS = st.integers(1, 5_000_000)
MASKING = st.builds(
    lambda equality, positions, vectors, records: FileTally(
        equality_deletes=Tally(equality, equality * records, equality * records),
        position_deletes=Tally(positions, positions * records, positions * records),
        deletion_vectors=Tally(vectors, vectors * records, vectors * records),
    ),
    st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), RECORDS,
)  # fmt: skip
DELETES = st.just(FileTally()) | MASKING
COMMITS = st.tuples(SIZES, DELETES, st.integers(1, 600))
HISTORIES = st.lists(COMMITS, max_size=12)
BY_HAND: dict[str, st.SearchStrategy[Any]] = {
    "target_bytes": st.just(TARGET),
    "cheap_bytes": st.sampled_from([0, 64 * MB, 1 << 40]),
    "reads_per_hour": st.sampled_from([0.0, 1.0, 600.0]),
    "payback": st.sampled_from([0.1, 1.0]),
    "max_size_error": st.sampled_from([0.0, 0.05, 0.2]),
    "convert": st.sampled_from(ConversionPolicy),
    "streaming_readers": st.booleans(),
    "max_read_amplification": st.sampled_from([0.0, 1.01, 1.25]),
    "max_oldest_debt_ms": st.sampled_from([0, 60_000]),
    "max_equality_delete_age_ms": st.sampled_from([0, 60_000]),
    "max_in_flight": st.just(16),  # with none nothing is ordered
}
DRAWN = {  # a new number of rewrites is tried without a line here: its least, two, its default
    one.field: st.sampled_from(
        sorted({one.range.low, min(max(one.range.low, 2), one.range.high), default})
    )
    for name, one in PROPERTIES.items()
    if one.range is not None and name.startswith("firnline.rewrite.")
    if (default := getattr(Thresholds(), one.field)) is not None
}
LIMITS = st.builds(Thresholds, **{**DRAWN, **BY_HAND})
YEAR_MS = 366 * 86_400_000
NO_PROMISES = Thresholds(enabled=True, reads_per_hour=0.0, max_equality_delete_age_ms=0)
DELETES_ALONE = FileTally(equality_deletes=Tally(1, 1, 1))


def lived(limits: Thresholds, whole_table: bool, history: list[Commit]) -> Life:
    life = Life(limits, whole_table)
    for sizes, deletes, moments in history:
        life.commit([size for size in sizes if size not in life.sizes], deletes)
        life.now_ms += moments * MOMENT_MS
        if (decision := life.decision()).order:
            life.rewrite(decision, ([], FileTally()))
    return life


@settings(max_examples=100, deadline=None)
@given(LIMITS, st.booleans(), HISTORIES)
def test_after_a_rewrite_nothing_is_ordered_however_long_one_waits(
    limits: Thresholds,
    whole_table: bool,
    history: list[Commit],
) -> None:
    life = lived(limits, whole_table, history)
    for _ in range(3):  # what a conversion leaves is for a compaction, and that for a merge
        life.now_ms += YEAR_MS
        if (decision := life.decision()).order:
            life.rewrite(decision, ([], FileTally()))
            if decision.action is Action.MERGE:
                break
    for wait_ms in (0, limits.cool_down_ms, 3_600_000, YEAR_MS):
        life.now_ms += wait_ms
        assert not life.decision().order


@settings(max_examples=80, deadline=None)
@given(LIMITS, st.booleans(), HISTORIES, SIZES, DELETES)
def test_what_comes_while_a_rewrite_runs_is_served_once_by_each_action(
    limits: Thresholds,
    whole_table: bool,
    history: list[Commit],
    sizes: list[int],
    deletes: FileTally,
) -> None:
    life = lived(limits, whole_table, history)
    life.now_ms += YEAR_MS
    if not (decision := life.decision()).order:
        return
    life.rewrite(decision, ([size for size in sizes if size not in life.sizes], deletes))
    served = []
    for _ in range(6):
        life.now_ms += YEAR_MS
        if (decision := life.decision()).order:
            life.rewrite(decision, ([], FileTally()))
            served.append((decision.action, decision.min_dead_ratio))
    assert len(served) == len({*served})


@settings(max_examples=80, deadline=None)
@example(NO_PROMISES, [([], DELETES_ALONE, 1)])
@given(LIMITS, HISTORIES)
def test_debt_that_a_rewrite_can_mend_is_served_within_a_year(
    limits: Thresholds,
    history: list[Commit],
) -> None:
    """The other side: no brake holds for ever."""
    limits = replace(limits, max_wait_ms=86_400_000)
    life = lived(limits, False, history)
    life.now_ms += YEAR_MS
    for _ in range(4):  # a merge may follow a compaction, or two, but no more of them
        if (decision := life.decision()).order:
            life.rewrite(decision, ([], FileTally()))
            life.now_ms += YEAR_MS
    holds = life.partition.counters.holds
    # Where no data file ever was, delete files are `remove_dangling_deletes`'s.
    assert holds.equality_deletes.files == 0 or not life.sizes
    for size in life.sizes:
        most = max(0.31, limits.min_dead_ratio)
        assert size * 8 < TARGET or life.dead.get(size, 0) <= most * (size // 30)
    assert holds.fragments.files <= 1
    assert limits.max_size_error == 0 or not fills_target(holds, TARGET)
