"""What readers pay for debt, and what conversions and merges of many small files cost us: CPU
seconds of process trees on small tables, and the constants that explain them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.scan.planning import PlannedFile, live_files
from firnline_iceberg.table.loaded_table import LoadedTable

from bench.rewrite.benchmark_runs import LIMIT_S, Visitor, committed, question, visiting
from bench.rewrite.engines import FIRNLINE, STOCK, Running, started
from bench.rewrite.prices import Amounts, Measured, fit
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source
from bench.rewrite.survivors import local
from bench.rewrite.trees import Watch

SMALL_ROWS = 200  # of each of many files
TARGET = 1_000  # bytes: no file is a fragment, and a conversion takes each
ALL = 128 << 20  # bytes: every file is one
ROUNDS = 3
READ_TERMS = (
    "files", "bytes", "delete_files", "loads", "positions", "vector_positions"
)  # fmt: skip
VERSIONS = ("2", "3")


def _shape(name: str, rows: int, files: int, commits: int = 0, deletes: int = 0) -> Shape:
    """One partition. Each commit deletes so many keys, none of them new or hot, and writes as many
    rows."""
    return Shape(
        f"prices_{name}",
        spec="none",
        partitions=1,
        base_rows=rows,
        base_files=files,
        upserts=deletes * commits,
        commits=commits,
        growing=False,
        new_share=0.0,
        hot_share=1.0,
        hot_weight=1.0,
        target_bytes=TARGET,
    )


TIDY = (_shape("tidy_small", 200_000, 1), _shape("tidy_large", 2_000_000, 2))
SMALL = tuple(_shape(f"small_{files}", SMALL_ROWS * files, files) for files in (100, 400))
EQUALITY = tuple(
    _shape(f"eq_{deletes}x{files}", 200_000, files, deletes, 5_000)
    for deletes in (4, 16)
    for files in (4, 32)
)
DEAD = tuple(_shape(f"dead_{share}", 1_000_000, 4, 1, 10_000 * share) for share in (5, 20, 50))
MANY = tuple(
    _shape(f"many_{files}", SMALL_ROWS * files, files, 1, SMALL_ROWS * files // 5)
    for files in (10, 100, 1_000)
)


def run(place: Arena, _count: int, _scale: float) -> dict[str, Any]:
    """The tables with deletes are converted, and read before and after; then all are fitted."""
    origins = {s.name: place.source(s) for s in (*TIDY, *SMALL, *EQUALITY, *DEAD, *MANY)}
    print("tables are there", flush=True)
    read = {name: name for shape in (*TIDY, *SMALL, *EQUALITY, *DEAD) for name in [shape.name]}
    copies: list[tuple[Source, str]] = []
    rewrites: list[dict[str, Any]] = []
    try:
        with visiting(place, FIRNLINE) as visitor:
            for number in range(ROUNDS):
                for shape in (*DEAD, *MANY):
                    origin = origins[shape.name]
                    for version in VERSIONS:
                        made = _rewritten(place, visitor, origin, "convert", version)
                        rewrites.append(made)
                        copies.append((origin, made["table"]))
                        if shape in DEAD and number == 0:
                            read[f"{shape.name}_v{version}"] = made["table"]
                    if shape in MANY:
                        made = _rewritten(place, visitor, origin, "compact", "2")
                        rewrites.append(made)
                        copies.append((origin, made["table"]))
        with started(replace(STOCK, name="reader"), place.work("reader"), uri=place.lake.uri) as js:
            reads = _reads(place, js, read, origins)
    finally:
        for origin, name in copies:
            place.remove(origin, name)
    return _fitted(reads, rewrites)


def _rewritten(
    place: Arena, visitor: Visitor, origin: Source, action: str, version: str
) -> dict[str, Any]:
    """Of a copy of the table, by our worker and committer."""
    name = place.copied(origin)
    change = place.machine.load(name).updateProperties().set("format-version", version)
    if action == "compact":
        change = change.set("write.target-file-size-bytes", str(ALL))
    change.commit()
    ratio = 1.0 if action == "convert" else 0.0
    asked = {**question(origin, name), "action": action, "min_dead_ratio": ratio}
    with Watch(visitor.running.pid) as watch:
        answer = visitor.running.ask(LIMIT_S, **asked)
    assert visitor.committer is not None
    commit = committed(visitor.committer, answer["results"])
    assert set(commit["events"]) == {"RewriteCommitted"}, commit
    made = {
        "table": name,
        "case": f"{action} {origin.shape.name.removeprefix('prices_')} v{version}",
        "action": action,
        "amounts": _work(origin, action, place.loaded(name)),
        "worker_cpu_s": round(watch.usage.cpu_s, 2),
        "worker_wall_s": round(watch.usage.wall_s, 2),
        "commit_cpu_s": commit["cpu_s"],
        "commit_wall_s": commit["wall_s"],
    }
    print({key: value for key, value in made.items() if key != "amounts"}, flush=True)
    return made


def _work(origin: Source, action: str, after: LoadedTable) -> Amounts:
    """What there is to do. Files written by the deletes' own commit are not converted."""
    (scope,) = origin.scopes
    files = origin.live.files_of_scope(scope)
    taken = [file for file in files if file.deletes] if action == "convert" else list(files)
    deletes = {delete.key: delete for file in taken for delete in file.deletes}.values()
    left = live_files(after, after.head_id("main"))
    return Amounts(
        files=len(taken),
        bytes=sum(_key_bytes(file) if action == "convert" else file.data.bytes for file in taken),
        deletes=sum(delete.records for delete in deletes),
        written=sum(file.bytes for file in left.data) if action == "compact" else 0,
    )


def _key_bytes(file: PlannedFile) -> int:
    footer = pq.read_metadata(local(file.data.path))
    groups = (footer.row_group(number).column(0) for number in range(footer.num_row_groups))
    return sum(column.total_compressed_size for column in groups)


def _reads(
    place: Arena, spark: Running, names: dict[str, str], origins: dict[str, Source]
) -> list[Measured]:
    """All tables in turn; the first round is for the compilers."""
    costs: dict[str, list[float]] = {what: [] for what in names}
    for number in range(ROUNDS + 1):
        for what, name in names.items():
            with Watch(spark.pid) as watch:
                rows = spark.ask(LIMIT_S, read=name)["rows"]
            alive = origins[what.removesuffix("_v2").removesuffix("_v3")].rows_out
            assert rows == alive, f"{what}: {rows} rows, not {alive}"
            if number:
                costs[what].append(round(watch.usage.cpu_s, 2))
    found = [
        Measured(what.removeprefix("prices_"), _held(place.loaded(name)), tuple(costs[what]))
        for what, name in names.items()
    ]
    for one in found:
        print(one, flush=True)
    return found


def _held(table: LoadedTable) -> Amounts:
    """What a scan of the whole table reads."""
    live = live_files(table, table.head_id("main"))
    files = [file for scope in live.scopes for file in live.files_of_scope(scope)]
    masked: dict[DeleteKind, float] = dict.fromkeys(DeleteKind, 0.0)
    loads, scanned = 0, 0.0
    for file in files:
        dead = 0
        for delete in file.deletes:
            if delete.kind is DeleteKind.EQUALITY:
                loads += delete.records
            else:
                dead += delete.records
                masked[delete.kind] += delete.records
        scanned += file.data.bytes * (1 - dead / file.data.records)
    deletes = {delete.key: delete for file in files for delete in file.deletes}.values()
    return Amounts(
        files=len(files),
        bytes=scanned,
        delete_files=len(deletes),
        deletes=sum(one.records for one in deletes if one.kind is DeleteKind.EQUALITY),
        loads=loads,
        positions=masked[DeleteKind.POSITION],
        vector_positions=masked[DeleteKind.DELETION_VECTOR],
    )


def _fitted(reads: list[Measured], rewrites: list[dict[str, Any]]) -> dict[str, Any]:
    def cases(action: str, key: str) -> list[Measured]:
        found: dict[str, list[dict[str, Any]]] = {}
        for one in rewrites:
            if one["action"] == action:
                found.setdefault(one["case"], []).append(one)
        return [
            Measured(case, some[0]["amounts"], tuple(one[key] for one in some))
            for case, some in found.items()
        ]

    worker, commit = cases("convert", "worker_cpu_s"), cases("convert", "commit_cpu_s")
    walls = cases("convert", "commit_wall_s")
    compact, settled = cases("compact", "worker_cpu_s"), cases("compact", "commit_cpu_s")
    prices = {
        "read": fit(reads, READ_TERMS),
        "convert": fit(
            [one.beside(other) for one, other in zip(worker, commit, strict=True)],
            ("files", "bytes", "deletes"),
        ),
        "convert_worker": fit(worker, ("files", "bytes", "deletes")),
        "convert_commit": fit(commit, ("files", "deletes")),
        "convert_commit_wall": fit(walls, ("files", "deletes")),
        "compact_worker": fit(compact, ("files",)),
        "compact_commit": fit(settled, ("files",)),
    }
    for name, one in prices.items():
        print(name, {term: f"{price:.3g}" for term, price in one.items()}, flush=True)
    return {
        "reads": [one.as_json() for one in reads],
        "rewrites": [
            {"worker": a.as_json(), "commit": b.as_json()}
            for a, b in ((*zip(worker, commit, strict=True), *zip(compact, settled, strict=True)))
        ],
        "commit_walls": [one.as_json() for one in walls],
        "prices": prices,
        "bars": [],
    }
