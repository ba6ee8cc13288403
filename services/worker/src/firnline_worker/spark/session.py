"""The Spark session of a worker, and the stage that runs on it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_iceberg.catalog_probe import refused_by_java
from firnline_iceberg.connection.configuration import Connections
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java import tls as java_tls
from firnline_iceberg.java.names import JavaNames
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from firnline_worker.settings import WorkerSettings, is_remote
from firnline_worker.spark import executor_delete_sets, executor_environment
from firnline_worker.spark.executor_delete_sets import LiveSets
from firnline_worker.spark.jvm import launch, spark_conf
from firnline_worker.spark.stage import (
    GroupOrder,
    GroupResult,
    StageOrder,
    import_stage,
    run_groups,
)


def start_session(settings: WorkerSettings, jvm: threading.Thread | None = None) -> SparkSession:
    """Start, or join, a session whose catalog is the one that the writers use."""
    (jvm or launch(settings)).join()
    context: Any = SparkContext
    conf = spark_conf(settings)
    context._ensure_initialized(conf=conf)
    context._jvm = JavaNames(context._gateway.jvm)  # also for PySpark's own calls
    builder: Any = SparkSession.builder
    made: SparkSession = builder.config(conf=conf).getOrCreate()
    for connection in settings.connections.values():
        java_tls.use_tls(made._jvm, connection)
        for name, value in connection.spark_settings().items():  # never on a command line
            made.conf.set(name, value)
    made.sparkContext.setLogLevel("ERROR")
    if settings.on_cluster:
        executor_environment.send_environment(made.sparkContext, settings)
    return made


def require_spark_catalogs(spark: SparkSession, connections: Connections, log: Log) -> None:
    """Check that Spark has the catalog, or one of several. If Spark cannot make a catalog, it
    reports of each table later that `spark_catalog requires a single-part namespace`. Raises
    Misconfigured with the true cause."""
    refused = [found for one in connections.values() if (found := _catalog_refusal(spark, one))]
    if len(refused) == len(connections):
        raise refused[0]
    for one in refused:
        log.error("catalog_away", why=one, then="serving the others")


def _catalog_refusal(spark: SparkSession, connection: CatalogConnection) -> Misconfigured | None:
    session: Any = spark._jsparkSession
    try:
        session.sessionState().catalogManager().catalog(connection.name)
    except Py4JJavaError as error:
        return refused_by_java(error.java_exception, connection)
    except CapturedException as error:  # PySpark's for some of Java's
        return refused_by_java(error._origin, connection)
    return None


class Driver:
    """The session's JVM. When it has ended every task fails, so the worker ends, too."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._jvm: Any = spark._jvm
        self._process: subprocess.Popen[bytes] | None = gateway.proc

    def collected_ms(self) -> int:
        """Return the time that it has spent on garbage collection. Raises Py4JError."""
        beans = self._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
        return sum(beans.get(index).getCollectionTime() for index in range(beans.size()))

    def is_gone(self, patience_s: float = 0.0) -> bool:
        """Return True if it has ended, or does so within `patience_s`: its connections break first.
        A JVM that existed before this process (`spark-submit`) cannot be checked."""
        if self._process is None:
            return False
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class SparkStage:
    """A stage that runs the groups of a task as Spark tasks, one each."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.is_remote = is_remote(str(self._context.master))
        failures = self._context.getConf().get("spark.task.maxFailures", "1")
        # One more than count: an executor that is taken away (decommissioned, preempted) does not.
        self.tries = int(failures or 1) + 1 if self.is_remote else 1
        cores = self._context.getConf().get("spark.executor.cores", "1")
        self._most_threads = int(cores or 1) if self.is_remote else sys.maxsize
        self._running = 0  # groups of all tasks
        self._lock = Lock()

    def run(self, name: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        """Return all groups' results, in any order. `name` is the task id, for `cancel`."""
        self._context.setJobGroup(name, f"firnline rewrite {name}", interruptOnCancel=True)
        rdd = self._context.parallelize(groups, len(groups))
        with self._count_groups(len(groups)) as running:
            threads = max(1, self._context.defaultParallelism // running)
            threads = min(threads, self._most_threads)
            run = partial(run_groups, replace(order, threads=threads))
            found: list[GroupResult] = rdd.mapPartitions(run).collect()
        return found

    @contextmanager
    def _count_groups(self, groups: int) -> Iterator[int]:
        """Yield the number of groups that run, these included, and count them while the block
        runs."""
        with self._lock:
            self._running += groups
            running = self._running
        try:
            yield running
        finally:
            with self._lock:
                self._running -= groups

    def remove_unused_sets(self, live: LiveSets) -> None:
        """Remove the sets that no task holds any more from executors on other hosts, in the
        background. A failure does no harm: the next task there removes them."""
        count = max(1, self._context._jsc.sc().getExecutorMemoryStatus().size() - 1)
        rdd = self._context.parallelize(range(count), count)
        call = partial(rdd.foreachPartition, partial(executor_delete_sets.remove_in_task, live))
        threading.Thread(target=_ignore_errors, args=(call,), daemon=True).start()

    def cancel_all(self) -> None:
        """Cancel all running groups; their callers see an error."""
        self._context.cancelAllJobs()

    def warm_up(self) -> None:
        """Start the Python workers and let them import what a group needs."""
        slots = self._context.defaultParallelism
        self._context.parallelize(range(slots), slots).mapPartitions(import_stage).collect()


def _ignore_errors(call: Callable[[], None]) -> None:
    with suppress(Exception):
        call()
