"""Tables to start from: what is in them, and what a right rewrite leaves of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from firnline_domain.identity import Scope
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.loaded_table import LoadedTable

from bench.rewrite import survivors
from bench.rewrite.lake import Java, Lake, behind_gateway, java, running
from bench.rewrite.shapes import WARM, Shape
from bench.rewrite.survivors import STORE, Sums, local
from bench.rewrite.table import ensure, key_names


@dataclass(frozen=True)
class Source:
    """A table, or some of its scopes, that every engine rewrites from the same state."""

    shape: Shape
    table: LoadedTable
    live: LiveFiles
    scopes: tuple[Scope, ...]
    expected: Sums
    masks: Path

    @property
    def data(self) -> list[DataFileEntry]:
        """Data files that are due."""
        chosen = frozenset(self.scopes)
        return [file for file in self.live.data if file.scope in chosen]

    @property
    def rows_in(self) -> int:
        return sum(file.records for file in self.data)

    @property
    def rows_out(self) -> int:
        return sum(one.rows for one in self.expected.values())

    def only(self, scopes: tuple[Scope, ...]) -> Source:
        """The same where no more than these scopes are due."""
        expected = {scope.partition: self.expected[scope.partition] for scope in scopes}
        return replace(self, scopes=scopes, expected=expected)

    def described(self) -> dict[str, Any]:
        """For the results."""
        chosen = frozenset(self.scopes)
        deletes = [file for file in self.live.deletes if file.scope in chosen]
        return {
            "shape": self.shape.name,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "delete_rows": sum(file.records for file in deletes),
            "bytes": sum(file.bytes for file in (*self.data, *deletes)),
            "data_files": len(self.data),
            "delete_files": len(deletes),
            "partitions": len(self.scopes),
        }


@dataclass(frozen=True)
class Arena:
    """A lake, a JVM that copies its tables, and a small table to get warm with."""

    lake: Lake
    machine: Java
    warm: Source
    numbers: Iterator[int] = field(default_factory=lambda: count(int(time.time())))

    def work(self, name: str) -> Path:
        """A folder nobody has used."""
        return self.lake.folder / "work" / f"{name}-{next(self.numbers)}"

    def source(self, shape: Shape) -> Source:
        """The shape's table, made if need be."""
        return _source(self.lake, self.machine, shape)

    def copied(self, origin: Source) -> str:
        """Name of a copy of the table's first state: heads part from here, files are shared."""
        name = f"{origin.shape.name}_{next(self.numbers)}"
        self.machine.copy(name, origin.table.metadata_location)
        return name

    def loaded(self, name: str) -> LoadedTable:
        """A table as it is now."""
        found = self.lake.find(name)
        assert found is not None, name
        return found

    def remove(self, origin: Source, name: str) -> None:
        """A copy's name, and the live data files that it alone has."""
        table = self.loaded(name)
        kept = {file.normal_path for file in origin.live.data}
        for file in live_files(table, table.head_id("main")).data:
            if file.normal_path not in kept:
                store = table.properties.get(STORE, "")
                Path(local(file.path, store)).unlink(missing_ok=True)
        self.machine.catalog.dropTable(self.machine.identifier(name), False)


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """As long as the block runs; tables stay in `folder` for the next time."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "work", ignore_errors=True)
    with running(folder) as lake, java(lake) as machine:
        yield Arena(lake, machine, _source(lake, machine, WARM))


@contextmanager
def guarded(place: Arena) -> Iterator[Arena]:
    """The same where every client, the writers too, goes through Firnline's gateway."""
    with behind_gateway(place.lake) as lake:
        catalog = rest_catalog(place.machine.jvm, lake.uri)
        yield replace(place, lake=lake, machine=replace(place.machine, catalog=catalog))


def _source(lake: Lake, machine: Java, shape: Shape) -> Source:
    table = ensure(lake, machine, shape)
    masks = lake.folder / "masks" / shape.name
    expected = survivors.alive(table, key_names(shape), masks)
    live = live_files(table, table.head_id("main"))
    return Source(shape, table, live, live.scopes, expected, masks)
