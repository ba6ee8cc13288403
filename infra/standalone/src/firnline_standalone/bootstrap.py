"""The one place that builds a run's JVMs and clients."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from firnline_adapters.clock import now_ms
from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.observability.logs import Log
from firnline_committer.background.sweeps import Sweeps
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import without_gateway
from firnline_committer.handlers import CommitterHandlers as CommitHandlers
from firnline_iceberg.catalogs import OneCatalogTables
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.bootstrap import Host, handlers_of
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases
from firnline_worker.spark import jvm
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage, start_session
from py4j import java_gateway, protocol
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from firnline_standalone.engine import Engine, RunTopics
from firnline_standalone.settings import StandaloneSettings

FOREVER_S = 10 * 365 * 86_400.0  # leases of one process end with it


@contextmanager
def open_engine(settings: StandaloneSettings, log: Log, stop: threading.Event) -> Iterator[Engine]:
    """Run an engine on a Spark session and a small JVM of its own, which start side by side. Raises
    Misconfigured, and whatever Spark's start raises."""
    worker = settings.of_worker()
    starting = jvm.launch(worker)
    with IcebergJvm(settings.iceberg_jar, settings.commit_heap_bytes) as iceberg:
        handlers = _stop_on_signals(stop)
        spark = start_session(worker, starting)
        keep_apart(iceberg)
        _stop_on_signals(stop)  # Spark has put its own in place
        cache = DeleteSetCache(settings.state_dir)
        executor = ThreadPoolExecutor(settings.tasks_at_once, "task")
        try:
            yield assemble_engine(settings, log, stop, iceberg, spark, cache, executor)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            cache.close()
            with suppress(Py4JError, OSError):  # a signal to the whole group has ended it, too
                spark.stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)


def assemble_engine(
    settings: StandaloneSettings,
    log: Log,
    stop: threading.Event,
    iceberg: IcebergJvm,
    spark: SparkSession,
    cache: DeleteSetCache,
    executor: ThreadPoolExecutor,
) -> Engine:
    """Assemble an engine on JVMs that run already."""
    reached = settings.catalog
    name, topics = f"{socket.gethostname()}-{os.getpid()}", RunTopics.create()
    publisher, keys = topics.publisher, settings.keys
    stage = SparkStage(spark)
    leases = TaskLeases(MemoryLeases(), name, FOREVER_S, log)
    heartbeats = Heartbeats(publisher, name, now_ms)
    host = Host(name, leases, publisher, heartbeats, log, stop.is_set)
    java = JavaTables(spark, reached.name)
    tables = OneCatalogTables(reached, settings.catalogs)
    cached, commits = Tables(reached, FileCache()), JavaCommits(iceberg, reached)
    worker = settings.of_worker()
    tasks = handlers_of(worker, tables, java, commits, cache, stage, host, keys)
    committer = Committer(
        without_gateway(cached), commits, log, now_ms, time.sleep, settings.lives, keys
    )
    sweeper = OutputSweeper(tables, now_ms, settings.lives.sweep_ms, keys=keys)
    return Engine(
        tasks,
        CommitHandlers(committer, cached, now_ms),
        topics,
        executor,
        log,
        Sweeps(sweeper, log, now_ms),
        settings.share,
        stop.is_set,
        stage.cancel_all,
        partial(_count_groups, spark),
    )


def _count_groups(spark: SparkSession) -> tuple[int, int]:
    """Count the groups that are done, and all of them: groups are Spark's tasks."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
    running = [one for one in stages if one is not None]
    return sum(one.numCompletedTasks for one in running), sum(one.numTasks for one in running)


def _stop_on_signals(stop: threading.Event) -> dict[int, Any]:
    """Set `stop` on Ctrl-C and SIGTERM, so that a run ends in good order. Return the earlier
    handlers, to be put back."""
    before = dict[int, Any]()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: stop.set())
    return before


def keep_apart(iceberg: IcebergJvm) -> None:
    """Look up errors of the committer's JVM there, not in Spark's: py4j looks up every error there
    once Spark's session has begun. The same number is another object there."""
    sparks = java_gateway.get_return_value

    def get_return_value(answer: str, client: Any, *rest: Any, **named: Any) -> Any:
        look_up = protocol.get_return_value if iceberg.is_reached_by(client) else sparks
        return look_up(answer, client, *rest, **named)

    java_gateway.get_return_value = get_return_value
