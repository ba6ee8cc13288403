"""Firnline: the planner's own policy, on counters as its events would leave them.

`decide`, `order_for` and `succeeded` are the planner's. What is done here for many units at once is
what `after_change` does for one; a unit whose counters cannot have reached any threshold is not
asked about (a test shows that asking changes nothing).
"""

from __future__ import annotations

import numpy as np
from firnline_domain.counters.counters import PartitionCounters, TableCounters
from firnline_domain.counters.debts import Debt, debt_of
from firnline_domain.counters.work import Partition, PartitionWork, RunningTask, Table, TableWork
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.policy.burden import READ_COST
from firnline_domain.policy.cost_benefit import KEY_SHARE, Action
from firnline_domain.policy.costs import FIRNLINE
from firnline_domain.policy.decisions import Reason
from firnline_domain.policy.outcomes import ordered, succeeded
from firnline_domain.policy.rewrite import decide, order_for
from firnline_domain.records.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import HOUR_MS
from firnline_domain.values import replace

from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import Holds, fills, merged_of
from bench.simulate.parameters import HOUR_S, Parameters
from bench.simulate.tasks import Batch, charge, converted, rewritten, work_of
from bench.simulate.world import World

LATE_MS = 10**14
MOST_TICKS = 10**7  # of any simulation
KINDS = ("fragments", "deletes", "positions", "undersized")  # that debt is counted in
COUNTED, UNDERSIZED = slice(0, 3), 3  # those with a threshold, and the one that has to fill a file


class Firnline:
    """Orders follow the commits that make them due, and the moments when time does."""

    name = "firnline"
    own = FIRNLINE

    def __init__(
        self, world: World, limits: Thresholds, ask_always: bool = False, heat: bool = False
    ) -> None:
        """`heat`: readers report their scans, and what is assumed of a table is the least."""
        self.world, self.limits, self._always = world, limits, ask_always
        self._limits: dict[int, Thresholds] = {}
        self._heat = heat
        units = world.fleet.units
        assumed = np.full(units, limits.reads_per_hour)
        known = np.maximum(world.fleet.reads_per_s * HOUR_S, assumed)
        self._reads: Floats = known if heat else assumed  # an hour, as the policy believes
        self._floor = np.zeros((len(KINDS), units), dtype=np.int64)
        self._arrived = np.zeros((len(KINDS), units), dtype=np.int64)
        self._since = np.full(units, -1, dtype=np.int64)  # ms; -1 = no debt
        self._undersized_since = np.full(units, -1, dtype=np.int64)
        self._changed = np.zeros(units, dtype=np.int64)
        self._until = np.zeros(units, dtype=np.int64)  # cooling
        self._converted = np.full(units, -1, dtype=np.int64)  # ms; -1 = no positions of conversions
        self._actions = np.full(units, Action.COMPACT, dtype=object)  # of what was ordered last
        self._look = np.full(units, np.iinfo(np.int64).max)  # ms
        self._touched: Ints = np.zeros(0, dtype=np.int64)
        self._before = self._files(np.arange(units))
        self._floor[:] = self._debt(np.arange(units))  # bases are as they are
        self._tables: dict[int, TableWork] = {}

    def _files(self, units: Ints) -> Ints:
        lake = self.world.lake
        return np.array([getattr(lake, kind)[units] for kind in KINDS]).astype(np.int64)

    def _debt(self, units: Ints) -> Ints:
        """Undersized files are it where they fill one (`levels.undersized_debt`)."""
        found = self._files(units)
        found[UNDERSIZED] *= fills(self.world.lake.of(units), self.limits.target_bytes)
        return found

    def committed(self, tick: int, units: Ints) -> None:
        """What `after_change` does with an append, for many."""
        now_ms = self._ms(tick)
        files, debt = self._files(units), self._debt(units)
        self._arrived[:, units] += files - self._before[:, units]
        self._before[:, units] = files
        self._floor[:, units] = np.minimum(self._floor[:, units], debt)
        self._changed[units] = now_ms
        more = debt > self._floor[:, units]
        grown, under = more[COUNTED].any(axis=0), more[UNDERSIZED]
        self._undersized_since[units[~under]] = -1
        self._undersized_since[units[under & (self._undersized_since[units] < 0)]] = now_ms
        self._since[units[~grown]] = -1
        fresh = units[grown & (self._since[units] < 0)]
        self._since[fresh] = now_ms
        self._look[fresh] = np.minimum(self._look[fresh], now_ms + self.limits.max_age_ms)
        self._touched = units
        self.world.ledger.looks += len(np.unique(self.world.fleet.table[units]))

    def act(self, tick: int) -> None:
        """Half a tick after its commits: they are spread over it in truth."""
        now_ms = self._ms(tick) + int(self.world.p.tick_s * 500)
        due = np.flatnonzero(self._look <= now_ms)
        touched = self._touched[self._may_order(self._touched, now_ms)]
        self._touched = self._touched[:0]
        units = np.unique(np.concatenate([due, touched]))
        self._look[due] = np.iinfo(np.int64).max
        free = self._ranked(units[~self.world.busy[units]], now_ms)
        chosen = [unit for unit in free if self._orders(unit, now_ms)]
        if chosen:
            self._start(tick, np.array(chosen))

    def _may_order(self, units: Ints, now_ms: int) -> Flags:
        """Generously: whoever is not over a threshold by this is not by the policy."""
        if self._always:
            return np.ones(len(units), dtype=bool)
        limits = self.limits
        grown = self._debt(units) - self._floor[:, units]
        least = (limits.min_fragments, limits.min_equality_deletes, limits.min_position_deletes)
        counts = (grown[COUNTED] >= np.array(least)[:, None]).any(axis=0)
        held = self.world.lake.of(units)
        sizes = held.fragment_bytes >= limits.max_size_error * limits.target_bytes
        age_ms = np.where(self._since[units] < 0, 0, now_ms - self._since[units])
        paid = self._paid_share(units, held, age_ms)
        self._look_once_paid(units, paid, age_ms, now_ms)
        cheap = self._moved(held) <= limits.cheap_bytes
        merge = self._may_merge(units, grown[UNDERSIZED] > 0, held, now_ms)
        mark = self._may_compact_positions(units, held, now_ms)
        return np.asarray(((counts | sizes) & cheap) | (paid > 0.9) | merge | mark)

    def _may_compact_positions(self, units: Ints, held: Holds, now_ms: int) -> Flags:
        """The same of what conversions have left."""
        since = self._converted[units]
        age_ms = np.where(since < 0, 0, now_ms - since)
        cost = READ_COST
        dead = np.minimum(held.position_records * self.world.p.row_bytes * 1.01, held.bytes)
        spared = held.positions * cost.open_s + held.position_records * cost.position_s
        spared = spared + dead * cost.scan_s
        price = FIRNLINE.fixed_s + held.bytes * (FIRNLINE.read_s + FIRNLINE.write_s)
        paid = spared / 2 * self._reads[units] * age_ms / HOUR_MS / (self.limits.payback * price)
        paid = np.where(since < 0, 0.0, paid)
        self._look_once_paid(units, paid, age_ms, now_ms)
        many = (held.positions >= self.limits.min_position_deletes) & (since >= 0)
        late = many & (
            (age_ms >= self.limits.max_wait_ms) | (held.bytes <= self.limits.cheap_bytes)
        )
        recycled = (held.positions > 0) & (age_ms >= self.limits.retention_ms)
        return np.asarray((paid > 0.9) | late | recycled)

    def _may_merge(self, units: Ints, grown: Flags, held: Holds, now_ms: int) -> Flags:
        """The same of a merge by level."""
        taken = merged_of(held, self.limits.target_bytes)
        price = FIRNLINE.fixed_s + taken.bytes * (FIRNLINE.read_s + FIRNLINE.write_s)
        since = self._undersized_since[units]
        age_ms = np.where(since < 0, 0, now_ms - since)
        scans = self._reads[units] * age_ms / HOUR_MS
        paid = taken.files * READ_COST.open_s / 2 * scans / (self.limits.payback * price)
        self._look_once_paid(units, np.where(grown, paid, 0.0), age_ms, now_ms)
        cheap = taken.bytes <= self.limits.cheap_bytes
        return np.asarray(grown & (cheap | (paid > 0.9)))

    def _look_once_paid(self, units: Ints, paid: Floats, age_ms: Ints, now_ms: int) -> None:
        """As `until_ms` has it: time alone makes readers pay the rest."""
        due_ms = np.where(paid > 0, age_ms * (0.9 / np.maximum(paid, 1e-9) - 1), LATE_MS)
        look_ms = now_ms + np.clip(due_ms, 1, LATE_MS).astype(np.int64)
        self._look[units] = np.minimum(self._look[units], look_ms)

    def _moved(self, held: Holds) -> Floats:
        """Bytes that the least of the actions takes."""
        return np.asarray(held.fragment_bytes + _keys(held))

    def _paid_share(self, units: Ints, held: Holds, age_ms: Ints) -> Floats:
        """What readers have paid at most, against the least price."""
        spared = at_most_spared(held, self.world.p)
        paid = spared / 2 * self._reads[units] * age_ms / HOUR_MS
        moved = held.fragment_bytes * (FIRNLINE.read_s + FIRNLINE.write_s)
        price = FIRNLINE.fixed_s + moved + _keys(held) * FIRNLINE.read_s
        return np.asarray(paid / (self.limits.payback * price))

    def _limits_of(self, unit: int) -> Thresholds:
        """As the table's properties would make them."""
        if not self._heat:
            return self.limits
        key = self._table_of(unit)
        if key not in self._limits:
            self._limits[key] = replace(self.limits, reads_per_hour=float(self._reads[unit]))
        return self._limits[key]

    def _orders(self, unit: int, now_ms: int) -> bool:
        """Ask the policy; True if it has ordered."""
        table, partition = self._table(unit), self._partition(unit)
        limits = self._limits_of(unit)
        decision = decide(table, partition, limits, now_ms)
        if not decision.order:
            if decision.reason is Reason.TABLE_BUSY:
                self._look[unit] = now_ms + 1  # the planner looks when one of them ends
            elif decision.until_ms is not None:
                self._look[unit] = decision.until_ms
            return False
        _, task = order_for(table, partition, decision, limits, now_ms)
        self._tables[self._table_of(unit)] = table.work.started(task)
        self._actions[unit] = decision.action
        self._keep(unit, ordered(partition.work))
        self.world.ledger.counted(decision.reason, 1)
        return True

    def _ranked(self, units: Ints, now_ms: int) -> list[int]:
        """As a planner's visit of a table has it: where several partitions want a place, those go
        first for whom readers have paid the most."""
        tables = self.world.fleet.table[units]
        found, counts = np.unique(tables, return_counts=True)
        several = np.isin(tables, found[counts > 1])
        ranks = {int(unit): self._rank(int(unit), now_ms) for unit in units[several]}
        return sorted((int(unit) for unit in units), key=lambda unit: -ranks.get(unit, 0.0))

    def _rank(self, unit: int, now_ms: int) -> float:
        limits = self._limits_of(unit)
        return decide(self._table(unit), self._partition(unit), limits, now_ms).rank

    def _start(self, tick: int, units: Ints) -> None:
        world = self.world
        converts = self._actions[units] == Action.CONVERT
        if converts.any():
            self._convert(tick, units[converts])
            units = units[~converts]
        held = world.lake.of(units)
        taken = self._taken(held, self._actions[units] == Action.MERGE)
        gives, size = rewritten(world.p, units, taken)
        idle = (taken.deletes + taken.positions == 0) & (gives.files >= taken.files)
        taken, gives, size = taken.where(~idle), gives.where(~idle), size * ~idle
        work = work_of(world.p, taken, size)
        cpu = charge(world.ledger, world.p.costs, self.own, work, int(idle.sum()))
        world.start(tick, units, Batch(units, taken, gives, cpu))

    def _convert(self, tick: int, units: Ints) -> None:
        world = self.world
        taken, gives, work = converted(world.p, units, world.lake.of(units))
        cpu = charge(world.ledger, world.p.costs, self.own, work)
        world.start(tick, units, Batch(units, taken, gives, cpu))

    def _taken(self, held: Holds, merges: Flags) -> Holds:
        """What the worker takes: every file that a delete applies to, all fragments of two or
        more, for a merge also the undersized. Deletes of a unit reach all of its older files."""
        deleted = held.deletes + held.positions > 0
        small = merged_of(held, self.limits.target_bytes).where(~deleted)
        small.undersized *= merges
        small.undersized_bytes *= merges
        alone = (held.fragments > 1) | (small.undersized > 0)
        taken = small.where(alone)
        taken.add(np.arange(len(held.files)), held.where(deleted))
        return taken

    def ended(self, tick: int, batch: Batch) -> None:
        """Facts first, as they come back through the enricher; then the outcome."""
        self._before[:, batch.units] = self._files(batch.units)
        for unit in batch.units:
            self._succeeded(int(unit), tick)

    def _succeeded(self, unit: int, tick: int) -> None:
        now_ms = self._ms(tick)
        key = self._table_of(unit)
        work, partition = self._tables[key], self._partition(unit)
        task = work.task_of(partition.counters.scope)
        assert task is not None
        debt = debt_of(partition.counters.holds, self.limits.target_bytes)
        self._keep(unit, succeeded(partition.work, debt, task, self.limits, now_ms))
        snapshot = _snapshot_of(task, tick)
        pace = work.commit_rate.after((snapshot,), self.limits.max_commits, now_ms)
        self._tables[key] = replace(work.ended(task), commit_rate=pace)
        if self._since[unit] >= 0 or self._before[:, unit].any():
            self._look[unit] = self._until[unit]

    def _keep(self, unit: int, work: PartitionWork) -> None:
        self._floor[:, unit] = _kinds_of(work.floor)
        self._arrived[:, unit] = _kinds_of(work.arrived)
        self._since[unit] = -1 if work.debt_since_ms is None else work.debt_since_ms
        self._converted[unit] = -1 if work.converted_ms is None else work.converted_ms
        under = work.undersized_since_ms
        self._undersized_since[unit] = -1 if under is None else under
        self._until[unit] = work.until_ms or 0

    def _table_of(self, unit: int) -> int:
        return int(self.world.fleet.table[unit])

    def _table(self, unit: int) -> Table:
        key = self._table_of(unit)
        name = TableName(f"{key:08d}", ("fleet",), f"t{key}")
        counters = TableCounters(name, MAIN, known=True, head_snapshot_id=int(self._changed[unit]))
        return Table(counters, self._tables.get(key) or TableWork())

    def _partition(self, unit: int) -> Partition:
        counters = PartitionCounters(
            Scope(1, f"[{unit}]"),
            holds=tally_of(self.world.lake, unit, self.world.p),
            changed_ms=int(self._changed[unit]),
        )
        until, since = int(self._until[unit]), int(self._since[unit])
        under, converted_ms = int(self._undersized_since[unit]), int(self._converted[unit])
        work = PartitionWork(
            floor=_debt_of(self._floor[:, unit]),
            arrived=_debt_of(self._arrived[:, unit]),
            debt_since_ms=None if since < 0 else since,
            undersized_since_ms=None if under < 0 else under,
            converted_ms=None if converted_ms < 0 else converted_ms,
            pause="cooling" if until else "",
            until_ms=until or None,
        )
        return Partition(counters, work)

    def _ms(self, tick: int) -> int:
        return int((tick + 1) * self.world.p.tick_s * 1000)


def _snapshot_of(task: RunningTask, tick: int) -> int:
    """Results of one table's orders of one moment that are there in the same minute share a commit;
    conversions have a snapshot of their own in it."""
    return (task.ordered_at_ms * MOST_TICKS + tick) * 2 + (task.action == Action.CONVERT)


def _kinds_of(debt: Debt) -> tuple[int, int, int, int]:
    return debt.fragments, debt.equality_deletes, debt.position_deletes, debt.undersized


def _debt_of(kinds: Ints) -> Debt:
    fragments, equality, positions, undersized = kinds.tolist()
    return Debt(fragments, equality, positions, undersized=undersized)


def _keys(held: Holds) -> Floats:
    """Bytes of the keys that a conversion reads."""
    return np.where(held.deletes > 0, held.segment_bytes * KEY_SHARE, 0.0)


def at_most_spared(held: Holds, p: Parameters) -> Floats:
    """CPU seconds per scan, of `burden` or a little more."""
    cost = READ_COST
    files = held.fragments + held.deletes + held.positions
    dead = np.minimum(held.position_records * p.row_bytes * 1.01, held.bytes)
    loads = held.delete_records * (held.segments + held.fragments / 2)
    positions = held.position_records * cost.position_s + dead * cost.scan_s
    return np.asarray(files * cost.open_s + loads * cost.load_s + positions)


def tally_of(lake: Holds, unit: int, p: Parameters) -> FileTally:
    """A unit as the planner's counters have it."""

    def data(files: float, size: float) -> Tally:
        return Tally(int(files), int(size / p.row_bytes), int(size))

    records, positions = lake.delete_records[unit], lake.position_records[unit]
    return FileTally(
        fragments=data(lake.fragments[unit], lake.fragment_bytes[unit]),
        undersized=data(lake.undersized[unit], lake.undersized_bytes[unit]),
        on_target=data(lake.large[unit], lake.large_bytes[unit]),
        equality_deletes=Tally(
            int(lake.deletes[unit]), int(records), int(records * p.delete_bytes)
        ),
        position_deletes=Tally(int(lake.positions[unit]), int(positions), int(positions)),
    )
