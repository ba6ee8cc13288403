"""Send what cannot be used to `dead-letters`, whole and with its reason, and count it."""

from __future__ import annotations

from typing import Any

from firnline_domain.ports import Delivery, Publisher
from firnline_domain.records.events import DeadLettered

from firnline_adapters.observability import metrics
from firnline_adapters.records.codec import encode_record

DEAD_LETTERS = "dead-letters"
_MESSAGE_CHARS = 1000


def send_to_dead_letters(publisher: Publisher, letter: DeadLettered) -> None:
    """Publish the letter, without a flush; if it is larger than its topic allows, only its
    beginning. Flush it before you commit the offset of the record that it is about."""
    metrics.count("dead_letters", reason=letter.reason)
    publisher.publish(DEAD_LETTERS, dead_letter_key(letter), letter)


def dead_letter_key(letter: DeadLettered) -> str:
    """Return `topic/partition`: the letters about one partition stay in order."""
    return f"{letter.topic}/{letter.partition}"


def dead_letter_of(
    delivery: Delivery, reason: str, error: Exception, service: str, at_ms: int
) -> DeadLettered:
    """Return a letter about a record that was decoded, with the bytes that it arrived in."""
    return DeadLettered(
        topic=delivery.topic,
        partition=delivery.partition,
        offset=delivery.offset,
        key=delivery.key.encode() if delivery.key else None,
        value=_bytes_of(delivery.record),
        reason=reason,
        message=str(error)[:_MESSAGE_CHARS],
        service=service,
        at_ms=at_ms,
    )


def _bytes_of(record: Any) -> bytes:
    """Return the record as it came; a letter about one that cannot be written holds its text."""
    try:
        return encode_record(record)
    except Exception:  # fastavro raises what the bytes of a value happen to raise
        return repr(record).encode(errors="replace")
