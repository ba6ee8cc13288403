"""One engine, one table, once: told to go, watched, checked, cleaned up after."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from firnline_iceberg.scan.planning import live_files

from bench.rewrite import survivors
from bench.rewrite.engines import (
    COMMITTER,
    FIRNLINE,
    FLOOR,
    Engine,
    Failed,
    Running,
    started,
)
from bench.rewrite.lake import NAMESPACE
from bench.rewrite.sources import Arena, Source
from bench.rewrite.survivors import Sums
from bench.rewrite.trees import Usage, Watch

LIMIT_S = 1800.0
WARM_UPS = 3  # small rewrites before the measured one, for both sides' compilers


@dataclass(frozen=True)
class BenchmarkRun:
    """What one run cost. Times in seconds, sizes in bytes."""

    engine: str
    wall_s: float
    cpu_s: float
    pss_before: int
    pss_peak: int
    cpu_by: dict[str, float]
    pss_by: dict[str, int]
    start_s: float  # until the session answered
    warm_s: float  # its first, small rewrite
    output_bytes: int
    output_files: int
    rows_in: int
    rows_out: int
    same_rows: bool
    extra: dict[str, Any] = field(default_factory=dict)
    start_cpu_s: float = 0.0


@dataclass
class Visitor:
    """An engine that is up. Wrong rows are an error where `strict`, else only told."""

    place: Arena
    running: Running
    committer: Running | None
    strict: bool = True
    warm_s: float = 0.0

    def run(
        self, origin: Source, where: str | None = None, limit_s: float = LIMIT_S, keep: bool = False
    ) -> BenchmarkRun:
        """`where`: what is due, for who takes SQL. `keep`: its table stays; the name is in `extra`.
        Raises Failed, where `strict` also for rows that are not the right ones."""
        if self.running.module == FLOOR.module:
            return self._floor(origin, limit_s)
        name = self.place.copied(origin)
        try:
            asked = question(origin, name)
            with Watch(self.running.pid) as watch:
                answer = self.running.ask(limit_s, where=where, **asked)
            answer["table"] = name
            if self.committer is not None:
                answer["commit"] = committed(self.committer, answer.pop("results"))
            return self._of_table(origin, name, watch.usage, answer)
        finally:
            if not keep:
                self.place.remove(origin, name)

    def _of_table(
        self, origin: Source, name: str, usage: Usage, answer: dict[str, Any]
    ) -> BenchmarkRun:
        table = self.place.loaded(name)
        due = frozenset(origin.scopes)
        live = live_files(table, table.head_id("main"))
        files = [file for file in live.data if file.scope in due]
        sums = survivors.written(table, origin.scopes)
        return self._run(origin, usage, answer, sums, [file.bytes for file in files])

    def _floor(self, origin: Source, limit_s: float) -> BenchmarkRun:
        outputs = self.place.work("outputs")
        parts = [_floor_part(origin, index) for index in range(len(origin.scopes))]
        with Watch(self.running.pid) as watch:
            answer = self.running.ask(
                limit_s, masks=str(origin.masks), outputs=str(outputs), partitions=parts
            )
        names = [scope.partition for scope in origin.scopes]
        paths = {name: [str(outputs / f"{index}.parquet")] for index, name in enumerate(names)}
        sums = survivors.of_paths(origin.table, paths)
        shutil.rmtree(outputs)
        return self._run(origin, watch.usage, {}, sums, answer["sizes"])

    def _run(
        self, origin: Source, usage: Usage, answer: dict[str, Any], sums: Sums, sizes: list[int]
    ) -> BenchmarkRun:
        same = sums == origin.expected
        if self.strict and not same:
            raise Failed(f"{self.running.name}: wrong rows: {sums}, not {origin.expected}")
        return BenchmarkRun(
            engine=self.running.name,
            wall_s=round(usage.wall_s, 3),
            cpu_s=round(usage.cpu_s, 2),
            pss_before=usage.pss_before,
            pss_peak=usage.pss_peak,
            cpu_by=usage.cpu_by,
            pss_by=usage.pss_by,
            start_s=round(self.running.start_s, 2),
            warm_s=round(self.warm_s, 2),
            output_bytes=sum(sizes),
            output_files=len(sizes),
            rows_in=origin.rows_in,
            rows_out=sum(one.rows for one in sums.values()),
            same_rows=same,
            extra=answer,
            start_cpu_s=round(self.running.start_cpu_s, 2),
        )


@contextmanager
def arriving(place: Arena, who: Engine, strict: bool = True, **settings: Any) -> Iterator[Visitor]:
    """Start the engine, and the committer where its results need one. Raises Failed."""
    given = {"uri": place.lake.uri, **settings}
    with ExitStack() as held:
        committer = None
        if who.module == FIRNLINE.module:
            folder = place.work(COMMITTER.name)
            committer = held.enter_context(started(COMMITTER, folder, **given))
        folder = place.work(who.name)
        running = held.enter_context(started(who, folder, **given))
        yield Visitor(place, running, committer, strict)


@contextmanager
def visiting(place: Arena, who: Engine, **settings: Any) -> Iterator[Visitor]:
    """As `arriving`, and let them get warm. Raises Failed."""
    with arriving(place, who, **settings) as visitor:
        begin = time.monotonic()
        visitor.run(place.warm)
        visitor.warm_s = time.monotonic() - begin
        for _ in range(WARM_UPS - 1):
            visitor.run(place.warm)
        yield visitor


def benchmark_run(place: Arena, origin: Source, who: Engine, **more: Any) -> BenchmarkRun:
    """One run in a process tree made for it. Raises Failed."""
    with visiting(place, who) as visitor:
        return visitor.run(origin, **more)


def question(origin: Source, name: str) -> dict[str, Any]:
    """What an engine is asked of a copy of the source's table."""
    return {
        "table": name,
        "uuid": origin.table.identity.uuid,
        "head": origin.table.head_id("main"),
        "namespace": NAMESPACE,
        "partition_fields": [field.name for field in origin.table.metadata.spec().fields],
        # The last is the largest: it goes first, as the planner's debts would have it.
        "scopes": [(scope.spec_id, scope.partition) for scope in reversed(origin.scopes)],
    }


def committed(committer: Running, results: str) -> dict[str, Any]:
    """By the committer's code, warm as in a service."""
    with Watch(committer.pid) as watch:
        answer = committer.ask(LIMIT_S, results=results)
    if set(answer["events"]) - {"RewriteCommitted", "RewriteSkipped"}:
        raise Failed(f"committer: {answer}")
    return {
        "wall_s": round(watch.usage.wall_s, 3),
        "cpu_s": round(watch.usage.cpu_s, 2),
        "pss_peak": watch.usage.pss_peak,
        **answer,
    }


def _floor_part(origin: Source, index: int) -> dict[str, Any]:
    """A partition's files, oldest first."""
    scope = origin.scopes[index]
    data = [planned.data for planned in origin.live.files_of_scope(scope)]
    data.sort(key=lambda file: (file.sequence_number, file.normal_path))
    return {
        "index": index,
        "data": [file.path for file in data],
        "bytes": [file.bytes for file in data],
        "deletes": [one.path for one in origin.live.deletes if one.scope == scope],
    }
