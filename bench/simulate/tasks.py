"""Rewrites under way: what they took, what they will leave, when they end and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from firnline_domain.policy.cost_model import CpuRates, Work

from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import (
    ADDED,
    BORN,
    BYTES,
    FILES,
    FRAGMENT,
    LARGE,
    MASKED,
    PENDING,
    POSITIONS,
    SEEN,
    SEEN_RECORDS,
    UNDERSIZED,
    Cube,
    Held,
    Lake,
    whole,
)
from bench.simulate.parameters import Parameters


@dataclass(frozen=True)
class Choice:
    """The share of each cohort's files that a task rewrites, and the share of which it converts
    the equality deletes into positions. `clears`: the unit's equality deletes go with its commit,
    for they reach no other file."""

    rewrites: Floats  # [unit, cohort]
    converts: Floats
    clears: Flags
    apart: bool = False  # each large file by itself, as Amoro's tasks have them

    def of(self, chosen: Flags | Ints) -> Choice:
        """Of some units."""
        return Choice(self.rewrites[chosen], self.converts[chosen], self.clears[chosen], self.apart)

    @classmethod
    def nothing(cls, units: int) -> Choice:
        empty = np.zeros((units, LARGE.stop))
        return cls(empty, empty.copy(), np.zeros(units, dtype=bool))


@dataclass(frozen=True)
class Batch:
    """Tasks of one start, one per unit: what they found and what of it they work on."""

    units: Ints
    held: Held  # when they started
    choice: Choice
    groups: tuple[tuple[Floats, Floats], ...]  # outputs per unit: files, size of each
    positions: Floats  # [unit, cohort] that converted files are to have
    changes: Flags  # False = nothing to do
    started_s: float = 0.0

    def of(self, chosen: Ints) -> Batch:
        """Some of the tasks."""
        return Batch(
            self.units[chosen],
            self.held.of(chosen),
            self.choice.of(chosen),
            tuple((files[chosen], size[chosen]) for files, size in self.groups),
            self.positions[chosen],
            self.changes[chosen],
            self.started_s,
        )


def batch_of(p: Parameters, units: Ints, held: Held, choice: Choice, now_s: float = 0.0) -> Batch:
    """What the tasks will give. One that rewrites no file with deletes and does not lessen the
    files changes nothing."""
    taken = held.files * choice.rewrites
    live = held.live * choice.rewrites
    groups = _apart(live, taken, p) if choice.apart else _together(live.sum(axis=1), p)
    deletes = ((held.reach + held.positions) * (choice.rewrites > 0)).sum(axis=1)
    positions = _converted(held, choice, p)
    combined = positions < held.positions - 1e-6
    converts = (choice.converts * held.files * ((held.reach > 0) | combined)).sum(axis=1) > 0
    fewer = sum(files for files, _ in groups) < taken.sum(axis=1) - 1e-6
    changes = (deletes > 0) | converts | fewer
    return Batch(units, held, choice, groups, positions, changes, now_s)


def _together(live: Floats, p: Parameters) -> tuple[tuple[Floats, Floats], ...]:
    full, each, left = whole(live, p.target_bytes)
    return (full, each), ((left > 0).astype(float), left)


def _apart(live: Floats, files: Floats, p: Parameters) -> tuple[tuple[Floats, Floats], ...]:
    """Bins of at most the target: fragments and undersized files share some, a large file has one
    for itself."""
    groups = list(_together(live[:, FRAGMENT].sum(axis=1), p))
    size = live[:, UNDERSIZED].sum(axis=1)
    many = files[:, UNDERSIZED].sum(axis=1)
    mean = size / np.maximum(many, 1e-9)
    per_bin = np.maximum(np.floor(p.target_bytes / np.maximum(mean, 1.0)), 1.0)
    bins = np.ceil(many / per_bin - 1e-9)
    groups.append((bins, size / np.maximum(bins, 1.0)))
    for slot in range(LARGE.start, LARGE.stop):
        of = files[:, slot]
        if of.any():
            groups.append((of, live[:, slot] / np.maximum(of, 1e-9)))
    return tuple(groups)


def _converted(held: Held, choice: Choice, p: Parameters) -> Floats:
    """Position-delete files of the converted cohorts. What a file has of its own is written anew
    with the rest: one file or vector for each data file in which a row is hit."""
    files = held.files
    safe = np.maximum(files, 1e-9)
    rows = held.cohorts[PENDING] / p.row_bytes
    hit = -np.expm1(-rows / safe)  # the share of the files in which a row is
    had = np.minimum(held.positions / safe, 1.0)
    return np.asarray(
        np.where(choice.converts > 0, files * (1 - (1 - had) * (1 - hit)), held.positions)
    )


def work_of(p: Parameters, batch: Batch) -> Work:
    """Its fields are arrays: the model's arithmetic does not mind."""
    held, choice = batch.held, batch.choice
    read = (held.bytes * choice.rewrites).sum(axis=1)
    keys = (held.bytes * choice.converts * (held.reach > 0)).sum(axis=1) * p.key_share
    written = sum(files * size for files, size in batch.groups)
    either = (choice.rewrites + choice.converts) > 0
    records = np.where(either, held.reach_records, 0.0).max(axis=1)
    loads = (held.reach_records * held.files * either).sum(axis=1)
    marks = (held.cohorts[PENDING] * choice.converts).sum(axis=1) / p.row_bytes
    positions = (held.positions * (choice.rewrites > 0)).sum(axis=1)
    opened = (
        (held.files * choice.rewrites).sum(axis=1)
        + np.where(either, held.reach, 0.0).max(axis=1)
        + positions
        + sum(files for files, _ in batch.groups)
    )
    idle = ~batch.changes
    converted = (held.files * choice.converts * (held.reach > 0)).sum(axis=1)
    read_bytes = read + keys + records * p.delete_bytes
    fields = (read_bytes, written + marks, records, loads, opened, converted)
    return Work(*(np.where(idle, 0.0, one) for one in fields))  # type: ignore[arg-type]


def finish(lake: Lake, batch: Batch, target: float) -> None:
    """The commit: what was taken goes, its outputs come, and what writers did meanwhile holds."""
    done = np.flatnonzero(batch.changes)
    if not len(done):
        return
    batch = batch.of(done)
    units, held, choice = batch.units, batch.held, batch.choice
    now = lake.cohorts[:, units]
    grown = [np.maximum(now[row] - held.cohorts[row], 0.0) for row in (MASKED, PENDING, POSITIONS)]
    # Of rows that died meanwhile in a cohort, those in the files that were taken.
    among = held.live / np.maximum(held.live + np.maximum(now[BYTES] - held.bytes, 0.0), 1.0)
    came = [growth * among * choice.rewrites for growth in grown]
    for row in range(ADDED):
        now[row] -= held.cohorts[row] * choice.rewrites
    for row, moved in zip((MASKED, PENDING, POSITIONS), came, strict=True):
        now[row] -= moved
    converted = held.cohorts[PENDING] * choice.converts
    now[PENDING] -= converted
    now[MASKED] += converted
    now[POSITIONS] += (batch.positions - held.positions) * choice.converts
    lake.cohorts[:, units] = _tidied(now)
    born = (held.cohorts[BORN] * held.bytes * choice.rewrites).sum(axis=1) / np.maximum(
        (held.bytes * choice.rewrites).sum(axis=1), 1.0
    )
    got = np.zeros((len(units), now.shape[2]))
    for files, size in batch.groups:
        slots = lake.put(units, files, size, held.came, born, target)
        np.add.at(got, (np.arange(len(units)), slots), files * size)
    share = got / np.maximum(got.sum(axis=1), 1.0)[:, None]
    for row, moved in zip((MASKED, PENDING, POSITIONS), came, strict=True):
        lake.cohorts[row, units] += moved.sum(axis=1)[:, None] * share
    clears = units[choice.clears]
    lake.cleared[:, clears] = np.maximum(lake.cleared[:, clears], held.came[:, choice.clears])
    more = lake.came[0, clears] > lake.cleared[0, clears]
    lake.waits_since[clears] = np.where(more, batch.started_s, np.inf)


def _tidied(cohorts: Cube) -> Cube:
    """Without the dust that fractions leave."""
    empty = cohorts[FILES] < 1e-6
    cohorts[FILES] = np.where(empty, 0.0, cohorts[FILES])
    for row in (SEEN, SEEN_RECORDS, BORN):
        cohorts[row] = np.where(empty, 0.0, cohorts[row])
    cohorts[:ADDED] = np.where(np.abs(cohorts[:ADDED]) < 1e-6, 0.0, cohorts[:ADDED])
    return cohorts


@dataclass
class Ledger:
    """What maintenance has cost so far. Arrays have an element per table."""

    tables: int
    tasks: int = 0
    no_ops: int = 0
    commits: float = 0.0  # partitions of a table that begin and end together share one
    cpu_s: float = 0.0
    gb_hours: float = 0.0  # with the same engine for everyone
    own_gb_hours: float = 0.0  # with the engine that the system brings
    key_bytes: float = 0.0  # read for conversions
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    requests: float = 0.0  # to the object store, of tasks, commits and expiry
    metadata_bytes: float = 0.0  # of our own commits
    replaced_byte_s: float = 0.0  # files that were replaced, until expiry takes them
    waited_s: float = 0.0  # of all tasks, from the order to a free place
    longest_wait_s: float = 0.0
    looks: float = 0.0  # tables whose metadata were read to find out what to do
    orders: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_table = {
            key: np.zeros(self.tables)
            for key in ("bytes_written", "key_bytes", "bytes_read", "cpu_s", "commits", "tasks")
        }

    def counted(self, reason: str, tasks: int) -> None:
        """Orders of one reason."""
        self.orders[reason] = self.orders.get(reason, 0) + tasks


def charge(ledger: Ledger, p: Parameters, own: CpuRates, tables: Ints, batch: Batch) -> Floats:
    """Enter tasks into the ledger; their CPU seconds with the common engine."""
    work = work_of(p, batch)
    cpu = np.asarray(p.costs.cpu_s(work), dtype=float)
    held, choice = batch.held, batch.choice
    keys = (held.bytes * choice.converts * (held.reach > 0)).sum(axis=1) * p.key_share
    keys = keys * batch.changes
    replaced = np.where(batch.changes, (held.bytes * choice.rewrites).sum(axis=1), 0.0)
    ledger.tasks += len(cpu)
    ledger.no_ops += int((~batch.changes).sum())
    ledger.cpu_s += float(cpu.sum())
    ledger.gb_hours += float(np.sum(p.costs.gb_hours(work)))
    ledger.own_gb_hours += float(np.sum(own.gb_hours(work)))
    ledger.key_bytes += float(keys.sum())
    ledger.bytes_read += float(np.sum(work.bytes_read))
    ledger.bytes_written += float(np.sum(work.bytes_written))
    m = p.metadata
    files = float(np.sum(work.files + 2 * work.converted))  # a converted one is read, one written
    ledger.requests += files * (m.requests_per_file + m.requests_per_expired_file / 2)
    ledger.replaced_byte_s += float(replaced.sum()) * m.retained_s
    by = ledger.by_table
    for key, value in (
        ("bytes_written", work.bytes_written),
        ("bytes_read", work.bytes_read),
        ("key_bytes", keys),
        ("cpu_s", cpu),
        ("tasks", np.ones(len(cpu))),
    ):
        np.add.at(by[key], tables, value)
    return cpu
