"""How many MERGE and DELETE statements fail where one, two and four Spark writers run them without
a pause, beside nobody, Firnline, and Iceberg's own action with partial progress. All go through the
gateway; each writer has a partition of its own, so that only maintenance can make it fail."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pyarrow.parquet as pq
from firnline_iceberg.scan.planning import live_files

from bench.rewrite.benchmark_runs import Visitor, visiting
from bench.rewrite.engines import FIRNLINE, Engine, Running, started
from bench.rewrite.figures import Bar, figure
from bench.rewrite.markdown import first_cause
from bench.rewrite.parts.races import PARTIAL, orders, rank, turn
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source, guarded
from bench.rewrite.statement_side import SPARK
from bench.rewrite.survivors import local

SHAPE = Shape(
    "statements",
    partitions=4,
    base_rows=400_000,
    base_files=2,
    upserts=40_000,
    commits=4,
    growing=False,
)
WRITERS = (1, 2, 4)
KEYS = 2_000  # of a partition that its writer touches
WARM_S = 20.0
SECONDS = 75.0
MORE_FAILURES = 0.01  # than with nobody at work: the bar
ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
ENGINES: tuple[Engine | None, ...] = (None, FIRNLINE, PARTIAL)


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """Each engine in turn, each time on a copy of the same table."""
    origin = place.source(SHAPE.scaled(scale))
    print(origin.described(), flush=True)
    sides: dict[str, Any] = {}
    with guarded(place) as behind, _spark(behind) as spark:
        keys = _keys(origin)
        _beside(behind, spark, origin, keys, None, WARM_S)
        for engine in ENGINES:
            name = engine.name if engine else "nobody"
            with ExitStack() as held:
                visitor = held.enter_context(visiting(behind, engine)) if engine else None
                for writers in WRITERS:
                    some = dict(list(keys.items())[:writers])
                    side = _beside(behind, spark, origin, some, visitor, SECONDS)
                    sides[f"{name}, {writers}"] = side
                    print(f"{name}, {writers} writers: {side}", flush=True)
    bars = _bars(sides)
    for bar in bars:
        print(bar, flush=True)
    return {"table": origin.described(), "sides": sides, "bars": [bar.as_json() for bar in bars]}


def _spark(place: Arena) -> Any:
    return started(SPARK, place.work(SPARK.name), uri=place.lake.uri)


def _keys(origin: Source) -> dict[str, list[int]]:
    """Some keys of each partition, by its name."""
    found: dict[str, list[int]] = {}
    for file in sorted(origin.live.data, key=lambda one: one.path):
        name = local(file.path, "").split("/p=")[1].split("/")[0]
        if name not in found:
            rows = pq.read_table(local(file.path, ""), columns=["id"])["id"].to_pylist()
            found[name] = sorted(set(rows))[:KEYS]
    return found


def _beside(
    place: Arena,
    spark: Running,
    origin: Source,
    keys: dict[str, list[int]],
    visitor: Visitor | None,
    seconds: float,
) -> dict[str, Any]:
    name = place.copied(origin)
    table = place.machine.load(name)
    change = table.updateProperties()
    for key, value in ON_READ.items():
        change.set(key, value)
    change.commit()
    spark.ask(60, table=name, keys=keys)
    turns: list[dict[str, Any]] = []
    if visitor is None:
        time.sleep(seconds)
    else:
        turns += [turn(visitor, origin, name) for _ in orders(seconds)]
    book = spark.ask(300, end=True)
    loaded = place.loaded(name)
    live = live_files(loaded, loaded.head("main").snapshot_id)
    failures = Counter(map(first_cause, book["failures"]))
    return {
        "statements": len(book["took_s"]),
        "failed": len(book["failures"]),
        "failures": dict(failures),
        "statement_s": {
            "median": rank(book["took_s"], 0.5), "p99": rank(book["took_s"], 0.99)
        },
        "rewrites": len(turns),
        "bytes_committed": sum(one["bytes_committed"] for one in turns),
        "bytes_lost": sum(one["bytes_lost"] for one in turns),
        "files_left": len(live.data) + len(live.deletes),
        "rows_right": book["rows_right"],
    }  # fmt: skip


def _bars(sides: dict[str, Any]) -> list[Bar]:
    def share(name: str, writers: int) -> float:
        side = sides[f"{name}, {writers}"]
        return float(side["failed"] / max(1, side["statements"]))

    return [
        bar
        for writers in WRITERS
        for bar in (
            Bar(
                f"share of failed statements, {writers} writers, Firnline",
                share("nobody", writers) + MORE_FAILURES,
                figure([share(FIRNLINE.name, writers)]),
            ),
            Bar(
                f"the same, {writers} writers, Iceberg's action",
                None,
                figure([share(PARTIAL.name, writers)]),
            ),
        )
    ]
