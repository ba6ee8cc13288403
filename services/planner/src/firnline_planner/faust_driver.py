"""Drives the buckets with Faust: one agent, one event at a time, acknowledged by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from aiokafka import AIOKafkaProducer
from faust.types import TP
from firnline_adapters.kafka import MAX_MESSAGE_BYTES
from firnline_adapters.logs import Log
from firnline_adapters.records import encode
from firnline_adapters.signing import Headers
from firnline_domain.events import TickPassed
from firnline_domain.thresholds import Thresholds

from firnline_planner import meters
from firnline_planner.bucket import Bucket
from firnline_planner.clock import wall_ms
from firnline_planner.faust_app import FaustApp, FaustPairs
from firnline_planner.inputs import FACTS, TICKS, TOPICS, Input, Reader
from firnline_planner.log_reader import LogReader
from firnline_planner.settings import Settings
from firnline_planner.step import Output

PATIENCE_S = 10.0  # without a step forward: what is there was skipped, not just late


class FaustDriver:
    """Owns the buckets whose partitions this worker is given."""

    def __init__(
        self,
        faust_app: FaustApp,
        settings: Settings,
        reader: Reader,
        defaults: Thresholds,
        log: Log,
        stop: Callable[[str], NoReturn],
    ) -> None:
        self._faust = faust_app
        self._settings = settings
        self._reader = reader
        self._defaults = defaults
        self._log = log
        self._stop = stop
        self._log_reader = LogReader(settings.kafka)
        self._buckets: dict[int, Bucket] = {}
        self._behind: dict[tuple[str, int], tuple[int, float]] = {}
        self._producer: AIOKafkaProducer | None = None
        self._ready = False
        self.handled = 0  # events, for the watchdog

    def install(self) -> None:
        """Give the app its agent, its timer and the hooks of a rebalance."""
        app = self._faust.app
        app.agent(self._faust.facts, name="plan")(self._plan)
        app.timer(self._settings.tick_s, name="tick")(self._tick)
        app.on_partitions_revoked.connect(self._forget, weak=False)
        app.on_rebalance_complete.connect(self._forget, weak=False)

    async def _plan(self, stream: Any) -> None:
        # Acknowledged by hand: an event whose outcome is not kept must come again.
        async for event in stream.noack().events():
            try:
                await self._handle(event)
            except Exception as error:
                self._log.error("stopped", error, why="an event could not be dealt with")
                self._stop("event_failed")

    async def _handle(self, event: Any) -> None:
        message = event.message
        place = (message.topic, message.partition, message.offset)
        came = Input(*place, message.key, message.value, _headers(message.headers))
        if came.topic == TICKS:
            await self._look_behind(came.partition)
        else:
            await self._fill(came.topic, came.partition, came.offset)
        if await self._take(came):
            event.ack()
            self._say_ready(came.topic)

    async def _take(self, came: Input) -> bool:
        """Handle one record; False if there was a rebalance meanwhile, and nothing was kept."""
        meters.count_read([came.topic])
        generation = self._faust.app.consumer_generation_id
        bucket = self._bucket(came.partition)
        step = self._reader.step(came, bucket, wall_ms())
        await self._send(step.outputs, came.partition)
        if generation != self._faust.app.consumer_generation_id:
            bucket.discard()  # another may have gone on meanwhile, from the state before this
            return False
        bucket.commit()
        meters.count([step])
        self.handled += 1
        return True

    async def _fill(self, topic: str, partition: int, end: int) -> None:
        """Faust skips records in some rebalances: what is missing before `end` comes first."""
        start = self._next(topic, partition)
        if start >= end:
            return
        self._log.warning("skipped", topic=topic, partition=partition, start=start, end=end)
        generation = self._faust.app.consumer_generation_id
        async for missed in self._log_reader.read(topic, partition, start, end):
            if not await self._take(missed):
                return
        bucket = self._bucket(partition)
        if bucket.next_offset(topic) < end and generation == self._faust.app.consumer_generation_id:
            bucket.passed(topic, end - 1)  # retention has taken the rest: nobody looks for it again
            bucket.commit()

    async def _look_behind(self, partition: int) -> None:
        """A record skipped at the very end of a topic is followed by no other."""
        for topic in FACTS:
            end = self._faust.app.consumer.highwater(TP(topic, partition)) or 0
            if self._stands_still(topic, partition, end):
                await self._fill(topic, partition, end)

    def _stands_still(self, topic: str, partition: int, end: int) -> bool:
        """True if there are records before `end` and none came for PATIENCE_S.

        By the clock, not by ticks: after a restart those of the last life come in one burst.
        """
        place, start, now_s = (topic, partition), self._next(topic, partition), time.monotonic()
        at, since_s = self._behind.get(place, (start, now_s))
        if start >= end or start != at:
            self._behind[place] = (start, now_s)
            return False
        self._behind[place] = (at, since_s)
        return now_s - since_s >= PATIENCE_S

    def _next(self, topic: str, partition: int) -> int:
        return self._bucket(partition).next_offset(topic)

    def _bucket(self, partition: int) -> Bucket:
        if partition not in self._buckets:
            pairs = FaustPairs(self._faust.state, partition)
            self._buckets[partition] = Bucket(pairs, self._defaults)
        return self._buckets[partition]

    async def _send(self, outputs: list[Output], partition: int) -> None:
        """Return when every output is on the broker. Raises KafkaError."""
        if not outputs:
            return
        producer = await self._started_producer()
        sent = []
        for output in outputs:
            topic, name, value, place = output.sent(partition, wall_ms())
            key = name.encode()
            headers = self._reader.signer.headers(topic, place, key, value)
            sent.append(await producer.send(topic, value, key, partition=place, headers=headers))
        for future in sent:
            await future

    async def _started_producer(self) -> AIOKafkaProducer:
        """Our own: Faust's waits its linger time, and gives up on sends without saying so."""
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._settings.kafka,
                acks="all",
                enable_idempotence=True,
                max_request_size=MAX_MESSAGE_BYTES,  # dead letters hold whole records
            )
            await producer.start()
            self._producer = producer
        return self._producer

    async def _tick(self) -> None:
        """Put the time into every partition that this worker owns (H16)."""
        app = self._faust.app
        if app.rebalancing or app.in_recovery:
            return
        owned = sorted(tp.partition for tp in app.consumer.assignment() if tp.topic == TICKS)
        if not owned:
            self._say_ready(TICKS)  # more workers than partitions: ready to take over
        producer = await self._started_producer()
        for partition in owned:
            key, tick = str(partition).encode(), encode(TickPassed(partition, wall_ms()))
            headers = self._reader.signer.headers(TICKS, partition, key, tick)
            await producer.send(TICKS, tick, key, partition=partition, headers=headers)
        meters.show(self._buckets.values())

    def _say_ready(self, topic: str) -> None:
        """A tick that comes back proves recovery, producer and agent."""
        if not self._ready and topic == TICKS:
            self._ready = True
            self._log.info("ready", topics=",".join(TOPICS), buckets=len(self._buckets))

    async def _forget(self, *_: Any, **__: Any) -> None:
        """After a rebalance the state may have gone on elsewhere: schedules are built anew."""
        self._buckets.clear()
        self._behind.clear()


def _headers(found: Any) -> Headers:
    """Faust's clients give a mapping or pairs."""
    return list(found.items() if isinstance(found, Mapping) else found or ())
