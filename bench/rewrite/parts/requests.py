"""What a rewrite asks of an object store: requests and bytes per rewritten file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from firnline_iceberg.scan.planning import live_files

from bench.rewrite.benchmark_runs import visiting
from bench.rewrite.engines import FIRNLINE, STOCK, STOCK_CACHED, Engine
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source
from bench.rewrite.store import BUCKET, Request, Store, client_properties, serving
from bench.rewrite.table import ensure, store_root

SHAPE = Shape("requests", partitions=3, base_rows=600_000, upserts=300_000, commits=10)
DELETES = "-deletes.parquet"


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """One run each; data in the store, manifests and catalog local. Rows are held against a
    local twin of the same seed."""
    twin = place.source(SHAPE.scaled(scale))
    with serving(store_root(place.lake)) as store:
        origin = _on_store(place, twin)
        found = {
            who.name: _asked(place, store, origin, who) for who in (FIRNLINE, STOCK, STOCK_CACHED)
        }
    for name, one in found.items():
        print(name, one, flush=True)
    return {"table": origin.described(), "requests": found, "bars": []}


def _on_store(place: Arena, twin: Source) -> Source:
    shape = replace(twin.shape, name=f"{twin.shape.name}_s3", on_store=True)
    table = ensure(place.lake, place.machine, shape)
    live = live_files(table, table.head_id("main"))
    return replace(twin, shape=shape, table=table, live=live, scopes=live.scopes)


def _asked(place: Arena, store: Store, origin: Source, who: Engine) -> dict[str, Any]:
    with visiting(place, who, store=client_properties(store.uri)) as visitor:
        store.taken()
        made = visitor.run(origin)
    requests = store.taken()
    inputs = {file.path.removeprefix("s3://") for file in origin.live.data}
    deletes = {file.path.removeprefix("s3://") for file in origin.live.deletes}
    assert all(one.key.startswith(BUCKET) for one in requests)
    return {
        "same_rows": made.same_rows,
        "data": _counted(requests, lambda key: key in inputs, len(inputs)),
        "deletes": _counted(requests, lambda key: key in deletes, len(deletes)),
        "outputs": _counted(requests, lambda key: key not in inputs | deletes, made.output_files),
    }


def _counted(
    requests: Sequence[Request], ours: Callable[[str], bool], files: int
) -> dict[str, Any]:
    """Calls by verb and bytes per file; how often a file's end, where the footer is, was read."""
    mine = [one for one in requests if ours(one.key)]
    verbs = Counter(one.verb for one in mine)
    ends = Counter(one.key for one in mine if one.last is not None and one.last == one.size - 1)
    sizes = {one.key: one.size for one in mine if one.size}
    return {
        "files": files,
        "per_file": {
            verb: round(count / max(1, files), 2) for verb, count in sorted(verbs.items())
        },
        "bytes_read": sum(one.bytes for one in mine if one.verb == "GET"),
        "bytes_written": sum(one.bytes for one in mine if one.verb == "PUT"),
        "bytes_of_files": sum(sizes.values()),
        "footer_reads_most": max(ends.values(), default=0),
        "footer_reads": sum(ends.values()),
    }
