"""Dead letters: records that nobody could use, as a person sees them."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_domain.events import DeadLettered

SHOWN_BYTES = 64


@dataclass(frozen=True)
class LetterView:
    """A dead letter; `place` (where the bad record stands) and the service that gave up name it."""

    place: str
    topic: str
    partition: int
    offset: int
    key: str
    value_bytes: int
    value_start: str  # hexadecimal, the first 64 bytes
    reason: str
    message: str
    service: str
    at_ms: int


def place_of(fact: DeadLettered) -> str:
    """The same record rejected by two services is two letters."""
    return f"{fact.topic}/{fact.partition}/{fact.offset} {fact.service}"


def letter_of(fact: DeadLettered) -> LetterView:
    """What is kept of it; the whole record stays on its topic."""
    value = fact.value or b""
    return LetterView(
        place=place_of(fact),
        topic=fact.topic,
        partition=fact.partition,
        offset=fact.offset,
        key=(fact.key or b"").decode(errors="replace"),
        value_bytes=len(value),
        value_start=value[:SHOWN_BYTES].hex(),
        reason=fact.reason,
        message=fact.message,
        service=fact.service,
        at_ms=fact.at_ms,
    )
