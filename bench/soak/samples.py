"""What a table is made of at one moment, by its catalog and its storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firnline_domain.identity import TableName
from firnline_iceberg.java.api import load_table
from firnline_iceberg.table.catalog_client import Tables

from bench.soak.writers import NAMESPACE

_TICKS = os.sysconf("SC_CLK_TCK")
MEASURES = {  # in this order in the plot and the table
    "data_files": "data files",
    "delete_files": "delete files",
    "snapshots": "snapshots",
    "manifests": "manifests",
    "metadata_bytes": "metadata.json, kB",
    "stored_files": "files stored",
    "stored_bytes": "bytes stored, MB",
    "row_bytes": "bytes stored for each live row",
    "plan_ms": "CPU of a plan, ms",
}
UNITS = {"metadata_bytes": 1e3, "stored_bytes": 1e6}


@dataclass(frozen=True)
class Sample:
    """Means over a system's tables, but for what lies on disk: that is of one table on average,
    too."""

    at_s: float
    data_files: float
    delete_files: float
    snapshots: float
    manifests: float
    metadata_bytes: float
    stored_files: float
    stored_bytes: float
    row_bytes: float
    plan_ms: float


@dataclass
class Sampler:
    """`machine`, `pid`: a small JVM that does nothing but plan. `path`: a location on the disk."""

    tables: Tables
    catalog: Any
    machine: Any
    pid: int
    path: Callable[[str], Path]

    def sample(self, rows: Mapping[str, int], at_s: float) -> Sample:
        """Of the tables of one system. `rows`: that each has."""
        found = [self._of(name) for name in rows]
        before = _cpu_s(self.pid)
        for name in rows:
            self._plan(name)
        plan_ms = (_cpu_s(self.pid) - before) * 1000 / len(rows)
        means = {key: sum(one[key] for one in found) / len(found) for key in found[0]}
        row_bytes = means["stored_bytes"] * len(rows) / sum(rows.values())
        return Sample(at_s=at_s, plan_ms=plan_ms, row_bytes=row_bytes, **means)

    def _of(self, name: str) -> dict[str, float]:
        table = self.tables.load_named(NAMESPACE, name)
        head = table.snapshot(table.head_id("main") or 0)
        assert head.summary is not None
        folder = self.path(table.metadata.location)
        files = [path for path in folder.rglob("*") if _is_file(path)]
        return {
            "data_files": float(head.summary["total-data-files"] or 0),
            "delete_files": float(head.summary["total-delete-files"] or 0),
            "snapshots": float(len(table.snapshots)),
            "manifests": float(len(table.manifests_of(head))),
            "metadata_bytes": float(self.path(table.metadata_location).stat().st_size),
            "stored_files": float(len(files)),
            "stored_bytes": float(sum(_size(path) for path in files)),
        }

    def _plan(self, name: str) -> None:
        """As a reader does it before it reads a row."""
        java = load_table(self.machine, self.catalog, TableName("", NAMESPACE, name))
        tasks = java.newScan().planFiles()
        self.machine.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        tasks.close()


def _is_file(path: Path) -> bool:
    return path.suffix != ".crc" and path.is_file()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # expired under our eyes
        return 0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def plain(sample: Sample) -> dict[str, float]:
    return {name: round(value, 2) for name, value in asdict(sample).items()}
