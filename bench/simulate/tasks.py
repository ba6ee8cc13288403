"""Rewrites under way: what they took, what they will leave, when they end and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from firnline_domain.policy.costs import CostModel, Work

from bench.simulate.fleet import Floats, Ints
from bench.simulate.lake import Holds, put_whole
from bench.simulate.parameters import Parameters


@dataclass(frozen=True)
class Batch:
    """Tasks of one start, one per unit. `taken` goes when they end; `gives` comes then."""

    units: Ints
    taken: Holds
    gives: Holds
    cpu_s: Floats


@dataclass
class Ledger:
    """What maintenance has cost so far."""

    tasks: int = 0
    no_ops: int = 0
    commits: int = 0  # partitions of a table that begin and end together share one
    cpu_s: float = 0.0
    gb_hours: float = 0.0  # with the same engine for everyone
    own_gb_hours: float = 0.0  # with the engine that the system brings
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    looks: float = 0.0  # tables whose metadata were read to find out what to do
    orders: dict[str, int] = field(default_factory=dict)

    def counted(self, reason: str, tasks: int) -> None:
        """Orders of one reason."""
        self.orders[reason] = self.orders.get(reason, 0) + tasks


def work_of(p: Parameters, taken: Holds, written: Floats, read: Floats | None = None) -> Work:
    """The work of tasks that read `taken` (or only `read` of its data bytes). Its fields are
    arrays: the model's arithmetic does not mind."""
    deletes = taken.delete_records * p.delete_bytes + taken.position_records
    bytes_read = (taken.bytes if read is None else read) + deletes
    loads = taken.delete_records * (taken.segments + taken.fragments / 2)
    opened = taken.files + taken.deletes + taken.positions
    parts: tuple[Any, ...] = (bytes_read, written, taken.delete_records, loads, opened)
    return Work(*parts)


def charge(ledger: Ledger, costs: CostModel, own: CostModel, work: Work, no_ops: int = 0) -> Floats:
    """Enter tasks into the ledger; their CPU seconds with the common engine."""
    cpu = np.asarray(costs.cpu_s(work), dtype=float)
    ledger.tasks += len(cpu)
    ledger.no_ops += no_ops
    ledger.cpu_s += float(cpu.sum())
    ledger.gb_hours += float(np.sum(costs.gb_hours(work)))
    ledger.own_gb_hours += float(np.sum(own.gb_hours(work)))
    ledger.bytes_read += float(np.sum(work.bytes_read))
    ledger.bytes_written += float(np.sum(work.bytes_written))
    return cpu


def rewritten(p: Parameters, units: Ints, taken: Holds) -> tuple[Holds, Floats]:
    """What a rewrite of the taken files gives, and its bytes."""
    gives = Holds.nothing(len(units))
    size = np.maximum(taken.bytes - taken.dead_bytes, 0.0)
    put_whole(gives, np.arange(len(units)), size, p.target_bytes)
    return gives, size


def converted(p: Parameters, units: Ints, held: Holds) -> tuple[Holds, Holds, Work]:
    """A conversion: fragments are merged; for the segments equality deletes become positions, for
    which the key columns of every segment are read. What it takes, what it gives, its work."""
    taken, gives = Holds.nothing(len(units)), Holds.nothing(len(units))
    for name in ("fragments", "fragment_bytes", "deletes", "delete_records"):
        setattr(taken, name, getattr(held, name))
    taken.positions, taken.position_records = held.positions, held.position_records
    in_segments = held.segment_bytes / np.maximum(held.bytes, 1.0)
    fresh_dead = np.maximum(held.dead_bytes - held.position_records * p.row_bytes, 0.0)
    taken.dead_bytes = fresh_dead * (1 - in_segments)
    merged, size = rewritten(p, units, taken)
    gives.add(np.arange(len(units)), merged)
    hits = fresh_dead * in_segments / p.row_bytes
    touched = (held.deletes > 0) | (held.positions > 0)
    gives.positions = np.where(touched & (hits + held.position_records > 0), held.segments, 0.0)
    gives.position_records = held.position_records + hits
    keys = np.where(held.deletes > 0, held.segment_bytes * p.key_share, 0.0)
    return (
        taken,
        gives,
        work_of(p, taken, size + gives.position_records, held.fragment_bytes + keys),
    )
