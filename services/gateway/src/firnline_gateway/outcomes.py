"""What a catalog's answer says of a commit."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What a commit's status says (REST spec, iceberg-rules 5.4)."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def outcome_of(status: int) -> Outcome:
    """5xx leaves a commit's state unknown; every 3xx and 4xx says that it did not happen."""
    if 200 <= status < 300:
        return Outcome.ACCEPTED
    return Outcome.UNKNOWN if status >= 500 else Outcome.REFUSED
