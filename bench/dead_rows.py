"""What the least share of dead rows costs: bytes written and dead rows read, of one upsert table.

python -m bench.dead_rows

The planner's own `decide_rewrite` and the worker's own `plan` run on files that are kept one by
one; the keys that are replaced are spread evenly over all live rows. A rewrite takes no time."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import debt_added_by, debt_of
from firnline_domain.counters.state.work import (
    KEY_SHARE,
    Partition,
    PartitionWork,
    Table,
    TableWork,
)
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.policy.cost.cost_benefit import burden_of
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.policy.partition.decide import decide_rewrite, order_for, with_numbers
from firnline_domain.policy.partition.outcomes import after_change, after_order, after_success
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision
from firnline_domain.policy.triggers.dead_files import positional_records
from firnline_domain.records.parts.dead_rows import build_histogram
from firnline_domain.records.parts.tallies import FileTally, SizeClass, Tally, size_class
from firnline_domain.records.results import DeleteKind
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus
from firnline_iceberg.scan.planning import LiveFiles
from firnline_worker.plan.planning import plan

ROW_BYTES, KEY_BYTES = 128, 16
SCOPE = Scope(1, "[1]")
MB, GB = 1 << 20, 1 << 30
START_MS = 10**12


@dataclass
class DataFile:
    """`dead`: rows that are; `marked`: of these, those that a position delete names."""

    sequence: int
    records: int
    dead: float = 0.0
    marked: int = 0

    @property
    def bytes(self) -> int:
        return self.records * ROW_BYTES


@dataclass
class UpsertTable:
    """One partition, with what rewrites of it have written."""

    limits: Thresholds
    files: list[DataFile]
    hit_share: float = 0.7  # of the rows written, those that replace a row
    deletes: list[tuple[int, int]] = field(default_factory=list)  # sequence number and records
    sequence: int = 1
    now_ms: int = START_MS
    work: PartitionWork = field(default_factory=PartitionWork)
    written: int = 0  # by rewrites
    keys_read: int = 0
    ingested: int = 0
    orders: list[Decision] = field(default_factory=list)
    _amplified: float = 0.0
    _dead: float = 0.0
    _looked: int = 0

    @classmethod
    def of(cls, size: int, limits: Thresholds) -> UpsertTable:
        """A tidy one."""
        rows = limits.target_bytes // ROW_BYTES
        files = [DataFile(1, rows) for _ in range(size // limits.target_bytes)]
        rest = size % limits.target_bytes // ROW_BYTES
        return cls(limits, files + ([DataFile(1, rest)] if rest else []))

    def commit(self, size: int) -> None:
        """An upsert: a data file, and an equality-delete file of its keys."""
        rows = size // ROW_BYTES
        live = sum(file.records - file.dead for file in self.files)
        for file in self.files:
            file.dead += rows * self.hit_share * (file.records - file.dead) / live
        self.sequence += 1
        self.files.append(DataFile(self.sequence, rows))
        self.deletes.append((self.sequence, rows))
        self.ingested += size
        added = FileTally(
            equality_deletes=Tally(1, rows, rows * KEY_BYTES), **_data(self.limits, [size])
        )
        self._changed(debt_added_by(added))

    def rest(self, until_ms: int) -> None:
        """Let time pass, and do what the planner orders meanwhile."""
        while True:
            decision = decide_rewrite(self._given)
            if decision.order:
                self._rewrite(decision)
                continue
            if decision.until_ms is None or decision.until_ms >= until_ms:
                break
            self.now_ms = max(decision.until_ms, self.now_ms + 1)
        self.now_ms = until_ms
        self._amplified += burden_of(self._holds, self.limits.target_bytes).amplification
        self._dead += sum(one.dead for one in self.files) / sum(one.records for one in self.files)
        self._looked += 1

    @property
    def partition(self) -> Partition:
        """As the planner counts it."""
        counters = PartitionCounters(SCOPE, 1, 1, self._holds, changed_ms=self.now_ms - HOUR_MS)
        return Partition(counters, self.work)

    @property
    def _given(self) -> PolicyInput:
        costs = cost_model(self.limits)
        return PolicyInput(_TABLE, self.limits, costs, self.now_ms, self.partition)

    @property
    def amplification(self) -> float:
        """Of a scan, on average; most of it are equality deletes that wait for a conversion."""
        return self._amplified / max(self._looked, 1)

    @property
    def dead_share(self) -> float:
        """Of the rows that a scan reads, on average."""
        return self._dead / max(self._looked, 1)

    def measure_anew(self) -> None:
        """Forget what was measured."""
        self.written, self.ingested, self.keys_read = 0, 0, 0
        self._amplified, self._dead, self._looked = 0.0, 0.0, 0
        self.orders.clear()

    @property
    def _holds(self) -> FileTally:
        marked = [file.marked for file in self.files if file.marked]
        deleted = sum(records for _, records in self.deletes)
        return FileTally(
            equality_deletes=Tally(len(self.deletes), deleted, deleted * KEY_BYTES),
            position_deletes=Tally(len(marked), sum(marked), 8 * sum(marked)),
            **_data(self.limits, [file.bytes for file in self.files]),
        )

    def _changed(self, came: object = None) -> None:
        debt = debt_of(self._holds, self.limits.target_bytes)
        added = debt_added_by(FileTally()) if came is None else came
        self.work = after_change(self.work, debt, added, self.now_ms)  # type: ignore[arg-type]

    def _rewrite(self, decision: Decision) -> None:
        told = with_numbers(self._given, decision)
        _, task = order_for(self._given, told)
        self.orders.append(told)
        self.work = after_order(self.work)
        made = plan(
            self._live(),
            SCOPE,
            self.limits.target_bytes,
            task.action,
            min_dead_ratio=task.min_dead_ratio,
        )
        taken = {int(file.path) for file in made.inputs}
        converted = {int(file.path) for file in made.converted}
        keyed = [number for number in converted if self.files[number].sequence < self.sequence]
        self.keys_read += int(sum(self.files[n].bytes for n in keyed) * KEY_SHARE)
        for number in converted:
            self.files[number].marked = int(self.files[number].dead)
        live = sum(int(self.files[n].records - self.files[n].dead) for n in taken)
        left = [file for number, file in enumerate(self.files) if number not in taken]
        if self.deletes and all(
            file.sequence >= self.sequence or number in taken | converted
            for number, file in enumerate(self.files)
        ):
            self.deletes = []
        for file in left:
            file.sequence = file.sequence if self.deletes else self.sequence
        self.files = left + _outputs(live, self.limits, self.sequence)
        self.written += live * ROW_BYTES
        large = (f for f in self.files if _class(f.bytes, self.limits) is not SizeClass.FRAGMENT)
        done = replace(
            task,
            dead_rows=build_histogram((file.bytes, file.records, file.marked) for file in large),
        )
        self._changed()
        holds = self._holds
        debt, masked = debt_of(holds, self.limits.target_bytes), positional_records(holds)
        self.work = after_success(self.work, debt, done, self.limits, self.now_ms, masked)

    def _live(self) -> LiveFiles:
        data = tuple(
            DataFileEntry(**_entry(str(number), file.sequence, file.records, file.bytes))
            for number, file in enumerate(self.files)
        )
        marks = [
            DeleteFileEntry(
                **_entry(f"p{number}", self.sequence, file.marked, 8 * file.marked),
                kind=DeleteKind.POSITION,
                referenced_data_file=str(number),
            )
            for number, file in enumerate(self.files)
            if file.marked
        ]
        equality = [
            DeleteFileEntry(
                **_entry(f"e{sequence}", sequence, records, records * KEY_BYTES),
                kind=DeleteKind.EQUALITY,
                equality_ids=(1,),
            )
            for sequence, records in self.deletes
        ]
        return LiveFiles(1, data, (*marks, *equality))


_TABLE = Table(
    TableCounters(TableName("u", ("db",), "t"), MAIN, known=True, head_snapshot_id=7), TableWork()
)


def _class(size: int, limits: Thresholds) -> SizeClass:
    return size_class(size, limits.target_bytes)


def _data(limits: Thresholds, sizes: list[int]) -> dict[str, Tally]:
    found = dict.fromkeys((one.value for one in SizeClass), Tally())
    for size in sizes:
        found[_class(size, limits).value] += Tally(1, size // ROW_BYTES, size)
    return found


def _outputs(records: int, limits: Thresholds, sequence: int) -> list[DataFile]:
    count = math.ceil(records * ROW_BYTES / (limits.target_bytes * 1.1))
    return [DataFile(sequence, records // count) for _ in range(count)]


def _entry(path: str, sequence: int, records: int, size: int) -> dict[str, Any]:
    return {
        "path": path,
        "manifest_path": "m",
        "status": EntryStatus.ADDED,
        "snapshot_id": 1,
        "sequence_number": sequence,
        "file_sequence_number": sequence,
        "spec_id": SCOPE.spec_id,
        "partition": SCOPE.partition,
        "format": "PARQUET",
        "records": records,
        "bytes": size,
    }


TABLES = {  # bytes, bytes of a commit, ms between two, days
    "1 GB": (GB, 4 * MB, HOUR_MS // 12, 10),
    "100 GB": (100 * GB, 128 * MB, HOUR_MS, 60),
    "1 TB": (1024 * GB, 3 * GB, 6 * HOUR_MS, 150),
}
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.5)


def run(name: str, ratio: float, reads_per_hour: float = 2.0) -> dict[str, object]:
    """One table's life. The first third, in which no file has gathered dead rows, is left out."""
    size, commit, every_ms, days = TABLES[name]
    limits = Thresholds(min_dead_ratio=ratio, reads_per_hour=reads_per_hour)
    table = UpsertTable.of(size, limits)
    commits, warm = days * DAY_MS // every_ms, days * DAY_MS // every_ms // 3
    for number in range(commits):
        if number == warm:
            table.measure_anew()
        table.commit(commit)
        table.rest(START_MS + (number + 1) * every_ms)
    measured_days = (commits - warm) * every_ms / DAY_MS
    return {
        "table": name,
        "min_dead_ratio": ratio,
        "write_amplification": round(table.written / table.ingested, 2),
        "read_amplification": round(table.amplification, 3),
        "dead_share": round(table.dead_share, 3),
        "orders_a_day": round(len(table.orders) / measured_days, 1),
        "gb_written_a_day": round(table.written / measured_days / 1e9),
    }


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TABLES:
        for least in RATIOS:
            print(json.dumps(run(chosen, least)), flush=True)
