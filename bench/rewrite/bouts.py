"""One contestant, one table, once: started, warmed, told to go, watched, checked, cleaned up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from firnline_iceberg.planning import LiveFiles, live_files
from firnline_iceberg.tables import LoadedTable

from bench.rewrite import survivors
from bench.rewrite.contestants import COMMITTER, Contestant, Failed, Running, started
from bench.rewrite.lake import NAMESPACE, Java, Lake, java, running
from bench.rewrite.shapes import WARM, Shape
from bench.rewrite.survivors import Sums, local
from bench.rewrite.table import ensure, key_names
from bench.rewrite.trees import Watch

LIMIT_S = 1800.0  # of one bout


@dataclass(frozen=True)
class Bout:
    """What one run cost. Times in seconds, sizes in bytes."""

    contestant: str
    wall_s: float
    cpu_s: float
    pss_before: int
    pss_peak: int
    start_s: float  # until the session answers
    warm_s: float  # its first, small rewrite
    output_bytes: int
    output_files: int
    rows_in: int
    rows_out: int
    same_rows: bool
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A table that all start from, and what its rows are."""

    shape: Shape
    table: LoadedTable
    live: LiveFiles
    expected: Sums
    masks: Path

    @property
    def rows_in(self) -> int:
        return sum(file.records for file in self.live.data)

    @property
    def delete_rows(self) -> int:
        return sum(file.records for file in self.live.deletes)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in (*self.live.data, *self.live.deletes))

    def described(self) -> dict[str, Any]:
        """For the results."""
        return {
            "shape": self.shape.name,
            "rows_in": self.rows_in,
            "delete_rows": self.delete_rows,
            "rows_out": sum(one.rows for one in self.expected.values()),
            "bytes": self.bytes,
            "data_files": len(self.live.data),
            "delete_files": len(self.live.deletes),
            "partitions": len(self.live.scopes),
        }


@dataclass(frozen=True)
class Arena:
    """A lake, a JVM that copies tables, and a warm-up table."""

    lake: Lake
    machine: Java
    warm: Source
    numbers: Iterator[int] = field(default_factory=lambda: count(int(time.time())))

    @property
    def work(self) -> Path:
        return self.lake.folder / "work"

    def source(self, shape: Shape) -> Source:
        """The shape's table, made if need be, and its surviving rows."""
        return source(self.lake, self.machine, shape)

    def copied(self, origin: Source) -> LoadedTable:
        """The same table state under a new name."""
        name = f"{origin.shape.name}_{next(self.numbers)}"
        self.machine.copy(name, origin.table.metadata_location)
        return self.loaded(name)

    def loaded(self, name: str) -> LoadedTable:
        found = self.lake.find(name)
        assert found is not None, name
        return found


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """As long as the block runs."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "work", ignore_errors=True)
    with running(folder) as lake, java(lake) as machine:
        yield Arena(lake, machine, source(lake, machine, WARM))


def source(lake: Lake, machine: Java, shape: Shape) -> Source:
    table = ensure(lake, machine, shape)
    masks = lake.folder / "masks" / shape.name
    expected = survivors.alive(table, key_names(shape), masks)
    return Source(shape, table, live_files(table, table.head_id("main")), expected, masks)


def bout(place: Arena, origin: Source, who: Contestant, **more: Any) -> Bout:
    """Raises Failed where the contestant does not finish."""
    folder = place.work / f"{who.name}-{next(place.numbers)}"
    with started(who, folder, uri=place.lake.uri) as contestant:
        begin = time.monotonic()
        _run(place, place.warm, contestant)
        warm_s = time.monotonic() - begin
        made = _run(place, origin, contestant, **more)
    shutil.rmtree(folder, ignore_errors=True)
    return replace(made, start_s=round(contestant.start_s, 2), warm_s=round(warm_s, 2))


def _run(place: Arena, origin: Source, contestant: Running, limit_s: float = LIMIT_S) -> Bout:
    if contestant.name.startswith("floor"):
        return _floor(place, origin, contestant, limit_s)
    table = place.copied(origin)
    try:
        question = _question(table, origin)
        with Watch(contestant.pid) as watch:
            answer = contestant.ask(limit_s, **question)
        if "results" in answer:
            answer["commit"] = _commit(place, answer["results"])
        after = place.loaded(table.identity.name)
        return _bout(origin, contestant, watch, answer, after)
    finally:
        _clean(place, origin, table.identity.name)


def _question(table: LoadedTable, origin: Source) -> dict[str, Any]:
    scopes = origin.live.scopes
    return {
        "table": table.identity.name,
        "uuid": table.identity.uuid,
        "namespace": NAMESPACE,
        # The largest first, as a planner that weighs by debt would.
        "scopes": [(scope.spec_id, scope.partition) for scope in reversed(scopes)],
    }


def _bout(
    origin: Source, contestant: Running, watch: Watch, answer: dict[str, Any], after: LoadedTable
) -> Bout:
    files = live_files(after, after.head_id("main")).data
    sums = survivors.written(after)
    return _measured(
        origin, contestant, watch, answer, sums, sum(file.bytes for file in files), len(files)
    )


def _measured(
    origin: Source,
    contestant: Running,
    watch: Watch,
    answer: dict[str, Any],
    sums: Sums,
    size: int,
    files: int,
) -> Bout:
    usage = watch.usage
    return Bout(
        contestant=contestant.name,
        wall_s=round(usage.wall_s, 3),
        cpu_s=round(usage.cpu_s, 2),
        pss_before=usage.pss_before,
        pss_peak=usage.pss_peak,
        start_s=0.0,
        warm_s=0.0,
        output_bytes=size,
        output_files=files,
        rows_in=origin.rows_in,
        rows_out=sum(one.rows for one in sums.values()),
        same_rows=sums == origin.expected,
        extra=answer,
    )


def _commit(place: Arena, results: str) -> dict[str, Any]:
    """By the committer's code in a process of its own, which is up already."""
    folder = place.work / f"committer-{next(place.numbers)}"
    with started(COMMITTER, folder, uri=place.lake.uri) as committer:
        with Watch(committer.pid) as watch:
            answer = committer.ask(LIMIT_S, results=results)
        usage = watch.usage
    events = answer["events"]
    if set(events) - {"RewriteCommitted", "RewriteSkipped"}:
        raise Failed(f"committer: {events}")
    return {"wall_s": round(usage.wall_s, 3), "cpu_s": round(usage.cpu_s, 2), **answer}


def _floor(place: Arena, origin: Source, contestant: Running, limit_s: float) -> Bout:
    outputs = place.work / f"outputs-{next(place.numbers)}"
    parts = [_floor_part(origin, index) for index in range(len(origin.live.scopes))]
    with Watch(contestant.pid) as watch:
        answer = contestant.ask(
            limit_s, masks=str(origin.masks), outputs=str(outputs), partitions=parts
        )
    names = [scope.partition for scope in origin.live.scopes]
    paths = {name: [str(outputs / f"{index}.parquet")] for index, name in enumerate(names)}
    sums = survivors.of_paths(origin.table, paths)
    made = _measured(origin, contestant, watch, {}, sums, answer["bytes"], len(names))
    shutil.rmtree(outputs, ignore_errors=True)
    return made


def _floor_part(origin: Source, index: int) -> dict[str, Any]:
    """A partition's files, oldest first."""
    scope = origin.live.scopes[index]
    data = [planned.data for planned in origin.live.files_of_scope(scope)]
    data.sort(key=lambda file: (file.sequence_number, file.normal))
    return {
        "index": index,
        "data": [file.path for file in data],
        "bytes": [file.bytes for file in data],
        "deletes": [one.path for one in origin.live.deletes if one.scope == scope],
    }


def _clean(place: Arena, origin: Source, name: str) -> None:
    """The files that this copy alone has, and its name."""
    table = place.loaded(name)
    kept = {file.normal for file in (*origin.live.data, *origin.live.deletes)}
    for file in live_files(table, table.head_id("main")).data:
        if file.normal not in kept:
            Path(local(file.path)).unlink(missing_ok=True)
    place.machine.catalog.dropTable(place.machine.identifier(name), False)
