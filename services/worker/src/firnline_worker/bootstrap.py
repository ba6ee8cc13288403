"""The only module that builds the worker's clients."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from firnline_adapters.clock import now_ms
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.pauses import KafkaPauseReader
from firnline_adapters.kafka_admin.topics import require_topics
from firnline_adapters.observability import metrics
from firnline_adapters.observability.health import HEALTH
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_of
from firnline_adapters.redis.client import redis_client
from firnline_adapters.redis.leases import RedisLeases
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import Lane, LaneRotation, lane_topic
from firnline_domain.ports import Publisher
from firnline_domain.records.pauses import Pause
from firnline_domain.records.signing import Keyring
from firnline_domain.settings.groups import group_name
from firnline_iceberg.catalog_probe import require_catalogs
from firnline_iceberg.catalogs import CatalogCommits, CatalogTables
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs
from firnline_iceberg.java.jars import VARIABLE, class_path
from firnline_iceberg.table.catalog_client import Tables
from pyspark.sql import SparkSession

from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.handlers import COMPARISONS, TABLE_TASKS, WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases
from firnline_worker.host.memory_pressure import MemoryPressure
from firnline_worker.host.out_of_memory import measure_memory
from firnline_worker.host.slot import WorkerSlot, acquire_slot
from firnline_worker.loop import TaskLoop
from firnline_worker.rewrite.compare_rows import Comparer
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter, Stage
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark import executor_check
from firnline_worker.spark.catalogs import SparkCatalogs
from firnline_worker.spark.java_api import JavaTables, SparkJvm
from firnline_worker.spark.session import Driver, SparkStage, require_spark_catalogs, start_session
from firnline_worker.table_actions.registry import ActionTools, build_table_actions

DYING_S = 1.0  # from a broken connection to the end of the JVM that has broken it
COMMON = (TABLE_TASKS, COMPARISONS)  # on the ordinary lane of the default group


@dataclass(frozen=True)
class Worker:
    """The parts of a running worker, and its end."""

    loop: TaskLoop
    inbox: KafkaInbox
    executor: ThreadPoolExecutor
    stage: SparkStage
    spark: SparkSession
    driver: Driver
    cache: DeleteSetCache
    slot: WorkerSlot
    stop: threading.Event
    grace_s: float
    log: Log
    leave: threading.Event = field(default_factory=threading.Event)

    def serve(self) -> bool:
        """Run until `stop` is set; running tasks get `grace_s`, then they are given up and are read
        again by another worker. Or until `leave` is set and the running tasks have ended. Return
        False if Spark's JVM has ended before: no task can run without it, and the running ones are
        delivered again."""
        with metrics.measure_at_scrape("worker_memory_bytes", measure_memory):
            self.loop.run(self._is_over)
        if not self.stop.is_set():
            self.log.error("stopped", why="Spark's JVM has ended; start the worker again")
            self._shut_down()
            return False
        HEALTH.set_ended()
        self.log.info("stopping", running=self.loop.running_count)
        deadline = time.monotonic() + self.grace_s
        while self.loop.running_count and time.monotonic() < deadline:
            time.sleep(0.05)
            self.loop.settle()
        if not self.driver.is_gone():
            self.stage.cancel_all()
        self._shut_down()
        if not self.driver.is_gone():  # a signal to the whole group ends it, too
            self.spark.stop()
        return True

    def _is_over(self) -> bool:
        """Return True if the loop must end. After a request to leave, begin no more tasks, and end
        when the last one has."""
        if self.leave.is_set():
            self.loop.max_running = 0  # begin nothing more
            metrics.gauge("worker_draining", 1)
            if not self.loop.running_count:
                self.stop.set()
        return self.stop.is_set() or self.driver.is_gone()

    def _shut_down(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.cache.close()
        try:
            self.inbox.close()
        except RetryLater as later:  # what was not committed is read again, and known by then
            self.log.warning("left_without_commit", why=later)


def build_worker(settings: WorkerSettings, log: Log, jvm: threading.Thread) -> Worker:
    """Join the consumer group, then wait for Spark: the broker gives a dead worker's partitions to
    the next one only when its session has ended. Raises Misconfigured."""
    resource_group = group_name("FIRNLINE_RESOURCE_GROUP", settings.resource_group)
    topics = topics_of(settings.lanes, resource_group)
    if resource_group:  # misspelt, it would wait for ever
        require_topics(settings.broker, topics, settings.buckets)
    signer = signer_of(settings)
    name = f"{socket.gethostname()}-{os.getpid()}"
    publisher = KafkaPublisher(settings.broker, settings.buckets, name, signer=signer)
    client = redis_client(settings.redis, socket_timeout=5, socket_connect_timeout=5)
    HEALTH.add_optional("redis", client.ping)
    watch_catalogs(HEALTH, settings.connections, catalog_answers)
    said = require_catalogs(settings.connections, log)
    jars = class_path(settings.iceberg_jar, said)
    if jars != settings.iceberg_jar:  # the JVM has begun with what our own settings need
        raise Misconfigured(f"the catalog's storage needs more jars: set {VARIABLE}={jars}")
    slot = acquire_slot(Path(settings.state_dir))
    leases = TaskLeases(RedisLeases(client), slot.owner(), settings.lease_s, log)
    cache = DeleteSetCache(Path(settings.state_dir))
    pauses = KafkaPauseReader(settings.broker, signer)
    group = consumer_group(settings.group, resource_group)
    inbox = KafkaInbox(settings.broker, group, topics, publisher, log)
    spark = start_session(settings, jvm)
    require_spark_catalogs(spark, settings.connections, log)
    stage = SparkStage(spark)
    tables = CatalogTables(settings.connections)
    if stage.is_remote:
        _require_executors(spark, tables, log)
    else:
        stage.warm_up()
    driver, stop = Driver(spark), threading.Event()

    def is_stopping() -> bool:
        return stop.is_set() or driver.is_gone(DYING_S)

    pressure = MemoryPressure(driver.collected_ms)
    pressure.start()
    heartbeats = Heartbeats(publisher, name, now_ms, lambda: pressure.nearly_exhausted)

    def after_poll() -> None:
        leases.renew()
        heartbeats.send_due()
        pauses.catch_up()

    providers = (name.strip() for name in settings.location_providers.split(","))
    catalogs = SparkCatalogs(spark, settings.connections)
    java = JavaTables(spark, catalogs, frozenset(filter(None, providers)))
    commits = CatalogCommits(SparkJvm(spark), settings.connections)
    host = Host(name, leases, publisher, heartbeats, log, is_stopping, pauses.pause_of)
    handlers = handlers_of(settings, tables, java, commits, cache, stage, host, signer.keys)
    executor = ThreadPoolExecutor(settings.tasks_at_once, "task")
    loop = TaskLoop(
        inbox,
        executor,
        handlers.handle,
        settings.tasks_at_once,
        log,
        after_poll,
        dead_letter=handlers.dead_letter,
        read_progress=leases.read_progress,
        max_running_heavy=max_heavy(settings.lanes, settings.tasks_at_once),
        turns=LaneRotation(settings.heavy_share),
    )
    return Worker(
        loop, inbox, executor, stage, spark, driver, cache, slot, stop, settings.grace_s, log
    )


@dataclass(frozen=True)
class Host:
    """The environment of one worker's tasks: the ports, or their in-memory twins in a process of
    its own (`firnline_standalone`)."""

    worker: str
    leases: TaskLeases
    publisher: Publisher
    heartbeats: Heartbeats
    log: Log
    stopping: Callable[[], bool]
    pause: Callable[[str], Pause | None] = lambda _: None


def handlers_of(
    settings: WorkerSettings,
    tables: Tables,
    java: JavaTables,
    commits: TableCommits,
    cache: DeleteSetCache,
    stage: Stage,
    host: Host,
    keys: Keyring,
) -> WorkerHandlers:
    """Return the handlers of every kind of order."""
    guard = Handover(java, tables, lambda key: host.leases.hold(f"table:{key}"))
    budget, name, protected = settings.delete_set_bytes, host.worker, host.leases.started_from
    return WorkerHandlers(
        Rewriter(tables, java, cache, stage, guard, name, budget, now_ms, keys=keys),
        build_table_actions(ActionTools(tables, java, commits, protected, name, now_ms, keys)),
        Comparer(tables, java, name, settings.compare_max_bytes, now_ms),
        host.leases,
        host.publisher,
        name,
        now_ms,
        host.log,
        host.stopping,
        host.heartbeats,
        host.pause,
    )


def _require_executors(spark: SparkSession, tables: Tables, log: Log) -> None:
    """Raise Misconfigured if executors cannot do what a task needs."""
    try:
        sample = executor_check.first_sample(tables)
    except RetryLater as later:
        log.warning("storage_not_tried", why=later)
        sample = None
    for one in executor_check.check_executors(spark, sample):
        log.info("executor", host=one.host, python=one.python, scratch=one.scratch)


def consumer_group(name: str, resource_group: str) -> str:
    """Return the consumer group; every resource group has its own, so that its members do not
    disturb another's."""
    return f"{name}.{resource_group}" if resource_group else name


def topics_of(lanes: str, resource_group: str = "") -> list[str]:
    """Return a resource group's topics of some lanes, comma-separated. Members of one consumer
    group may take different ones. Raises Misconfigured."""
    topics: list[str] = []
    for lane in _parse_lanes(lanes):
        topics.append(lane_topic(lane, resource_group))
        if lane is Lane.ORDINARY and not resource_group:
            topics += COMMON
    return topics


def max_heavy(lanes: str, max_running: int) -> int:
    """Return the number of heavy orders at once: one next to ordinary ones, which it must not keep
    waiting; as many as may run if a worker takes no others. Raises Misconfigured."""
    return 1 if Lane.ORDINARY in _parse_lanes(lanes) else max_running


def _parse_lanes(text: str) -> list[Lane]:
    try:
        return list(dict.fromkeys(Lane(name.strip()) for name in text.split(",")))
    except ValueError:
        known = ", ".join(Lane)
        raise Misconfigured(f"FIRNLINE_WORKER_LANES: {text!r} names others than {known}") from None
