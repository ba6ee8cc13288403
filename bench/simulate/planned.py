"""Firnline as its design has it, with what workers cannot execute yet: merges by level, and
conversions. For every unit at once: the formulas of `worth.offers` as arrays (a test holds them
together), each kind of debt paid for since it began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from firnline_domain.burden import READ_COST
from firnline_domain.costs import FIRNLINE
from firnline_domain.thresholds import Thresholds
from firnline_domain.worth import KEY_SHARE

from bench.simulate.fleet import Floats, Ints
from bench.simulate.lake import Holds, fills, merged_of
from bench.simulate.parameters import HOUR_S, Parameters
from bench.simulate.tasks import Batch, charge, converted, rewritten, work_of
from bench.simulate.world import World


@dataclass(frozen=True)
class Prices:
    """CPU seconds per unit: what each action costs, what a scan pays for each kind of debt."""

    compact: Floats
    convert: Floats
    merge: Floats
    deletes_s: Floats
    files_s: Floats
    merged_s: Floats  # of `files_s` with levels: what a merge spares
    positions_s: Floats


def prices_of(held: Holds, p: Parameters) -> Prices:
    """As `worth.offers` has them, deletes of the units being their own."""
    cost, target = READ_COST, p.target_bytes
    deletes = held.delete_records * p.delete_bytes
    whole = held.deletes + held.positions > 0
    taken = merged_of(held, target)
    moved = np.where(whole, held.bytes, held.fragment_bytes)
    keys = held.segment_bytes * KEY_SHARE
    both = FIRNLINE.read_s + FIRNLINE.write_s
    records_s = held.delete_records * FIRNLINE.record_s
    reached = held.files - held.fragments / 2
    dead = np.minimum(held.position_records * p.row_bytes, held.bytes)
    least = np.minimum(np.ceil(held.fragment_bytes / target), held.fragments)
    return Prices(
        compact=FIRNLINE.fixed_s + moved * both + deletes * FIRNLINE.read_s + records_s,
        convert=FIRNLINE.fixed_s
        + held.fragment_bytes * both
        + (keys + deletes) * FIRNLINE.read_s
        + records_s,
        merge=FIRNLINE.fixed_s + taken.bytes * both,
        deletes_s=held.delete_records * reached * cost.load_s + held.deletes * cost.open_s,
        files_s=np.where(held.fragments > 1, held.fragments - least, 0.0) * cost.open_s,
        merged_s=np.maximum(taken.files - np.ceil(taken.bytes / target), 0.0) * cost.open_s,
        positions_s=held.position_records * cost.position_s
        + held.positions * cost.open_s
        + dead * cost.scan_s,
    )


class Planned:
    """Whatever readers have paid for is done; of two actions that are, the one that spares more
    for what it costs."""

    name = "firnline_planned"
    own = FIRNLINE

    def __init__(self, world: World, limits: Thresholds, heat: bool = False) -> None:
        self.world, self.limits = world, limits
        units = world.fleet.units
        self._since = {kind: np.full(units, -1.0) for kind in ("deletes", "files", "positions")}
        known = world.fleet.reads_per_s if heat else np.full(units, limits.reads_per_hour / HOUR_S)
        self._reads_per_s = known

    def committed(self, tick: int, units: Ints) -> None:
        """Debt that was not there begins now."""
        self.world.ledger.looks += len(np.unique(self.world.fleet.table[units]))
        self._begin(tick, units)

    def _begin(self, tick: int, units: Ints) -> None:
        lake, now_s = self.world.lake, tick * self.world.p.tick_s
        small = (lake.fragments[units] > 1) | fills(lake.of(units), self.world.p.target_bytes)
        kinds = {
            "deletes": lake.deletes[units] > 0,
            "files": small,
            "positions": lake.positions[units] > 0,
        }
        for kind, there in kinds.items():
            since = self._since[kind][units]
            self._since[kind][units] = np.where(there, np.where(since < 0, now_s, since), -1.0)

    def act(self, tick: int) -> None:
        """Half a tick later, as Firnline."""
        since = self._since
        some = (since["deletes"] >= 0) | (since["files"] >= 0) | (since["positions"] >= 0)
        units = np.flatnonzero(some & ~self.world.busy)
        if not len(units):
            return
        now_s = (tick + 0.5) * self.world.p.tick_s
        held = self.world.lake.of(units)
        best = self._chosen(units, held, now_s)
        for place, action in enumerate(("compact", "convert", "merge")):
            chosen = best == place
            if chosen.any():
                self._start(tick, action, units[chosen], held.of(np.flatnonzero(chosen)))

    def _chosen(self, units: Ints, held: Holds, now_s: float) -> Ints:
        """-1 = nothing is worth it yet."""
        price, spared = prices_of(held, self.world.p), {}
        age = {
            kind: np.where(since[units] < 0, 0.0, now_s - since[units])
            for kind, since in self._since.items()
        }
        spared["compact"] = (price.deletes_s, price.files_s, price.positions_s)
        hits_s = np.minimum(held.delete_records * READ_COST.position_s, price.deletes_s)
        none = np.zeros(len(units))
        spared["convert"] = (price.deletes_s - hits_s, price.files_s, none)
        spared["merge"] = (none, price.merged_s, none)
        able = (none == 0, held.deletes > 0, held.deletes + held.positions == 0)
        scores = []
        for (name, kinds), can in zip(spared.items(), able, strict=True):
            cost = getattr(price, name)
            ages = (age["deletes"], age["files"], age["positions"])
            paid = sum(s * a for s, a in zip(kinds, ages, strict=True)) / 2
            paid = np.asarray(paid) * self._reads_per_s[units]
            late = np.maximum.reduce(ages) >= self.limits.max_wait_ms / 1000
            due = (paid >= self.limits.payback * cost) | (late & (sum(kinds) > 0))
            scores.append(np.where(due & can, sum(kinds) / cost, -1.0))
        table = np.array(scores)
        return np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1)

    def _start(self, tick: int, action: str, units: Ints, held: Holds) -> None:
        world, no_ops = self.world, 0
        if action == "convert":
            taken, gives, work = converted(world.p, units, held)
        else:
            taken = self._compacted(held) if action == "compact" else self._merged(held)
            gives, size = rewritten(world.p, units, taken)
            same = (taken.deletes + taken.positions == 0) & (gives.files >= taken.files)
            no_ops, work = int(same.sum()), work_of(world.p, taken, size)
        cpu = charge(world.ledger, world.p.costs, self.own, work, no_ops)
        world.ledger.counted(action, len(units))
        world.start(tick, units, Batch(units, taken, gives, cpu))

    def _compacted(self, held: Holds) -> Holds:
        """Everything where there are deletes, else fragments."""
        deleted = held.deletes + held.positions > 0
        taken = held.where(deleted)
        taken.fragments = np.where(held.fragments > 1, held.fragments, taken.fragments)
        taken.fragment_bytes = np.where(
            held.fragments > 1, held.fragment_bytes, taken.fragment_bytes
        )
        return taken

    def _merged(self, held: Holds) -> Holds:
        return merged_of(held, self.world.p.target_bytes)

    def ended(self, tick: int, batch: Batch) -> None:
        """What was taken is paid; what came meanwhile begins now."""
        taken = batch.taken
        for kind, gone in (
            ("deletes", taken.deletes > 0),
            ("files", taken.files > 0),
            ("positions", (taken.positions > 0) & (batch.gives.positions == 0)),
        ):
            self._since[kind][batch.units[gone]] = -1.0
        self._begin(tick, batch.units)
