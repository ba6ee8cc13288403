"""The Spark session of a worker, and the stage that runs on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from firnline_iceberg.endpoints import endpoint
from firnline_iceberg.java import UNREPORTED, WHOLE
from pyspark.sql import SparkSession

from firnline_worker.settings import Settings
from firnline_worker.stage import GroupOrder, GroupResult, StageOrder, run_groups

_JVM = "-XX:+UseSerialGC -XX:MaxNewSize=64m -XX:MaxHeapFreeRatio=40"
"""The driver only plans and describes: 60 MB less than with G1, which aims at throughput."""
SCRATCH = "spark"  # under the state directory: what a killed driver leaves goes at the next start


def session(settings: Settings) -> SparkSession:
    """Start, or join, a session whose catalog is the one that the writers use."""
    scratch = Path(settings.state_dir) / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.spark_master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    builder = builder.master(settings.spark_master).appName("firnline-worker")
    for name, value in configuration(settings).items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    for name, value in catalog(settings).items():
        made.conf.set(name, value)
    made.sparkContext.setLogLevel("ERROR")
    return made


def configuration(settings: Settings) -> dict[str, str]:
    """Spark's settings for its start, which everybody on the host reads on the driver's command
    line. `spark.executor.pyspark.memory` is never among them: it is RLIMIT_AS, which
    counts mapped sets (H18)."""
    scratch = Path(settings.state_dir).absolute() / SCRATCH
    common = {
        "spark.driver.extraClassPath": settings.iceberg_jar,
        "spark.executor.extraClassPath": settings.iceberg_jar,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{_JVM} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.python.daemon.module": "firnline_worker.daemon",
        "spark.python.worker.faulthandler.enabled": "true",  # tells a crash from a kill (`memory`)
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",  # 13 % less at the peak
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",  # a short task does not queue behind a long one's groups
        "spark.task.maxFailures": "1",  # a task's second try is a new attempt, with new names
        "spark.speculation": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    if settings.spark_master.startswith("local"):
        common["spark.driver.host"] = common["spark.driver.bindAddress"] = "127.0.0.1"
    return common


def catalog(settings: Settings) -> dict[str, str]:
    """Spark's settings of the catalog, said once the session is there: never on a command line."""
    prefix = f"spark.sql.catalog.{settings.catalog_name}"
    place, who = endpoint(settings.catalog_uri)
    common = {
        "type": "rest",
        "uri": place,
        "cache-enabled": "false",  # every task sees the table as it is now
        WHOLE[0]: WHOLE[1],
        UNREPORTED: "false",  # what a rewrite reads is nobody's query
        **who,
    }
    named = {f"{prefix}.{name}": value for name, value in common.items()}
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **named}


class Driver:
    """The JVM behind a session: without it every task would fail, for as long as this lives."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._process: subprocess.Popen[bytes] | None = gateway.proc

    def is_gone(self, patience_s: float = 0.0) -> bool:
        """True if it has ended, or does so within `patience_s`: its connections break first.
        Nobody knows of one that was there before this process (`spark-submit`)."""
        if self._process is None:
            return False
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class SparkStage:
    """Runs the groups of a task as Spark tasks, one each."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._running = 0  # groups of all tasks
        self._lock = Lock()

    def run(self, name: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        """All groups' results, in any order. `name` is the task id, for `cancel`."""
        self._context.setJobGroup(name, f"firnline rewrite {name}", interruptOnCancel=True)
        rdd = self._context.parallelize(groups, len(groups))
        with self._counted(len(groups)) as running:
            threads = max(1, self._context.defaultParallelism // running)
            run = partial(run_groups, replace(order, threads=threads))
            found: list[GroupResult] = rdd.mapPartitions(run).collect()
        return found

    @contextmanager
    def _counted(self, groups: int) -> Iterator[int]:
        """Groups that run while these do."""
        with self._lock:
            self._running += groups
            running = self._running
        try:
            yield running
        finally:
            with self._lock:
                self._running -= groups

    def cancel_all(self) -> None:
        """Give up what runs; its callers see an error."""
        self._context.cancelAllJobs()

    def warm(self) -> None:
        """Start the Python workers and let them import what a group needs."""
        slots = self._context.defaultParallelism
        self._context.parallelize(range(slots), slots).mapPartitions(_imported).collect()


def _imported(_: Any) -> Iterator[str]:
    yield run_groups.__module__
