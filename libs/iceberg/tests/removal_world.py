"""A small world of two tables and somebody else's files, whose every file is known."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import TableName
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.removal.sweep import OutputSweeper, Swept
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from libs.iceberg.tests.stored_catalog import StoredCatalog
from tests.kit.memory_catalog import MemoryTables

AGE_MS, NOW_MS = 1_000, 1_900_000_000_000
OLD_S, YOUNG_S = 1_000_000, NOW_MS / 1000
SCHEMA = Schema(NestedField(1, "id", LongType()))
TASKS = ("a" * 32, "b" * 32, "c" * 32)
WORKED, KILLED, OLDER = TASKS


@dataclass
class Owned:
    """A table with live files of a task, files of another that only history has, and leftovers."""

    table: Table
    uuid: str = field(init=False)
    root: Path = field(init=False)
    live: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uuid = str(self.table.metadata.table_uuid)
        self.root = Path(self.table.metadata.location.removeprefix("file://"))

    def run(self, task: str, attempt: int = 1) -> TaskRun:
        return TaskRun(self.uuid, task, attempt, "cafe0000")

    def write(self, name: str) -> Path:
        path = self.root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [1, 2]}), path)
        return path

    def fill(self) -> None:
        # of one killed run, first what another committer has committed since: two of its outputs
        old = self.write(self.run(OLDER).output_name(0, 0))
        self.table.add_files([f"file://{old}"])
        self.table.delete("id < 9")  # only history has it now
        mine = [self.write(self.run(WORKED).output_name(0, number)) for number in range(2)]
        self.table.add_files([f"file://{path}" for path in mine])
        self.table.append(pa.table({"id": [5]}))
        self.live = [old, *mine]
        killed = self.run(KILLED)
        row_map, marks = (
            self.root / "metadata" / name for name in (killed.row_map_name, killed.marks_name)
        )
        row_map.write_bytes(b"x")
        marks.write_bytes(b"x")
        outputs = [self.write(killed.output_name(0, number)) for number in range(2)]
        deletes = self.write(killed.delete_name(0, False))
        self.leftovers = [*outputs, deletes, row_map, marks]


class World:
    """Two tables of one catalog, side by side, and somebody else's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = StoredCatalog(f"file://{folder}")
        self.tables = MemoryTables(self.catalog)
        self.mine = Owned(self.catalog.make("ns.tbl", SCHEMA))
        self.other = Owned(self.catalog.make("ns.tbl2", SCHEMA))
        for one in (self.mine, self.other):
            one.fill()
        self.secret = folder / "secret.parquet"
        self.secret.write_text("x")
        # somebody's copy of the table's files, under the names that they have
        self.copies = folder / "tbl-backup"
        self.copies.mkdir()
        (self.mine.root / "data" / "link").symlink_to(self.copies)
        for path in self.mine.leftovers:
            (self.copies / path.name).write_bytes(path.read_bytes())
        self.content = {path: path.read_bytes() for path in self.files()}

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.is_file()}

    def restore(self) -> None:
        for path in self.files() - self.content.keys():
            path.unlink()
        for path, content in self.content.items():
            if not path.exists() or path.suffix == ".json":
                path.write_bytes(content)

    @property
    def name(self) -> TableName:
        return TableName(self.mine.uuid, ("ns",), "tbl")

    def load(self) -> LoadedTable:
        return self.tables.load(self.name)

    def gone(self) -> set[Path]:
        return {path for path in self.content if not path.exists()}


@dataclass(eq=False)
class CatalogView:
    """Tables as a catalog tells of them: whole, or less the snapshots that no ref points at, or
    less all; and with what the table's owner has set."""

    world: World
    snapshots: str = "all"
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    known: Sequence[Any] | None = None  # catalogs; None = the world's

    def load(self, _: TableName) -> LoadedTable:
        table = self.world.load()
        head = table.head_id("main")
        kept = {
            "all": table.snapshots,
            "refs": [one for one in table.snapshots if one.snapshot_id == head],
            "none": [],
        }[self.snapshots]
        metadata = table.metadata.model_copy(
            update={
                "snapshots": list(kept),
                "properties": self.properties,
                "location": self.location or table.metadata.location,
            }
        )
        return replace(table, metadata=metadata)

    def known_catalogs(self, table: TableName) -> Sequence[Any]:
        return self.world.tables.known_catalogs(table) if self.known is None else self.known

    def sweep(self) -> Swept:
        sweeper = OutputSweeper(self, lambda: NOW_MS, AGE_MS, lambda _: NOW_MS)
        return sweeper.sweep(self.world.name)


def honest(world: World, task: str = KILLED) -> dict[str, Any]:
    """What a killed worker's list says: everything that it may have written."""
    run, data = world.mine.run(task), f"file://{world.mine.root}/data"
    names = [run.output_name(0, number) for number in range(3)] + [run.delete_name(0, False)]
    metadata = f"file://{world.mine.root}/metadata"
    beside = [f"{metadata}/{name}" for name in (run.row_map_name, run.marks_name)]
    return {
        "task_id": task, "attempt": 1, "table_key": world.mine.uuid, "worker": "w",
        "written_at_ms": OLD_S, "outputs": [*(f"{data}/{name}" for name in names), *beside],
        "deadline_ms": 0,
    }  # fmt: skip


def put(folder: Path, name: str, body: Any, at_s: float = OLD_S) -> Path:
    path = folder / name
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    os.utime(path, (at_s, at_s))
    return path


def mangled(path: str, how: int) -> str:
    head, name = path.rsplit("/", 1)
    plain = path.removeprefix("file://")
    return [
        path, path, path, plain, f"file:{plain}", f"FILE://{plain}", f"file://localhost{plain}",
        f"{head}//{name}", f"{head}/./{name}", f"{head}/x/../{name}", f"{head}/%2e%2e/{name}",
        f"s3:/{plain}", f"s3a://bucket{plain}", f"{path}?x", f"{path}#x", f"{path};x", f"{path}/",
        name, "", f" {path}", f"{path}\n", path.upper(), head,
    ][how]  # fmt: skip
