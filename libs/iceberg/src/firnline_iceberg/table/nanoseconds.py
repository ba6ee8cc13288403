"""Nanosecond timestamps of JSON, which PyIceberg 0.12 knows as a type and cannot read as a default.

Spec, appendix "JSON single-value serialization". Importing this module teaches PyIceberg.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pyiceberg.conversions import from_json
from pyiceberg.types import PrimitiveType, TimestampNanoType, TimestamptzNanoType

_TEXT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(?:\+00:00|Z)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_nanoseconds(text: str) -> int:
    """Parse a time into nanoseconds since 1970 in UTC. Raises ValueError for another form, another
    zone too."""
    if not (found := _TEXT.fullmatch(text)):
        raise ValueError(f"not a timestamp in UTC: {text}")
    moment, fraction = found.groups()
    seconds = (datetime.fromisoformat(moment + "+00:00") - _EPOCH) // timedelta(seconds=1)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


@from_json.register(TimestampNanoType)
@from_json.register(TimestamptzNanoType)
def _(_: PrimitiveType, value: str | int) -> int:
    return parse_nanoseconds(value) if isinstance(value, str) else value
