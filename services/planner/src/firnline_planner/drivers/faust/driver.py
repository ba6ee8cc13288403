"""The driver of Faust: one agent, one event at a time, acknowledged by hand, at least once.

The only module that knows Faust, but for its credentials (`security`). Its table takes
writes only while an event is handled, so time comes as records here, on the topic `ticks`
(timer-write hazard, H16).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from firnline_adapters import clock
from firnline_adapters.kafka.assignments import KafkaAssignments
from firnline_adapters.kafka.client import MAX_MESSAGE_BYTES
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_adapters.kafka_admin.replication import replication_here
from firnline_adapters.observability import metrics
from firnline_adapters.observability.health import say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import Headers
from firnline_domain.errors import Misconfigured
from firnline_domain.records.assignments import Board
from firnline_domain.records.events import TickPassed
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner import meters, watchdog
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import TICKS, TOPICS, Input, InputReader
from firnline_planner.drivers.faust.security import aiokafka_options, faust_credentials
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_planner.drivers.store_check import find_damage, read_pairs
from firnline_planner.handlers.dispatch import FACTS
from firnline_planner.settings import PlannerSettings
from firnline_planner.state.effects import Output
from firnline_planner.state.encoding import pause_key

PATIENCE_S = 10.0  # without a step forward: what is there was skipped, not just late
SESSION_S = 8  # Faust's 60 s would leave a killed worker's partitions alone that long
HEARTBEAT_S = 2
LINGER_S = 0.1  # of changelog records; measured: 5,580 events/s against 3,906 without
STOPPED_IN_ORDER = "stopped-in-order"
# Every partition has a RocksDB of its own; Faust's defaults are 2 GiB of cache and 64 MiB of
# write buffer for each.
ROCKSDB = {
    "driver": "rocksdict",
    "block_cache_size": 16 * 1024 * 1024,
    "write_buffer_size": 4 * 1024 * 1024,
    "max_open_files": 64,
}


async def _seek_from_committed(
    consumer: Any, is_changelog: Callable[[Any], bool]
) -> Mapping[Any, int | None]:
    """Seek each partition to its committed offset, and input partitions without one to the
    beginning. Return the offsets."""
    committed: Mapping[Any, int | None] = await consumer.seek_to_committed()
    behind = [tp for tp, offset in committed.items() if not offset and not is_changelog(tp)]
    if behind:
        await consumer.seek_to_beginning(*behind)
    return committed


async def _seek_to_committed(thread: Any) -> Any:
    is_changelog = thread.consumer._is_changelog_tp
    return await thread.call_thread(_seek_from_committed, thread._ensure_consumer(), is_changelog)


def patch_faust() -> None:
    """Patch faust-streaming 0.15.3; again does no harm.

    aiokafka's `seek_to_committed` does nothing if the committed offset is None or 0, and
    recovery throws away what was prefetched before it seeks: the first events of a group are lost.
    Measured: 11 of 29 fresh joins lost 28-151 of 12,800 events; with this patch 0 of 12.
    """
    AIOKafkaConsumerThread.seek_to_committed = _seek_to_committed


@dataclass(frozen=True)
class FaustApp:
    """The app and what the driver uses of it."""

    app: Any
    state: Any  # the table
    facts: Any  # all topics as one channel


def faust_app(settings: PlannerSettings, directory: Path, replicas: int = 1) -> FaustApp:
    """Build the app: a table in RocksDB, co-partitioned with the topics of one agent. Nothing
    connects before its worker starts.

    One table, not one per kind of value: each has a changelog of its own, and after a kill two
    changelogs end at different records (seen: counters of partitions without their table's, twice
    in four kills). Within one changelog what is there is a prefix of what was written.
    """
    patch_faust()
    app = faust.App(
        settings.app,
        broker=";".join(f"kafka://{server}" for server in settings.kafka.split(",")),
        broker_credentials=faust_credentials(settings.broker),
        store="rocksdb://",
        datadir=str(directory),
        topic_partitions=settings.buckets,
        topic_replication_factor=replicas,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        table_standby_replicas=0,
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=HEARTBEAT_S,
        producer_linger=LINGER_S,
        web_enabled=False,
    )
    return FaustApp(
        app=app,
        state=app.Table(
            "state",
            partitions=settings.buckets,
            key_type=bytes,
            value_type=bytes,
            options=dict(ROCKSDB),  # Faust takes entries out of it
        ),
        facts=app.topic(
            *TOPICS,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
        ),
    )


class FaustStore:
    """Pairs of one partition of a Faust table; writes go to its changelog as well.

    To be written only while the agent handles an event of that partition: Faust takes the
    partition from the event at hand.
    """

    max_value_bytes = 900_000  # its changelog takes 1 MB of one record

    def __init__(self, table: Any, partition: int) -> None:
        self._table = table
        self._partition = partition

    @property
    def _rocksdb(self) -> Any:
        """Return the partition's RocksDB, looked up each time: a rebalance closes and reopens it,
        and its lock cannot be shared."""
        return self._table.data._db_for_partition(self._partition)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._rocksdb.get(key)
        return value or None

    def put(self, key: bytes, value: bytes) -> None:
        self._table[key] = value

    def delete(self, key: bytes) -> None:
        """Write an empty value instead of deleting the key. The fleet's pause is in every
        partition, and Faust deletes a key only in the partition where it has seen it last."""
        if key == pause_key(None):
            self._table[key] = b""
        else:
            del self._table[key]

    def scan(self, prefix: bytes) -> Any:
        yield from (pair for pair in read_pairs(self._rocksdb, prefix) if pair[1])


class LocalState:
    """The directory of RocksDB files, and whether they may be trusted.

    Faust writes a value to RocksDB first and to the changelog later, and after a kill reads the
    changelog from where it last heard of it: older values over newer ones, some keys and not
    others. So what a killed planner left is thrown away and restored from the changelog alone
    (10,000 entries a second); a planner that stopped in order leaves a mark, and its successor
    starts at once. The mark says whose state it is: another application, or another number of
    buckets, has other tables in the partitions of the same numbers.
    """

    def __init__(self, state_dir: str, whose: str) -> None:
        self._whose = whose
        self.directory = Path(state_dir) / "faust"
        self._mark = Path(state_dir) / STOPPED_IN_ORDER

    def open(self) -> bool:
        """Make the directory usable. Return False if files of a process that did not stop in order,
        of another planner, or damaged ones were removed."""
        whole = not self.directory.exists() or self._left_by() == self._whose
        whole = whole and not find_damage(one.parent for one in self.directory.rglob("CURRENT"))
        if not whole:
            shutil.rmtree(self.directory)
        self._mark.unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        return whole

    def close(self) -> None:
        """Mark that everything written has reached the changelog."""
        self._mark.write_text(self._whose)

    def _left_by(self) -> str | None:
        return self._mark.read_text() if self._mark.exists() else None


class LogReader:
    """Reads records that Faust has left out, straight from the log: a consumer without a group,
    opened for one stretch of one partition at a time."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._options = aiokafka_options(connection)

    async def read_range(
        self, topic: str, partition: int, start: int, end: int
    ) -> AsyncIterator[Input]:
        """Yield the records from `start` up to, without, `end`, as far as retention has kept them.
        Raises KafkaError."""
        consumer = AIOKafkaConsumer(enable_auto_commit=False, **self._options)
        place = TopicPartition(topic, partition)
        await consumer.start()
        try:
            consumer.assign([place])
            first = await consumer.beginning_offsets([place])
            consumer.seek(place, max(start, first[place]))
            while await consumer.position(place) < end:
                found = await consumer.getmany(place, timeout_ms=1000)
                for one in found.get(place, []):
                    if one.offset < end:
                        yield Input(topic, partition, one.offset, one.key, one.value, one.headers)
        finally:
            await consumer.stop()


class FaustDriver:
    """Owns the buckets whose partitions this worker is given."""

    def __init__(
        self,
        faust_app: FaustApp,
        settings: PlannerSettings,
        reader: InputReader,
        defaults: Thresholds,
        policies: PolicyFile,
        log: Log,
        stop: Callable[[str], NoReturn],
    ) -> None:
        self._faust = faust_app
        self._settings = settings
        self._reader = reader
        self._defaults = defaults
        self._policies = policies
        self._log = log
        self._stop = stop
        self._log_reader = LogReader(settings.broker)
        self._buckets: dict[int, PlannerBucket] = {}
        self._behind: dict[tuple[str, int], tuple[int, float]] = {}
        self._producer: AIOKafkaProducer | None = None
        self._ready = False
        self.handled = 0  # events, for the watchdog

    def install(self) -> None:
        """Give the app its agent, its timer and the hooks of a rebalance."""
        app = self._faust.app
        app.agent(self._faust.facts, name="plan")(self._run_agent)
        app.timer(self._settings.tick_s, name="tick")(self._send_ticks)
        app.on_partitions_revoked.connect(self._drop_buckets, weak=False)
        app.on_rebalance_complete.connect(self._drop_buckets, weak=False)

    async def _run_agent(self, stream: Any) -> None:
        # Acknowledged by hand: an event whose outcome is not kept must come again.
        async for event in stream.noack().events():
            try:
                await self._handle_event(event)
            except Exception as error:
                self._log.error("stopped", error, why="an event could not be dealt with")
                self._stop("event_failed")

    async def _handle_event(self, event: Any) -> None:
        message = event.message
        place = (message.topic, message.partition, message.offset)
        came = Input(*place, message.key, message.value, _header_list(message.headers))
        if came.topic == TICKS:
            await self._look_behind(came.partition)
        else:
            await self._read_skipped(came.topic, came.partition, came.offset)
        if await self._handle_input(came):
            event.ack()
            self._say_ready(came.topic)

    async def _handle_input(self, came: Input) -> bool:
        """Handle one record; False if there was a rebalance meanwhile, and nothing was kept."""
        meters.count_read([came.topic])
        generation = self._faust.app.consumer_generation_id
        bucket = self._open_bucket(came.partition)
        effects = self._reader.read_and_handle(came, bucket, clock.now_ms())
        await self._send_outputs(effects.outputs, came.partition)
        if generation != self._faust.app.consumer_generation_id:
            bucket.discard()  # another may have gone on meanwhile, from the state before this
            return False
        bucket.commit()
        meters.count_steps([effects])
        self.handled += 1
        return True

    async def _read_skipped(self, topic: str, partition: int, end: int) -> None:
        """Handle the records that are missing before `end` first: Faust skips records in some
        rebalances."""
        start = self._next_offset(topic, partition)
        if start >= end:
            return
        self._log.warning("skipped", topic=topic, partition=partition, start=start, end=end)
        generation = self._faust.app.consumer_generation_id
        async for missed in self._log_reader.read_range(topic, partition, start, end):
            if not await self._handle_input(missed):
                return
        bucket = self._open_bucket(partition)
        if bucket.next_offset(topic) < end and generation == self._faust.app.consumer_generation_id:
            bucket.advance_offset(
                topic, end - 1
            )  # retention has taken the rest: it is not read again
            bucket.commit()

    async def _look_behind(self, partition: int) -> None:
        """Read the records that were skipped at the very end of a topic: no other record follows
        them."""
        for topic in FACTS:
            end = self._faust.app.consumer.highwater(TP(topic, partition)) or 0
            if self._stands_still(topic, partition, end):
                await self._read_skipped(topic, partition, end)

    def _stands_still(self, topic: str, partition: int, end: int) -> bool:
        """Return True if there are records before `end` and none came for PATIENCE_S.

        By the clock, not by ticks: after a restart those of the last process come in one burst."""
        place, start, now_s = (
            (topic, partition),
            self._next_offset(topic, partition),
            time.monotonic(),
        )
        at, since_s = self._behind.get(place, (start, now_s))
        if start >= end or start != at:
            self._behind[place] = (start, now_s)
            return False
        self._behind[place] = (at, since_s)
        return now_s - since_s >= PATIENCE_S

    def _next_offset(self, topic: str, partition: int) -> int:
        return self._open_bucket(partition).next_offset(topic)

    def _open_bucket(self, partition: int) -> PlannerBucket:
        if partition not in self._buckets:
            pairs = FaustStore(self._faust.state, partition)
            self._buckets[partition] = PlannerBucket(
                pairs, self._defaults, read_policies=self._policies.read_current
            )
        return self._buckets[partition]

    async def _send_outputs(self, outputs: list[Output], partition: int) -> None:
        """Return when every output is on the broker. Raises KafkaError."""
        if not outputs:
            return
        producer = await self._started_producer()
        sent = []
        for output in outputs:
            topic, name, value, place = output.encode_for_send(
                partition, self._settings.buckets, clock.now_ms()
            )
            key = name.encode()
            headers = self._reader.signer.sign_headers(topic, place, key, value, output.trace)
            sent.append(await producer.send(topic, value, key, partition=place, headers=headers))
        for future in sent:
            await future

    async def _started_producer(self) -> AIOKafkaProducer:
        """Return the driver's own producer, started: Faust's waits its linger time, and drops sends
        without an error."""
        if self._producer is None:
            producer = AIOKafkaProducer(
                **aiokafka_options(self._settings.broker),
                acks="all",
                enable_idempotence=True,
                max_request_size=MAX_MESSAGE_BYTES,  # dead letters hold whole records
            )
            await producer.start()
            self._producer = producer
        return self._producer

    async def _send_ticks(self) -> None:
        """Send the time to every partition that this worker owns (timer-write hazard, H16)."""
        app = self._faust.app
        if app.rebalancing or app.in_recovery:
            return
        owned = sorted(tp.partition for tp in app.consumer.assignment() if tp.topic == TICKS)
        if not owned:
            self._say_ready(TICKS)  # more workers than partitions: ready to take over
        producer = await self._started_producer()
        for partition in owned:
            key, tick = (
                str(partition).encode(),
                encode_record(TickPassed(partition, clock.now_ms())),
            )
            headers = self._reader.signer.sign_headers(TICKS, partition, key, tick)
            await producer.send(TICKS, tick, key, partition=partition, headers=headers)
        meters.set_gauges(self._buckets.values())

    def _say_ready(self, topic: str) -> None:
        """Report readiness at the first tick that is read back: it proves recovery, producer and
        agent."""
        if not self._ready and topic == TICKS:
            self._ready = True
            say_ready(self._log, topics=",".join(TOPICS), buckets=len(self._buckets))

    def lag(self) -> dict[tuple[str, ...], float]:
        """Return the lag in records of each assigned partition, by group, topic and partition."""
        consumer, group = self._faust.app.consumer, self._settings.app
        done = dict(consumer._committed_offset)
        return {
            (group, place.topic, str(place.partition)): max(end - at, 0)
            for place, at in done.items()
            if place.topic in TOPICS and at is not None and (end := consumer.highwater(place))
        }

    async def _drop_buckets(self, *_: Any, **__: Any) -> None:
        """Drop all buckets: after a rebalance another worker may have changed the state, so the
        schedules are built again."""
        self._buckets.clear()
        self._behind.clear()


def _header_list(found: Any) -> Headers:
    """Return the headers as a list: Faust's clients return a mapping or pairs."""
    return list(found.items() if isinstance(found, Mapping) else found or ())


def demand_by_hash(settings: PlannerSettings, reader: InputReader) -> None:
    """Require that each table is in the bucket of its hash. Raises Misconfigured if the other
    driver has moved tables: without transactions a table could be in two."""
    assignments = KafkaAssignments(settings.broker, Board(settings.buckets), reader.signer)
    assignments.close()
    if not assignments.board.is_by_hash:
        raise Misconfigured(
            "FIRNLINE_PLANNER_DRIVER=faust, and tables are not where their hash says, or buckets "
            "were added: keep `kafka`, or make new topics"
        )


def serve(
    settings: PlannerSettings,
    reader: InputReader,
    defaults: Thresholds,
    policies: PolicyFile,
    log: Log,
) -> None:
    """Serve until a signal; the process exits through SystemExit. Raises Misconfigured."""
    demand_by_hash(settings, reader)
    local = LocalState(settings.state_dir, f"{settings.app} {settings.buckets}")
    if not local.open():
        log.warning("restoring", why="the last planner here did not stop in order")
    made = faust_app(settings, local.directory, _changelog_replicas(settings))
    stop = partial(watchdog.exit_process, log)
    driver = FaustDriver(made, settings, reader, defaults, policies, log, stop)
    driver.install()
    signs = {
        "events or recovery": partial(_event_progress, made.app, driver),
        "commits": partial(_commit_progress, made.app),
    }
    guard = watchdog.Watchdog(signs, settings.stall_s, stop)
    guard.start()
    worker = faust.Worker(
        made.app, loglevel="info", override_logging=False, redirect_stdouts=False, quiet=True
    )
    worker.spinner = None  # it writes to the terminal at every log line
    try:
        with metrics.measure_at_scrape("consumer_lag_records", driver.lag):
            worker.execute_from_commandline()
    except SystemExit as ended:
        if not ended.code:
            local.close()
        raise


def _changelog_replicas(settings: PlannerSettings) -> int:
    """Return the number of replicas for a new changelog topic. Raises Misconfigured,
    KafkaException."""
    admin = KafkaClients(settings.broker, settings.app).create_admin()
    return replication_here(admin, settings.replicas, settings.min_in_sync).replicas


def _event_progress(app: Any, driver: FaustDriver) -> Hashable | None:
    """Return a mark that changes with each event handled (there are ticks) and with each record
    restored."""
    if not app.started or _is_idle(app):
        return None
    restored = sum(offset or 0 for offset in dict(app.tables.recovery.active_offsets).values())
    return driver.handled, restored


def _commit_progress(app: Any) -> Hashable | None:
    """Return a mark that changes with the committed offsets of the ticks, which never end."""
    if not app.started or _is_idle(app):
        return None
    offsets = dict(app.consumer._committed_offset)
    return sum(offset or 0 for tp, offset in offsets.items() if tp.topic == TICKS)


def _is_idle(app: Any) -> bool:
    """Return whether a worker has joined and was assigned no partition."""
    return bool(app.unassigned)
