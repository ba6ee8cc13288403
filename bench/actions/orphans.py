"""Orphan removal beside Iceberg's own action, in turn, over the same objects: on an S3 server that
counts calls, and on local files. Each side is a process tree of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.removal.removal import QUARANTINE
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from pyarrow import parquet as pq
from pyiceberg.catalog.rest import RestCatalog

from bench.actions.history import AGE_S, History
from bench.rewrite.engines import Engine, started
from bench.rewrite.trees import Watch, tree
from tests.kit.lake_catalog import s3_catalog
from tests.kit.s3_server import BUCKET, s3_server

OURS, STOCK = "firnline", "iceberg"
A_FOLDER = 1_000  # data files; the S3 server reads a folder as a whole for each page of a listing
COMMITS = 10
SHARE = 100  # one file in so many is an orphan
LIMIT_S = 7_200.0
LOGGED_S = 1.0  # until the server has written down what it was asked
Row = dict[str, Any]


@dataclass(frozen=True)
class Ground:
    """A store below `folder` on this machine, `address` for its clients, with a catalog. `calls`:
    since the last time, by operation. `server_cpu_s`: what the store has used."""

    store: str
    folder: Path
    address: str
    catalog: dict[str, str]
    calls: Callable[[], dict[str, int]]

    @property
    def rest(self) -> RestCatalog:
        return RestCatalog("lake", **CatalogConnection("lake", self.catalog).pyiceberg_properties())

    def table(self, name: str, history: History) -> None:
        """Registers it."""
        place = history.metadata(history.root / "metadata" / f"00001-{name}.metadata.json")
        self.rest.register_table(("bench", name), place)


def orphans(folder: Path, scale: float) -> list[Row]:
    """A hundredth of the files are orphans. Ours moves them aside, Iceberg's deletes them."""
    files = int(1_000_000 * scale)
    rows: list[Row] = []
    for opened in (on_s3, on_files):
        with opened(folder / opened.__name__) as ground:
            for row in chain(_measured(ground, files), _inner(ground), _late(ground)):
                rows.append({"part": "orphans", "store": ground.store, **row})
                print(rows[-1], flush=True)
        shutil.rmtree(folder / opened.__name__)
    return rows


def _measured(ground: Ground, files: int) -> Iterator[Row]:
    begin = time.monotonic()
    left = files // SHARE
    history = History(
        ground.folder / "many", every=1_000, address=f"{ground.address}/many", a_folder=A_FOLDER
    )
    for _ in range(COMMITS):
        history.commit_many((files - left) // COMMITS)
    ground.table("many", history)
    print(f"{files:,} files: {time.monotonic() - begin:.0f} s", flush=True)
    for engine in (OURS, STOCK):
        yield _run(ground, history, engine, left, "listing")
    if ground.store == "s3":
        listed = _inventory(ground, history, left)
        place = f"{ground.address}/{listed.relative_to(ground.folder)}"
        with ground.rest.load_table(("bench", "many")).transaction() as change:
            change.set_properties({"firnline.orphans.inventory": place})
        for engine in (OURS, STOCK):
            yield _run(ground, history, engine, left, "inventory", listed)


def _run(
    ground: Ground, history: History, engine: str, left: int, by: str, listed: Path | None = None
) -> Row:
    leave_behind(history, left)
    question = {**_asked(ground, "many"), "listed": str(listed or "")}
    with _side(ground, engine) as side:
        ground.calls()
        server = _server_cpu_s()
        with Watch(side.pid) as watch:
            answer = side.ask(LIMIT_S, **question)
        server = _server_cpu_s() - server
    assert answer["refused"] is None, answer
    assert left <= answer["orphans"] <= left + 3, answer
    usage = watch.usage
    return {
        "engine": engine,
        "by": by,
        "files": history.files + left,
        "orphans": left,
        "wall_s": round(usage.wall_s, 2),
        "cpu_s": round(usage.cpu_s, 2),
        "server_cpu_s": round(server, 2),
        "mb_before": usage.pss_before >> 20,
        "mb_peak": usage.pss_peak >> 20,
        "calls": ground.calls(),
    }


RUN = "3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab"  # of a writer that died


def leave_behind(history: History, left: int) -> None:
    """Orphans as a writer that died leaves them, spread over all folders; what an earlier run has
    moved aside is gone."""
    shutil.rmtree(history.root / QUARANTINE, ignore_errors=True)
    folders = _folders(history)
    old = (time.time() - AGE_S,) * 2
    for number in range(left):
        path = folders[number % len(folders)] / f"00000-{number}-{RUN}-00001.parquet"
        path.unlink(missing_ok=True)
        path.write_bytes(b"x")
        os.utime(path, old)


def _folders(history: History) -> list[Path]:
    return sorted(one for one in (history.root / "data").iterdir() if one.is_dir())


def _inventory(ground: Ground, history: History, left: int) -> Path:
    """Of all objects of the table, as S3 would have listed them the day before."""
    leave_behind(history, left)
    day = datetime.fromtimestamp(time.time() - AGE_S, UTC)
    paths = (path for one in _folders(history) for path in one.iterdir())
    keys = [str(path.relative_to(ground.folder)) for path in paths]
    columns = {
        "bucket": pa.array([BUCKET] * len(keys)).dictionary_encode(),
        "key": pa.array(keys),
        "size": pa.array([5] * len(keys), pa.int64()),
        "last_modified_date": pa.array([day] * len(keys), pa.timestamp("ms", "UTC")),
    }
    path = ground.folder / "inventory.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def _inner(ground: Ground) -> Iterator[Row]:
    """Another table whose location is below the first one's: which of its files go."""
    for engine in (OURS, STOCK):
        name = f"outer_{engine}"
        outer = History(ground.folder / name, address=f"{ground.address}/{name}", a_folder=A_FOLDER)
        outer.commit_many(2 * A_FOLDER)
        within = outer.root / "data" / "inner"
        inner = History(within, address=f"{outer.address}/data/inner", a_folder=A_FOLDER)
        inner.commit_many(A_FOLDER)
        ground.table(name, outer)
        ground.table(f"inner_{engine}", inner)
        _grow_old(outer)
        before = {one for one in inner.root.rglob("*") if one.is_file()}
        with _side(ground, engine) as side:
            answer = side.ask(LIMIT_S, **_asked(ground, name))
        lost = sum(not one.exists() for one in before)
        yield {
            "engine": engine,
            "by": "another table below the location",
            "files": len(before),
            "lost": lost,
            "refused": answer["refused"],
        }


def _late(ground: Ground) -> Iterator[Row]:
    """Files that a slow writer has written ten days ago and commits after the removal
    (apache/iceberg #4194): which of them the table names, and has not, after the next removal."""
    for engine in (OURS, STOCK):
        name = f"late_{engine}"
        history = History(
            ground.folder / name, address=f"{ground.address}/{name}", a_folder=A_FOLDER
        )
        history.commit_many(A_FOLDER)
        waiting = history.waiting(A_FOLDER // 10)
        ground.table(name, history)
        _grow_old(history)
        with _side(ground, engine) as side:
            side.ask(LIMIT_S, **_asked(ground, name))
            history.commit_these(waiting)
            ground.table(f"{name}_after", history)
            answer = side.ask(LIMIT_S, **_asked(ground, f"{name}_after"))
        paths = [history.root / one.removeprefix(f"{history.address}/") for one in waiting]
        yield {
            "engine": engine,
            "by": "files that are committed after the removal",
            "files": len(waiting),
            "lost": sum(not one.exists() for one in paths),
            "refused": answer["refused"],
        }


def _grow_old(history: History) -> None:
    for path in (one for one in history.root.rglob("*") if one.is_file()):
        os.utime(path, (time.time() - AGE_S,) * 2)


def _asked(ground: Ground, table: str) -> dict[str, Any]:
    return {"table": table, "by_prefix": ground.store == "s3", "listed": ""}


@contextmanager
def _side(ground: Ground, engine: str) -> Iterator[Any]:
    module = Engine(engine, "bench.actions.orphan_side", {"engine": engine})
    with started(module, ground.folder.parent / "sides", catalog=ground.catalog) as running:
        yield running


@contextmanager
def on_s3(folder: Path) -> Iterator[Ground]:
    log = folder / "calls.log"
    folder.mkdir(parents=True)
    with s3_server(folder / "store", more=("--access-log", str(log))) as store:
        port = free_port()
        with run_process(s3_catalog(folder / "catalog", port, store), folder / "catalog.log"):
            given = {"uri": catalog.uri(port), **store.properties, **store.root.properties()}
            given["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
            found = Ground("s3", store.folder / BUCKET, f"s3://{BUCKET}", given, _Calls(log).taken)
            found.rest.create_namespace(("bench",))
            yield found


@contextmanager
def on_files(folder: Path) -> Iterator[Ground]:
    (lake := folder / "lake").mkdir(parents=True)
    port = free_port()
    with run_process(catalog.command(folder / "catalog", port), folder / "catalog.log"):
        found = Ground("files", lake, f"file://{lake}", {"uri": catalog.uri(port)}, dict)
        found.rest.create_namespace(("bench",))
        yield found


@dataclass
class _Calls:
    """What the S3 server has written down."""

    log: Path
    read: int = 0

    def taken(self) -> dict[str, int]:
        time.sleep(LOGGED_S)
        with self.log.open("rb") as source:
            source.seek(self.read)
            lines = source.read().decode().splitlines()
            self.read = source.tell()
        fields = (line.split(" ") for line in lines)
        return dict(Counter(one[7] for one in fields if len(one) > 20).most_common())


def _server_cpu_s() -> float:
    stats = [one for one in tree(os.getpid()) if one.name == "versitygw"]
    return sum(one.own for one in stats) / os.sysconf("SC_CLK_TCK")
