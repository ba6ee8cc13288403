"""Records with one number at an end of its range, as a neighbour may send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firnline_adapters.records.codec import from_plain
from firnline_domain.base.values import LAST_MOMENT, MAX_AMOUNT, to_plain
from firnline_schemas import codec
from msgspec import ValidationError

from tests.examples import FOLDER, make

EXAMPLES = sorted(
    f"{folder.name}/{entry.name.removesuffix('.json')}"
    for folder in FOLDER.iterdir()
    for entry in folder.iterdir()
)
WHOLE = (2**63 - 1, MAX_AMOUNT, LAST_MOMENT, 0, -MAX_AMOUNT, -(2**63))
REAL = (1e300, -1e300)


def with_each_number(plain: Any, number: float) -> Iterator[Any]:
    """The plain record once for each of its numbers of that type, with that one changed."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from ({**plain, key: one} for one in with_each_number(value, number))
    elif isinstance(plain, list):
        for at, value in enumerate(plain):
            changed = with_each_number(value, number)
            yield from ([*plain[:at], one, *plain[at + 1 :]] for one in changed)
    elif type(plain) is type(number):
        yield number


def extremes(path: str, lows: bool = True) -> Iterator[Any]:
    """An example with each of its numbers as high, and as low, as its reader takes it."""
    name, plain = codec.record_name(path.partition("/")[0]), to_plain(make(path))
    for numbers in (WHOLE, REAL, *((WHOLE[::-1], REAL[::-1]) if lows else ())):
        for ends in zip(*(with_each_number(plain, one) for one in numbers), strict=True):
            yield next(found for one in ends if (found := _read(name, one)) is not None)


def _read(name: str, plain: Any) -> Any:
    try:
        return from_plain(name, plain)
    except ValidationError:
        return None
