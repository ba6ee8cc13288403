"""Firnline: the planner's own policy, on counters as its events would leave them.

`decide_rewrite`, `order_for` and `after_success` are the planner's. What is done here for many
units at once is what `after_change` does for one; a unit whose counters cannot have reached any
threshold is not asked about (a test shows that asking changes nothing)."""

from __future__ import annotations

import numpy as np
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.debt import Debt, debt_of
from firnline_domain.counters.state.work import (
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.policy.cost.cost_benefit import READ_COST, Action
from firnline_domain.policy.cost_model import FIRNLINE, Work, cost_model
from firnline_domain.policy.partition.decide import admit_rewrite, decide_rewrite, order_for
from firnline_domain.policy.partition.outcomes import after_order, after_success, with_head_start
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.triggers.dead_files import positional_records
from firnline_domain.records.parts.dead_rows import DeadRows, Histogram
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds

from bench.simulate.counted import View, at_most_spared, key_bytes, tallies_of
from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import COHORTS
from bench.simulate.peers import OURS
from bench.simulate.reports import Reports
from bench.simulate.tasks import Batch, work_of
from bench.simulate.worker import chosen_by_worker
from bench.simulate.world import World

LATE_MS = 10**14
MAX_MOMENTS = 10**8  # of any simulation
KINDS = 4  # that debt is counted in: fragments, deletes, positions, undersized
COUNTED, POSITIONS = slice(0, 3), 2  # those with a threshold; one of them
UNDER = 3  # the one that has to fill a file
LARGER = slice(1, COHORTS)  # no fragments


class Firnline:
    """Orders follow the commits that make them due, and the moments when time does."""

    name = "firnline"
    own = OURS
    parallel_bytes = np.inf  # an order is one worker's
    together = False

    def __init__(
        self, world: World, limits: Thresholds, ask_always: bool = False, heat: bool = False
    ) -> None:
        """`heat`: readers report their scans."""
        # Its share of keys is as the first conversion shows.
        self._costs = cost_model(limits, key_share=world.p.key_share)
        self.world, self.limits, self._always = world, limits, ask_always
        self.slice_s = limits.slice_ms / 1_000 or np.inf
        units = world.fleet.units
        self._reads: Floats = np.full(units, limits.reads_per_hour)  # as the policy believes
        self._reports = Reports(world, limits) if heat else None
        self._limits: dict[float, Thresholds] = {}
        self._floor = np.zeros((KINDS, units), dtype=np.int64)
        self._arrived = np.zeros((KINDS, units), dtype=np.int64)
        self._since = np.full(units, -1, dtype=np.int64)  # ms; -1 = no debt
        self._undersized_since = np.full(units, -1, dtype=np.int64)
        self._changed = np.zeros(units, dtype=np.int64)
        self._touched_ms = np.zeros(units, dtype=np.int64)
        self._hot_since = np.full(units, -1, dtype=np.int64)
        self._until = np.zeros(units, dtype=np.int64)  # cooling
        self._head_start = np.zeros(units)
        self._positions_since = np.full(units, -1, dtype=np.int64)  # ms; -1 = no positions
        self._chosen = np.zeros(units, dtype=np.int64)  # ms; files, by their dead rows
        self._dead_rows: dict[int, Histogram] = {}  # as the last rewrite left them
        self._seen = np.zeros(units, dtype=np.int64)  # rows dead by position, then
        self._actions = np.full(units, Action.COMPACT, dtype=object)  # of what was ordered last
        self._ratios = np.zeros(units)  # of dead rows, from which on it takes larger files
        self._look = np.full(units, np.iinfo(np.int64).max)  # ms
        self._touched: list[Ints] = []
        self._ranks: dict[int, Decision] = {}  # of units that want a place at once
        self._asked: dict[int, int] = {}  # units that are being asked about: their rows in ...
        self._tallies: list[FileTally] = []  # ... what they hold
        everything = np.arange(units)
        view = self._view(everything)
        self._before = self._files(view)
        self._tables: dict[int, TableWork] = {}
        # A lake is adopted as it is: all that it has is debt, from the first moment on.
        debt = view.debt(limits.target_bytes)
        self._since[debt[COUNTED].any(axis=0)] = 0
        self._undersized_since[debt[UNDER] > 0] = 0
        self._look[debt.any(axis=0)] = 0
        for unit in np.flatnonzero(world.lake.cohorts[0].sum(axis=1) > 0):
            self._head_start[unit] = with_head_start(PartitionWork(), f"{unit}").head_start

    def _view(self, units: Ints) -> View:
        return View(self.world.lake.of(units), self.world.p)

    def _files(self, view: View) -> Ints:
        kinds = (view.fragments, view.deletes, view.positions, view.undersized)
        return np.array(kinds).astype(np.int64)

    def committed(self, now_s: float, units: Ints) -> None:
        """What `after_change` does with an append, for many."""
        if self._reports is not None and self._reports.due(now_s):
            self._reads = self._reports.believed(now_s, self._ms(now_s))
        units = self._reached(units)
        now_ms = self._ms(now_s)
        view = self._view(units)
        files, debt = self._files(view), view.debt(self.limits.target_bytes)
        self._arrived[:, units] += np.maximum(files - self._before[:, units], 0)
        self._before[:, units] = files
        self._floor[:, units] = np.minimum(self._floor[:, units], debt)
        self._changed[units] = now_ms
        merges = units[self.world.fleet.merge[units]]
        self._touched_ms[merges] = now_ms
        more = debt > self._floor[:, units]
        grown, under = more[COUNTED].any(axis=0), more[UNDER]
        self._hot_since[units[~grown & ~under]] = -1
        masked = debt[POSITIONS] > 0
        self._positions_since[units[~masked]] = -1
        began = masked & (self._positions_since[units] < 0)
        self._positions_since[units[began]] = now_ms
        self._undersized_since[units[~under]] = -1
        self._undersized_since[units[under & (self._undersized_since[units] < 0)]] = now_ms
        self._since[units[~grown]] = -1
        fresh = units[grown & (self._since[units] < 0)]
        self._since[fresh] = now_ms
        aged_ms = (self.limits.max_age_ms * (1 - self._head_start[fresh])).astype(np.int64)
        self._look[fresh] = np.minimum(self._look[fresh], now_ms + aged_ms)
        self._touched.append(units)
        self.world.ledger.looks += len(np.unique(self.world.fleet.table[units]))

    def _reached(self, units: Ints) -> Ints:
        """With those that a commit's global deletes reach."""
        fleet = self.world.fleet
        if fleet.whole is None or not fleet.whole[units].any():
            return units
        tables = np.unique(fleet.table[units[fleet.whole[units]]])
        held = self.world.lake.cohorts[0].sum(axis=1) > 0
        return np.union1d(units, np.flatnonzero(np.isin(fleet.table, tables) & held))

    def act(self, now_s: float) -> None:
        """Some seconds after its commits, for a partition that was just written is left alone."""
        now_ms = self._ms(now_s) + int(self.world.p.grain_s * 500)
        due = np.flatnonzero(self._look <= now_ms)
        recent = np.unique(np.concatenate(self._touched)) if self._touched else due[:0]
        self._touched.clear()
        touched = recent[self._may_order(recent, now_ms)] if len(recent) else recent
        units = np.unique(np.concatenate([due, touched]))
        self._look[due] = np.iinfo(np.int64).max
        free = units[~self.world.busy[units]]
        self._ask(free)
        free = self._ranked(free, now_ms)
        chosen = [unit for unit in free if self._orders(unit, now_ms)]
        if chosen:
            self._start(now_s, np.array(chosen))

    def _ask(self, units: Ints) -> None:
        """What these hold is needed in a moment."""
        fleet = self.world.fleet
        self._tallies = tallies_of(
            self._view(units), self.world.p, fleet.vectors[units], self._whole_of(units)
        )
        self._asked = {int(unit): row for row, unit in enumerate(units)}

    def _whole_of(self, units: Ints) -> Flags:
        whole = self.world.fleet.whole
        return np.zeros(len(units), dtype=bool) if whole is None else whole[units]

    def _may_order(self, units: Ints, now_ms: int) -> Flags:
        """Generously: whoever is not over a threshold by this is not by the policy."""
        if self._always:
            return np.ones(len(units), dtype=bool)
        limits, view = self.limits, self._view(units)
        grown = view.debt(limits.target_bytes) - self._floor[:, units]
        least = (limits.min_fragments, limits.min_equality_deletes, limits.min_position_deletes)
        counts = (grown[COUNTED] >= np.array(least)[:, None]).any(axis=0)
        sizes = view.fragment_bytes >= limits.max_size_error * limits.target_bytes
        age_ms = np.where(self._since[units] < 0, 0, now_ms - self._since[units])
        paid = self._paid_share(units, view, age_ms)
        self._look_once_paid(units, paid, age_ms, now_ms)
        cheap = view.fragment_bytes + key_bytes(view, self._costs.key_share) <= limits.cheap_bytes
        cheap |= view.fragment_bytes >= limits.target_bytes  # or done once: it may be due
        merge = self._may_merge(units, grown[UNDER] > 0, view, now_ms)
        mark = self._may_compact_positions(units, view, now_ms)
        aged = self._may_have_aged(units, view, grown, now_ms)
        enough = self._enough(units)
        return np.asarray(((counts | sizes) & cheap) | (paid > enough) | merge | mark | aged)

    def _may_have_aged(self, units: Ints, view: View, grown: Ints, now_ms: int) -> Flags:
        """Debt that is old enough; a lone fragment is it with the next one."""
        there = (self._since[units] >= 0) & ((view.fragments > 1) | (grown[1:3] > 0).any(axis=0))
        wait_ms = (self.limits.max_age_ms * (1 - self._head_start[units])).astype(np.int64)
        due_ms = self._since[units] + wait_ms
        soon = units[there & (due_ms > now_ms)]
        self._look[soon] = np.minimum(self._look[soon], due_ms[there & (due_ms > now_ms)])
        costs = (
            view.fragment_bytes + key_bytes(view, self._costs.key_share) <= self.limits.cheap_bytes
        )
        return np.asarray(there & costs & (due_ms <= now_ms))

    def _enough(self, units: Ints) -> Floats:
        """The share of the price that nobody has paid who is not asked about."""
        return 0.9 * self._least_factor * (1 - self._head_start[units])

    def _may_compact_positions(self, units: Ints, view: View, now_ms: int) -> Flags:
        """The same of rows that are dead by position: as much as if they all had the share of those
        files that have the most, read once and not written."""
        held, limits, cost = self.world.lake.of(units), self.limits, READ_COST
        there = self._positions_since[units] >= 0
        began = np.maximum(self._positions_since[units], self._chosen[units])
        age_ms = np.where(there, now_ms - began, 0)
        large = held.dead[:, LARGER] / np.maximum(held.bytes[:, LARGER], 1.0)
        fresh = np.maximum(view.position_records - self._seen[units], 0)
        rows = view.bytes / self.world.p.row_bytes
        ratio = large.max(axis=1) + fresh / np.maximum(rows, 1.0)
        one = fresh / np.maximum(rows / np.maximum(view.segments, 1.0), 1.0)  # all in one file
        some = there & (np.maximum(ratio, one) >= limits.min_dead_ratio * 0.9)
        spared = ratio * (cost.scan_s + cost.position_s / self.world.p.row_bytes) * 2
        paid = spared / 2 * self._reads[units] * age_ms / HOUR_MS
        paid = np.where(some, paid / (limits.payback * FIRNLINE.read_s), 0.0)
        self._look_once_paid(units, paid, age_ms, now_ms)
        late = some & (age_ms >= limits.max_wait_ms * (1 - self._head_start[units]))
        cheap = some & (view.bytes <= limits.cheap_bytes * 2)
        many = view.positions - view.segments >= limits.min_position_deletes
        return np.asarray((paid > self._enough(units)) | late | cheap | many)

    def _may_merge(self, units: Ints, grown: Flags, view: View, now_ms: int) -> Flags:
        """The same of a merge by level."""
        files, size = view.merged(self.limits.target_bytes)
        price = FIRNLINE.fixed_s + size * (FIRNLINE.read_s + FIRNLINE.write_s)
        since = self._undersized_since[units]
        age_ms = np.where(since < 0, 0, now_ms - since)
        scans = self._reads[units] * age_ms / HOUR_MS
        paid = files * READ_COST.open_s / 2 * scans / (self.limits.payback * price)
        self._look_once_paid(units, np.where(grown, paid, 0.0), age_ms, now_ms)
        cheap = size <= self.limits.cheap_bytes
        return np.asarray(grown & (cheap | (paid > self._enough(units))))

    def _look_once_paid(self, units: Ints, paid: Floats, age_ms: Ints, now_ms: int) -> None:
        """As `until_ms` has it: time alone makes readers pay the rest."""
        enough = self._enough(units)
        due_ms = np.where(paid > 0, age_ms * (enough / np.maximum(paid, 1e-9) - 1), LATE_MS)
        look_ms = now_ms + np.clip(due_ms, 1, LATE_MS).astype(np.int64)
        self._look[units] = np.minimum(self._look[units], look_ms)

    def _paid_share(self, units: Ints, view: View, age_ms: Ints) -> Floats:
        """What readers have paid at most, against the least price."""
        spared = at_most_spared(view, self.world.p)
        paid = spared / 2 * self._reads[units] * age_ms / HOUR_MS
        moved = view.fragment_bytes * (FIRNLINE.read_s + FIRNLINE.write_s)
        price = FIRNLINE.fixed_s + moved + key_bytes(view, self._costs.key_share) * FIRNLINE.read_s
        return np.asarray(paid / (self.limits.payback * price))

    def _given(self, unit: int, now_ms: int) -> PolicyInput:
        """With the reads that the table's readers make."""
        reads, limits = float(self._reads[unit]), self.limits
        if reads != limits.reads_per_hour:
            if reads not in self._limits:
                self._limits[reads] = replace(limits, reads_per_hour=reads)
            limits = self._limits[reads]
        table, partition = self._table(unit), self._partition(unit)
        return PolicyInput(table, limits, self._costs, now_ms, partition)

    def _orders(self, unit: int, now_ms: int) -> bool:
        """Ask the policy; True if it has ordered."""
        given = self._given(unit, now_ms)
        ranked = self._ranks.get(unit)
        if ranked is None:
            decision = decide_rewrite(given)
        elif ranked.order or ranked.wanted:  # orders of its table may have gone out since
            wanted = replace(ranked.wanted or ranked, order=False)
            decision = admit_rewrite(given, wanted)
        else:
            decision = ranked
        if not decision.order:
            if decision.reason is Reason.HOT and self._hot_since[unit] < 0:
                self._hot_since[unit] = now_ms
            if decision.reason is Reason.TABLE_BUSY:
                self._look[unit] = now_ms + 1  # the planner looks when one of them ends
            elif decision.until_ms is not None:
                self._look[unit] = decision.until_ms
            return False
        _, task = order_for(given, decision)
        self._tables[self._table_of(unit)] = given.table.work.add_task(task)
        self._actions[unit] = decision.action
        self._ratios[unit] = decision.min_dead_ratio
        self._keep(unit, after_order(given.partition.work))
        self.world.ledger.counted(decision.reason, 1)
        return True

    def _ranked(self, units: Ints, now_ms: int) -> list[int]:
        """As a planner's visit of a table has it: where several partitions want a place, those go
        first for whom readers have paid the most."""
        tables = self.world.fleet.table[units]
        found, counts = np.unique(tables, return_counts=True)
        several = np.isin(tables, found[counts > 1])
        self._ranks = {int(unit): self._decided(int(unit), now_ms) for unit in units[several]}
        ranks = {unit: decision.rank for unit, decision in self._ranks.items()}
        return sorted((int(unit) for unit in units), key=lambda unit: -ranks.get(unit, 0.0))

    def _decided(self, unit: int, now_ms: int) -> Decision:
        return decide_rewrite(self._given(unit, now_ms))

    def _start(self, now_s: float, units: Ints) -> None:
        held = self.world.lake.of(units)
        target = self.world.p.target_bytes
        choice = chosen_by_worker(held, self._actions[units], self._ratios[units], target)
        self.world.start(now_s, units, choice)

    def ended(self, now_s: float, batch: Batch) -> None:
        """Facts first, as they come back through the enricher; then the outcome."""
        self._before[:, batch.units] = self._files(self._view(batch.units))
        self._learn(batch)
        self._ask(batch.units)
        for unit in batch.units:
            self._succeeded(int(unit), now_s)

    def _learn(self, batch: Batch) -> None:
        """Prices, as the planner has them from each result; the whole fleet is one bucket here."""
        p = self.world.p
        work, keys = work_of(p, batch), (batch.choice.converts * batch.held.bytes).sum(axis=1)
        took_s = np.asarray(p.costs.wall_s(work)) * p.slowness
        columns = (
            work.bytes_read,
            work.bytes_written,
            work.delete_records,
            work.files,
            work.converted,
            keys,
            took_s,
        )
        factors = self._costs.factors
        for row in np.flatnonzero(batch.changes):
            each = [float(np.asarray(one)[row]) for one in columns]
            read, written, records, files, converted, key, took = each
            done = Work(read, written, records, files=files, converted=converted)
            factors = factors.after_task(done, key > 0, took)
        self._costs = replace(self._costs, factors=factors)

    @property
    def _least_factor(self) -> float:
        return min(self._costs.factors.rewrites, self._costs.factors.conversions)

    def _succeeded(self, unit: int, now_s: float) -> None:
        now_ms = self._ms(now_s)
        key = self._table_of(unit)
        work, partition = self._tables[key], self._partition(unit)
        task = work.task_of(partition.counters.scope)
        assert task is not None
        table = self._table(unit)
        deletes = table.counters.global_equality_deletes
        debt = debt_of(partition.counters.holds, self.limits.target_bytes, deletes)
        masked = positional_records(partition.counters.holds)
        task = replace(task, dead_rows=self._histogram(unit))
        self._keep(unit, after_success(partition.work, debt, task, self.limits, now_ms, masked))
        snapshot = self._snapshot_of(task, now_s)
        pace = work.commit_rate.with_commits((snapshot,), self.limits.max_commits, now_ms)
        self._tables[key] = replace(work.drop_task(task), commit_rate=pace)
        if self._since[unit] >= 0 or self._before[:, unit].any():
            self._look[unit] = self._until[unit]

    def _histogram(self, unit: int) -> Histogram:
        """A bin for each cohort of larger files."""
        held = self.world.lake.of(np.array([unit]))
        rows = self.world.p.row_bytes
        return tuple(
            DeadRows(max(round(files), 1), int(size), int(size / rows), int(masked * size / rows))
            for files, size, masked in zip(
                held.files[0, LARGER], held.bytes[0, LARGER], held.masked[0, LARGER], strict=True
            )
            if size >= rows
        )

    def _snapshot_of(self, task: RunningTask, now_s: float) -> int:
        """Results of one table's orders of one moment that are there in the same minute share a
        commit; conversions have a snapshot of their own in it."""
        moment = int(now_s / self.world.p.grain_s)
        return (task.ordered_at_ms * MAX_MOMENTS + moment) * 2 + (task.action == Action.CONVERT)

    def _keep(self, unit: int, work: PartitionWork) -> None:
        self._floor[:, unit] = _kinds_of(work.floor)
        self._arrived[:, unit] = _kinds_of(work.arrived)
        self._since[unit] = -1 if work.debt_since_ms is None else work.debt_since_ms
        positions = work.positions_since_ms
        self._positions_since[unit] = -1 if positions is None else positions
        self._chosen[unit], self._seen[unit] = work.chosen_ms, work.positions_seen
        self._dead_rows[unit] = work.dead_rows
        self._hot_since[unit] = -1 if work.hot_since_ms is None else work.hot_since_ms
        under = work.undersized_since_ms
        self._undersized_since[unit] = -1 if under is None else under
        self._until[unit] = work.until_ms or 0
        self._head_start[unit] = work.head_start

    def _table_of(self, unit: int) -> int:
        return int(self.world.fleet.table[unit])

    def _whole(self, unit: int) -> bool:
        whole = self.world.fleet.whole
        return whole is not None and bool(whole[unit])

    def _table(self, unit: int) -> Table:
        key = self._table_of(unit)
        name = TableName(f"{key:08d}", ("fleet",), f"t{key}")
        totals = Totals()
        if self._whole(unit):  # as many as reach this partition: the others' count for theirs
            deletes = int(self.world.lake.of(np.array([unit])).deletes[0])
            totals = Totals(partitioned=1, unpartitioned_equality_deletes=deletes)
        head = int(self._changed[unit])
        counters = TableCounters(name, MAIN, known=True, head_snapshot_id=head, totals=totals)
        return Table(counters, self._tables.get(key) or TableWork())

    def _partition(self, unit: int) -> Partition:
        counters = PartitionCounters(
            Scope(1, f"[{unit}]"),
            holds=self._tallies[self._asked[unit]],
            changed_ms=int(self._changed[unit]),
        )
        until, since = int(self._until[unit]), int(self._since[unit])
        under, positions = int(self._undersized_since[unit]), int(self._positions_since[unit])
        hot = int(self._hot_since[unit])
        work = PartitionWork(
            floor=self._debt_of(unit, self._floor),
            arrived=self._debt_of(unit, self._arrived),
            debt_since_ms=None if since < 0 else since,
            undersized_since_ms=None if under < 0 else under,
            positions_since_ms=None if positions < 0 else positions,
            chosen_ms=int(self._chosen[unit]),
            dead_rows=self._dead_rows.get(unit, ()),
            positions_seen=int(self._seen[unit]),
            touched_ms=int(self._touched_ms[unit]),
            hot_since_ms=None if hot < 0 else hot,
            pause="cooling" if until else "",
            until_ms=until or None,
            head_start=float(self._head_start[unit]),
        )
        return Partition(counters, work)

    def _debt_of(self, unit: int, kinds: Ints) -> Debt:
        fragments, equality, positions, undersized = kinds[:, unit].tolist()
        if self._whole(unit):
            return Debt(fragments, 0, positions, equality, undersized)
        return Debt(fragments, equality, positions, undersized=undersized)

    def _ms(self, now_s: float) -> int:
        return int((now_s + self.world.p.grain_s) * 1000)


def _kinds_of(debt: Debt) -> tuple[int, int, int, int]:
    deletes = debt.equality_deletes + debt.global_deletes
    return debt.fragments, deletes, debt.position_deletes, debt.undersized
