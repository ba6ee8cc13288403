"""The planner without Kafka: the same buckets over topics and state in memory."""

from __future__ import annotations

from collections.abc import Callable

from firnline_adapters.in_memory import MemoryBroker
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import BY_BUCKET, TICKS, WITH_HANDOVERS, Input, InputReader
from firnline_planner.placement.routing import BucketFleet

from tests.kit.memory_followers import MemoryAssignments
from tests.kit.memory_store import MemoryStore


class MemoryDriver:
    """Reads every partition of a MemoryBroker in order; `restart` keeps only what is durable."""

    def __init__(
        self,
        broker: MemoryBroker,
        reader: InputReader,
        defaults: Thresholds,
        now: Callable[[], int],
        codec: RecordCodec | None = None,
        assigns: bool = True,
    ) -> None:
        """`assigns`: False = each table is at home, as under Faust."""
        self._broker = broker
        self._reader = reader
        self._defaults = defaults
        self._now = now
        self._assigns = assigns
        self.pairs: list[MemoryStore] = []
        self._ticks: list[int] = []
        self._codec = codec or RecordCodec()
        self._assignments = MemoryAssignments(broker, self._codec)
        self.buckets: list[PlannerBucket] = []
        self.restart()

    def restart(self) -> None:
        """Forget what lives in memory only."""
        self._assignments = MemoryAssignments(self._broker, self._codec)
        board = self._assignments.board
        fleet = BucketFleet(board, self._codec)
        added = self._broker.buckets - len(self.pairs)
        self.pairs += [MemoryStore() for _ in range(added)]
        self._ticks += [0] * added
        self.buckets = [
            PlannerBucket(
                pairs,
                self._defaults,
                routing=fleet.create_routing(number) if self._assigns else None,
            )
            for number, pairs in enumerate(self.pairs)
        ]

    def run(self) -> None:
        """Handle everything that is on the topics, and what comes of it."""
        while sum(self._pass(partition) for partition in range(len(self.buckets))):
            self.hear()

    def hear(self) -> None:
        """Take in what was said of assignments and loads."""
        self._assignments.catch_up()

    def _pass(self, partition: int) -> int:
        read = 0
        topics = WITH_HANDOVERS if partition < self._broker.homes else BY_BUCKET
        for topic in (*topics, TICKS):
            while self.step(topic, partition):
                read += 1
        return read

    def step(self, topic: str, partition: int) -> bool:
        """Handle the next record of one topic and bucket; False where there is none."""
        ticks = topic == TICKS
        next_one = self.buckets[partition].next_offset(topic)
        offset = self._ticks[partition] if ticks else next_one
        if offset >= len(self._broker.logs[topic, partition]):
            return False
        self._ticks[partition] += ticks
        self._handle(topic, partition, offset)
        return True

    def _handle(self, topic: str, partition: int, offset: int) -> None:
        key, value = self._broker.logs[topic, partition][offset]
        headers = self._broker.headers.get((topic, partition, offset))
        came = Input(topic, partition, offset, key.encode(), value, headers)
        effects = self._reader.read_and_handle(came, self.buckets[partition], self._now())
        for output in effects.outputs:
            sent = output.encode_for_send(partition, self._broker.homes, self._now())
            value = sent.value or b""
            place = (sent.topic, sent.partition)
            headers = self._reader.signer.sign_headers(
                *place, sent.key.encode(), value, output.trace
            )
            self._broker.append(*place, sent.key, value, headers)
        self.buckets[partition].commit()
