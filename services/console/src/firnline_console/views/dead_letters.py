"""Dead letters: records that no service could process, as the console shows them."""

from __future__ import annotations

from firnline_domain.base.values import Value
from firnline_domain.records.events import DeadLettered

SHOWN_BYTES = 64
GROUP = "firnline-console-"  # and the view's generation: the console's consumer group


class DeadLetterView(Value):
    """A dead letter, identified by `place` (the position of the rejected record) and the service
    that rejected it."""

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


def letter_key(fact: DeadLettered) -> str:
    """Return the key of a dead letter: a record that two services reject is two letters."""
    # Several tables may fail at one tick, which is no record.
    key = (fact.key or b"").decode(errors="replace")
    offset = fact.offset if fact.offset >= 0 else f"unsent-{fact.at_ms}-{key}"
    return f"{fact.topic}/{fact.partition}/{offset} {service_of(fact)}"


def service_of(fact: DeadLettered) -> str:
    """Return the service that rejected the record. Every rebuild of the console rejects the same
    records again under a new group."""
    return "console" if fact.service.startswith(GROUP) else fact.service


def fold_dead_letter(old: DeadLetterView | None, fact: DeadLettered) -> DeadLetterView:
    """Keep the first rejection of a record. The whole record stays on its topic."""
    if old is not None and old.at_ms <= fact.at_ms:
        return old
    value = fact.value or b""
    return DeadLetterView(
        place=letter_key(fact),
        topic=fact.topic,
        partition=fact.partition,
        offset=fact.offset,
        key=(fact.key or b"").decode(errors="replace"),
        value_bytes=len(value) if fact.value_bytes is None else fact.value_bytes,
        value_start=value[:SHOWN_BYTES].hex(),
        reason=fact.reason,
        message=fact.message,
        service=service_of(fact),
        at_ms=fact.at_ms,
    )
