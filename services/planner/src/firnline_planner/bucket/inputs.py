"""Bytes of a topic to a step: what cannot be used goes to `dead-letters`, whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from firnline_adapters.kafka.dead_letters import DEAD_LETTERS
from firnline_adapters.kafka.poison_records import died_at
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import keep_trace, trace_in
from firnline_adapters.records.codec import RecordCodec, check_kind
from firnline_adapters.records.record_sizes import check_size
from firnline_adapters.records.signing import Headers, RecordSigner
from firnline_domain.base.times import CLOCKS_DIFFER_MS
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.assignments import HANDOVERS
from firnline_domain.records.events import DeadLettered, TickPassed
from firnline_domain.records.signing import Keyring

from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.handlers.dispatch import FACTS
from firnline_planner.state.effects import SERVICE, Effects, Output
from firnline_planner.state.encoding import UnusableState

FILE_CHANGES = "file-changes"
OPERATOR_ORDERS = "operator-orders"
TABLE_SCANS = "table-scans"
TICKS = "ticks"
TOPICS = (*FACTS, TICKS)
WITH_HANDOVERS = (*FACTS, HANDOVERS)  # what a bucket reads that is a home
BY_BUCKET = (FILE_CHANGES, HANDOVERS)  # and what one reads that was added
NO_OFFSET = -1  # of a tick that is on no topic
_OFF = RecordSigner(Keyring())
CHUNK_BYTES = 1_000_000  # of inputs, decoded ahead; a batch may have a thousand times as much


class Input(NamedTuple):
    """One record as it came."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    deaths: int = 0  # of planners that had begun it alone


def split_chunks(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """Yield all inputs in order, in lists of about CHUNK_BYTES."""
    chunk: list[Input] = []
    size = 0
    for one in inputs:
        chunk.append(one)
        size += len(one.value or b"")
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class InputReader:
    """Decodes inputs and has their bucket handle them."""

    def __init__(self, codec: RecordCodec, log: Log, signer: RecordSigner = _OFF) -> None:
        """Decode inputs and verify their signatures. `signer`: also signs what the drivers send."""
        self.codec = codec
        self.signer = signer
        self._log = log

    def read_and_handle(self, came: Input, bucket: PlannerBucket, now_ms: int) -> Effects:
        """Return the effects of an input; the bucket waits for `commit` or `discard` then."""
        return self.handle_input(came, self.decode_input(came), bucket, now_ms)

    def pass_time(self, partition: int, bucket: PlannerBucket, now_ms: int) -> Effects:
        """Return the effects of a tick that is on no topic."""
        tick = Input(TICKS, partition, NO_OFFSET, None, None)
        return self.handle_input(tick, TickPassed(partition, now_ms), bucket, now_ms)

    def decode_input(self, came: Input) -> Any:
        """Return the input's record; if it has none, the exception, so that it is put aside in its
        turn."""
        if deadly := died_at(came.deaths):
            return deadly
        try:
            check_size(came.topic, came.value)
            self.signer.verify_record(
                came.topic, came.partition, came.key, came.value, came.headers
            )
            record = check_kind(came.topic, self.codec.decode(came.value))
            if came.topic == FILE_CHANGES:
                keep_trace(record, came.headers)
            return record
        except Exception as error:
            return error

    def handle_input(self, came: Input, record: Any, bucket: PlannerBucket, now_ms: int) -> Effects:
        """Return the effects of an input with that record; see `read_and_handle`."""
        effects = self._handle_or_set_aside(came, record, bucket, now_ms)
        if came.topic in WITH_HANDOVERS:
            bucket.advance_offset(came.topic, came.offset)
        return effects

    def _handle_or_set_aside(
        self, came: Input, record: Any, bucket: PlannerBucket, now_ms: int
    ) -> Effects:
        """Handle the record. One that a handler fails on shows a bug in Firnline; it is put aside
        like a poisonous one, because after a restart it would only fail again. The changes it would
        have made are then missing, and missing snapshots are requested."""
        try:
            if isinstance(record, Exception):
                raise record
            if isinstance(record, TickPassed):
                # One that a clock far off has written, or another life, says nothing of now.
                is_ours = abs(record.at_ms - now_ms) <= CLOCKS_DIFFER_MS
                return bucket.handle(record, record.at_ms if is_ours else now_ms)
            effects = bucket.handle(record, now_ms)
            bucket.demand_small()
            return effects
        except UnusableState:
            raise  # the bucket's own state: no record is at fault
        except PoisonousRecord as poison:
            return self._dead_letter(came, bucket, poison.reason, poison, now_ms)
        except Exception as bug:
            self._log.error("handler_failed", bug, topic=came.topic, offset=came.offset)
            return self._dead_letter(came, bucket, "handler_failed", bug, now_ms)

    def _dead_letter(
        self, came: Input, bucket: PlannerBucket, reason: str, why: Exception, now_ms: int
    ) -> Effects:
        bucket.discard()
        metrics.count("dead_letters", reason=reason)
        trace = trace_in(came.headers)
        self._log.warning("dead_letter", topic=came.topic, offset=came.offset, why=why, trace=trace)
        letter = DeadLettered(
            topic=came.topic,
            partition=came.partition,
            offset=came.offset,
            key=came.key,
            value=came.value,
            reason=reason,
            message=str(why),
            service=SERVICE,
            at_ms=now_ms,
        )
        return Effects(outputs=[Output(DEAD_LETTERS, f"{came.topic}/{came.partition}", letter)])
