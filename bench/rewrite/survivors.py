"""Which rows of a table are alive, by DuckDB from its files: the floor's masks and the check.

Shares no code with any engine. Keys match as NULL = NULL, sequence numbers strictly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from firnline_domain.identity import Scope
from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.loaded_table import LoadedTable

THREADS = 2


@dataclass(frozen=True)
class Sum:
    """Of a scope's rows in any order."""

    rows: int
    checksum: int


Sums = dict[str, Sum]
"""By partition text."""


STORE = "bench.store"  # table property: the local folder behind `s3://`


def local(path: str, store: str = "") -> str:
    """A `file:` or `s3:` URI as a path."""
    if path.startswith("s3://"):
        return f"{store}/{path.removeprefix('s3://')}"
    return "/" + path.removeprefix("file:").lstrip("/")


def connection() -> Any:
    made = duckdb.connect()
    made.execute(f"SET threads = {THREADS}")
    made.execute("SET preserve_insertion_order = false")
    return made


def written(table: LoadedTable, scopes: Sequence[Scope]) -> Sums:
    """Of the live data files of some scopes, to none of which any delete applies.
    Raises AssertionError."""
    live = live_files(table, table.head_id("main"))
    for scope in scopes:
        assert not any(file.deletes for file in live.files_of_scope(scope)), scope
    store = table.properties.get(STORE, "")
    paths = {
        scope.partition: [local(file.path, store) for file in _data(live, scope)]
        for scope in scopes
    }
    return of_paths(table, paths)


def of_paths(table: LoadedTable, paths: Mapping[str, Sequence[str]]) -> Sums:
    """Of all rows of some files, by partition."""
    columns = _columns(table)
    with connection() as duck:
        return {part: _sum(duck, columns, _listed(files)) for part, files in paths.items()}


def alive(table: LoadedTable, keys: tuple[str, ...], masks: Path) -> Sums:
    """Of the rows that survive the table's equality deletes; and, per data file, a NumPy mask of
    them in `masks`."""
    live = live_files(table, table.head_id("main"))
    masks.mkdir(parents=True, exist_ok=True)
    found = {}
    for scope in live.scopes:
        with connection() as duck:
            _load(duck, live, scope, keys)
            found[scope.partition] = _sum(duck, _columns(table), "alive")
            _masks(duck, _data(live, scope), masks)
    return found


def _load(duck: Any, live: LiveFiles, scope: Scope, keys: tuple[str, ...]) -> None:
    data, deletes = _data(live, scope), [one for one in live.deletes if one.scope == scope]
    duck.execute("CREATE TABLE numbers (name VARCHAR, number BIGINT)")
    pairs = [(local(one.path), one.sequence_number) for one in [*data, *deletes]]
    duck.executemany("INSERT INTO numbers VALUES (?, ?)", pairs)
    listed = ", ".join(keys)
    paths = [file.path for file in data]
    marks = _listed([one.path for one in deletes] or paths[:1], "filename=true")
    duck.execute(
        f"CREATE TABLE dead AS SELECT {listed}, max(number) AS until "
        f"FROM {marks} JOIN numbers ON name = filename GROUP BY ALL"
    )
    if not deletes:  # then its columns were a data file's, and nothing is dead
        duck.execute("DELETE FROM dead")
    same = " AND ".join(f"d.{key} IS NOT DISTINCT FROM f.{key}" for key in keys)
    files = _listed(paths, "filename=true, file_row_number=true")
    duck.execute(
        f"CREATE VIEW alive AS SELECT f.* FROM {files} f JOIN numbers n ON n.name = f.filename "
        f"LEFT JOIN dead d ON {same} WHERE coalesce(d.until, -1) <= n.number"
    )


def _masks(duck: Any, data: list[FileEntry], folder: Path) -> None:
    rows = duck.execute("SELECT filename, file_row_number FROM alive").fetchnumpy()
    names, places = np.unique(rows["filename"].astype(str), return_inverse=True)
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(len(names) + 1))
    chosen = {
        name: rows["file_row_number"][order[starts[at] : starts[at + 1]]]
        for at, name in enumerate(names)
    }
    for file in data:
        mask = np.zeros(file.records, bool)
        mask[chosen.get(local(file.path), [])] = True
        np.save(mask_path(folder, file.path), mask)


def mask_path(folder: Path, path: str) -> Path:
    """Where a data file's mask lies."""
    parts = Path(local(path)).parts
    return folder / f"{'-'.join(parts[-2:])}.npy"


def _sum(duck: Any, columns: str, source: str) -> Sum:
    query = f"SELECT count(*), coalesce(sum(hash({columns})), 0) FROM {source}"
    rows, checksum = duck.execute(query).fetchone()
    return Sum(int(rows), int(checksum))


def _columns(table: LoadedTable) -> str:
    return ", ".join(field.name for field in table.schema.fields)


def _data(live: LiveFiles, scope: Scope) -> list[FileEntry]:
    return [planned.data for planned in live.files_of_scope(scope)]


def _listed(paths: Sequence[str], options: str = "") -> str:
    """Hive names are ignored: every column is in the files."""
    listed = ", ".join(f"'{local(path)}'" for path in paths)
    return f"read_parquet([{listed}], hive_partitioning=false{', ' if options else ''}{options})"
