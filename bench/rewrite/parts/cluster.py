"""A rewrite on two executors of 1.5 GB that share only an object store, beside Iceberg's own.

Hosts are namespaces of this machine (`tests/kit/spark_cluster.py`), so both share its cores, and
wall times are for comparing the two alone. Memory is that of a host's executors, JVM and Python.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from firnline_iceberg.scan.planning import live_files

from bench.rewrite.benchmark_runs import arriving
from bench.rewrite.engines import FIRNLINE, STOCK, Engine, Failed
from bench.rewrite.jars import class_path
from bench.rewrite.shapes import WARM, Shape
from bench.rewrite.sources import Arena, Source, arena
from bench.rewrite.store import BUCKET, REGION
from bench.rewrite.survivors import local
from bench.rewrite.table import ensure, store_root
from tests.kit import s3_server as s3
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.spark_cluster import DRIVER, SparkCluster, reason_against, spark_cluster

SHAPE = Shape("cluster", keys="composite", base_rows=50_000_000, upserts=20_000_000, commits=10)
LARGE = 1.35  # 4.7 GB, of which 0.5 GB are equality deletes
HOSTS, HOST_MB = 2, 1536
OUR_JVM_MB, STOCK_JVM_MB = 512, 1400  # ours works in Python, beside the JVM
SET_BYTES = 512 << 20
PERIOD_S = 0.5


@dataclass(frozen=True)
class Sides:
    """Who runs, in this order, and for how long at most."""

    names: tuple[str, ...] = (FIRNLINE.name, STOCK.name)
    limit_s: float = 5_400.0

    @property
    def engines(self) -> list[Engine]:
        """Raises Failed for a name that is none."""
        known = {who.name: who for who in (FIRNLINE, STOCK)}
        if unknown := set(self.names) - set(known):
            raise Failed(f"no side {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return [known[name] for name in self.names]


@dataclass
class Executors:
    """What the hosts' executors take, while the block runs."""

    cluster: SparkCluster
    peak: dict[str, int] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Executors:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        """Of processes that lived for half a second."""
        return round(sum(self.cpu.values()), 1)

    def _run(self) -> None:
        first: dict[int, float] = {}
        while not self._done.wait(PERIOD_S):
            for host in self.cluster.hosts:
                self.peak[host.name] = max(self.peak.get(host.name, 0), host.pss())
                for one in host.tree:
                    try:
                        used = sum(one.cpu_times()[:2])
                    except psutil.Error:
                        continue
                    self.cpu[one.pid] = used - first.setdefault(one.pid, used)


def run(place: Arena, _count: int, scale: float, sides: Sides = Sides()) -> dict[str, Any]:
    """One run each, on one table."""
    engines = sides.engines
    if why := reason_against():
        raise Failed(f"no cluster here: {why}")
    s3.binary()
    class_path({"store": {}})  # fetched now: the cluster's network has no way out
    folder = place.lake.folder / "cluster"
    with (
        spark_cluster(place.work("hosts"), HOSTS, 1, HOST_MB) as cluster,
        cluster.here(),
        arena(folder) as inside,
        _store(folder, store_root(inside.lake)) as store,
    ):
        warm, origin = _on_store(inside, WARM), _on_store(inside, SHAPE.scaled(scale))
        found = {}
        for who in engines:
            one = _measured(inside, cluster, store, warm, origin, who, sides.limit_s)
            found[who.name] = one
            print(who.name, one, flush=True)
    return {"table": origin.described(), "runs": found, "bars": []}


def _on_store(place: Arena, shape: Shape) -> Source:
    """The table, and what is right of it by a local twin of the same seed, whose files it has."""
    twin = place.source(shape)
    shape = replace(shape, name=f"{shape.name}_s3", on_store=True)
    folder = store_root(place.lake) / BUCKET / shape.name / "data"
    for file in (*twin.live.data, *twin.live.deletes):
        path = Path(local(file.path))
        target = folder / path.relative_to(next(one for one in path.parents if one.name == "data"))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(path, target)
    table = ensure(place.lake, place.machine, shape)
    live = live_files(table, table.head_id("main"))
    return replace(twin, shape=shape, table=table, live=live, scopes=live.scopes)


@contextmanager
def _store(folder: Path, root: Path) -> Iterator[S3Server]:
    """Serves the tables' own folders: a bucket is a folder."""
    root.mkdir(parents=True, exist_ok=True)
    (folder / "s3").mkdir(exist_ok=True)
    data = folder / "s3" / "data"
    if not data.is_symlink():
        data.symlink_to(root)
    with s3_server(folder / "s3", host=DRIVER) as made:
        yield made


def _measured(
    place: Arena,
    cluster: SparkCluster,
    store: S3Server,
    warm: Source,
    origin: Source,
    who: Engine,
    limit_s: float,
) -> dict[str, Any]:
    properties = {**store.properties, **store.root.properties(), "s3.region": REGION}
    with arriving(place, who, store=properties, **_given(place, cluster, properties, who)) as one:
        one.run(warm)
        start = time.monotonic()
        with Executors(cluster) as executors:
            try:
                made = one.run(origin, limit_s=limit_s)
            except Failed as error:
                return {"failed": str(error)[:500], **_told(executors, start)}
    return {
        "same_rows": made.same_rows,
        "output_files": made.output_files,
        "output_bytes": made.output_bytes,
        "driver_cpu_s": made.cpu_s,
        "driver_pss_peak": made.pss_peak,
        **_told(executors, start),
        "wall_s": round(made.wall_s, 1),  # without the check of every row
    }


def _told(executors: Executors, start: float) -> dict[str, Any]:
    return {
        "wall_s": round(time.monotonic() - start, 1),
        "executors_cpu_s": executors.cpu_s,
        "host_pss_peak": max(executors.peak.values(), default=0),
    }


def _given(
    place: Arena, cluster: SparkCluster, properties: dict[str, str], who: Engine
) -> dict[str, Any]:
    """How each side is told of the cluster: ours as an operator tells it."""
    spark = {
        "spark.driver.host": DRIVER,
        "spark.driver.bindAddress": DRIVER,
        "spark.executor.cores": "1",
    }
    given: dict[str, Any] = {"master": cluster.master}
    if who.name != FIRNLINE.name:
        jars = class_path({"store": {}}).replace(":", ",")
        memory = {"spark.executor.memory": f"{STOCK_JVM_MB}m", "spark.jars": jars}
        return {**given, "configuration": {**spark, **memory}}
    config = place.work("config").with_suffix(".toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    sections = {
        "catalogs.lake": {"uri": place.lake.uri, **properties},
        "spark": {**spark, "spark.executor.memory": f"{OUR_JVM_MB}m"},
    }
    config.write_text(
        "\n".join(
            f"[{name}]\n" + "\n".join(f'"{key}" = "{value}"' for key, value in table.items())
            for name, table in sections.items()
        )
    )
    return {**given, "config": str(config), "delete_set_bytes": SET_BYTES}
