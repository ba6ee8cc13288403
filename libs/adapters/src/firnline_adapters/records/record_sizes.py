"""No record is sent that its topic does not take: it is made smaller, or put aside alone.

The one rule of every producer (decision 0035). Sizes are those before compression: what fits then
fits however well it compresses, and nobody who reads it has to make room for a hundred times as
much. Only results are measured compressed, see COMPRESSED.
"""

from __future__ import annotations

from typing import Any

import zstandard
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.events import DeadLettered
from firnline_domain.records.shrinking import smaller_forms
from firnline_schemas.topics import max_bytes

from firnline_adapters.observability import metrics
from firnline_adapters.records.codec import encode_record

OVERHEAD = 512  # bytes that Kafka adds: 61 for a batch, some 30 for a record, and compression's
# Batches of 20 file-changes shrink to 22 % at 2.5 ns a byte; gzip: 23 % at 6.7 ns, lz4: 31 % at
# 1.3 ns. In batches of 500: 20 % at 0.9 ns; gzip: 21 % at 13.9 ns, lz4: 28 % at 1.3 ns.
ZSTD_LEVEL = 1
COMPRESSION = {"compression.type": "zstd", "compression.level": ZSTD_LEVEL}
# A result names all its inputs, 0.14 kB each of which 0.03 are left by zstd; a task of 400,000
# files is to be possible. Its readers make room for that much.
COMPRESSED = frozenset({"task-results"})
EXPANSION = 8
TOO_LARGE, UNENCODABLE = "too_large", "unencodable"


class Unsendable(PoisonousRecord):
    """A record that its topic will never take, in any form; `value` is its first one."""

    def __init__(self, reason: str, message: str, value: bytes) -> None:
        super().__init__(reason, message)
        self.value = value


class TooLarge(Unsendable):
    """Above what its topic takes."""

    def __init__(self, topic: str, record: Any, value: bytes) -> None:
        name = type(record).__name__
        text = f"{name} of {len(value)} bytes; {topic} takes {max_bytes(topic)}"
        super().__init__(TOO_LARGE, text, value)


class Unencodable(Unsendable):
    """A record that does not fit its schema, whatever the reason; `value` is its Python text."""

    def __init__(self, topic: str, record: Any, error: Exception) -> None:
        name = type(record).__name__
        text = f"{name} does not fit its schema and cannot be sent to {topic}: {error!r:.300}"
        super().__init__(UNENCODABLE, text, repr(record).encode(errors="replace"))


def encode_to_fit(topic: str, key: str, record: Any) -> bytes:
    """Encode the record in its largest form that its topic allows. Raises Unsendable and nothing
    else: no single record ends the process that sends it."""
    try:
        whole = encode_record(record)
        if fits_topic(topic, key, whole):
            return whole
        for form in smaller_forms(record):
            value = encode_record(form)
            if fits_topic(topic, key, value):
                metrics.count("records_shrunk", topic=topic)
                return value
    except Exception as error:  # fastavro raises what the bytes of a value happen to raise
        raise Unencodable(topic, record, error) from error
    raise TooLarge(topic, record, whole)


def fits_topic(topic: str, key: str, value: bytes) -> bool:
    """Return whether the broker accepts a record of this size, next to any others: a client puts no
    second record into a batch that would grow above 1 MB by it (`batch.size`)."""
    limit = max_bytes(topic) - OVERHEAD
    size = len(key.encode()) + len(value)
    if size <= limit or topic not in COMPRESSED:
        return size <= limit
    if size > EXPANSION * limit:
        return False
    compressed = zstandard.compress(value, ZSTD_LEVEL)
    return len(compressed) + len(key.encode()) <= limit


def check_size(topic: str, value: bytes | None) -> None:
    """Check the size of a decompressed record. Raises PoisonousRecord if no Firnline producer sends
    such a size: a dead letter about the record would not fit into any topic."""
    most = max_bytes(topic) * (EXPANSION if topic in COMPRESSED else 1)
    if value is not None and len(value) > most:
        text = f"{len(value)} bytes when decompressed; {topic} holds at most {most}"
        raise PoisonousRecord(TOO_LARGE, text)


def dead_letter_of_unsent(
    topic: str, partition: int, key: str, error: Unsendable, service: str, at_ms: int
) -> DeadLettered:
    """Return the letter about a record that was not sent: with its destination, and offset -1."""
    return DeadLettered(
        topic=topic,
        partition=partition,
        offset=-1,
        key=key.encode(errors="replace"),
        value=error.value,
        reason=error.reason,
        message=str(error),
        service=service,
        at_ms=at_ms,
    )
