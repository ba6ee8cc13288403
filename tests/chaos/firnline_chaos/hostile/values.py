"""Values that a record's schema allows and nobody sends."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

LONGS = (0, -1, 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
INTS = (0, -1, 2**31 - 1, -(2**31))
DOUBLES = (0.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e308)
TEXTS = (
    "",
    " ",
    "\x00",
    "\n",
    "..",
    "../../etc/passwd",
    "file:///etc/passwd",
    "s3://somebody-else/key",
    "-1",
    "NaN",
    "9" * 400,
    "\ud7ff\u202e\U0001f9ca",
    "'; DROP TABLE x; --",
    '{"a":',
    "[" * 2_000,
    "x" * 20_000,
)
MAX_ITEMS = 200
PINNED = frozenset({"uuid", "name", "namespace"})
"""Fields that say whose record it is: a hostile record speaks of the tenant's tables alone."""


def mutated(schema: Any, value: Any, dice: random.Random, share: float = 0.3) -> Any:
    """`value`, with about that share of its fields replaced by hostile ones of the same type."""
    return _Mutation(dice, share, {}).of(schema, value)


class _Mutation:
    def __init__(self, dice: random.Random, share: float, named: dict[str, Any]) -> None:
        self._dice = dice
        self._share = share
        self._named = named

    def of(self, schema: Any, value: Any) -> Any:
        if isinstance(schema, list):
            return self._union(schema, value)
        if isinstance(schema, str):
            known = self._named.get(schema)
            return self.of(known, value) if known is not None else self._leaf(schema, value)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, value)
        if name := schema.get("name"):
            self._named[name] = schema
        complex_kinds: Mapping[str, Callable[[Any, Any], Any]] = {
            "record": self._record,
            "array": self._array,
            "map": self._map,
            "enum": lambda given, _: self._dice.choice(given["symbols"]),
        }
        return (
            complex_kinds[kind](schema, value) if kind in complex_kinds else self._leaf(kind, value)
        )

    def _union(self, branches: list[Any], value: Any) -> Any:
        if "null" in branches and (value is None or self._dice.random() < self._share / 4):
            return None
        return self.of(next(one for one in branches if one != "null"), value)

    def _record(self, schema: Any, value: Any) -> dict[str, Any]:
        return {
            field["name"]: value[field["name"]]
            if field["name"] in PINNED
            else self.of(field["type"], value[field["name"]])
            for field in schema["fields"]
        }

    def _array(self, schema: Any, value: list[Any]) -> list[Any]:
        items = [self.of(schema["items"], item) for item in value]
        if items and self._dice.random() < self._share / 2:
            return self._dice.choice(([], items * self._dice.randint(2, MAX_ITEMS)))
        return items

    def _map(self, schema: Any, value: dict[str, Any]) -> dict[str, Any]:
        found = {key: self.of(schema["values"], item) for key, item in value.items()}
        if found and self._dice.random() < self._share:
            found[self._dice.choice(TEXTS)] = self.of(schema["values"], next(iter(value.values())))
        return found

    def _leaf(self, kind: str, value: Any) -> Any:
        if self._dice.random() >= self._share:
            return value
        choices: dict[str, tuple[Any, ...]] = {
            "long": LONGS,
            "int": INTS,
            "double": DOUBLES,
            "float": DOUBLES[:-1],
            "string": TEXTS,
            "boolean": (True, False),
            "bytes": (b"", b"\xff\xfe", b"\x00" * 5_000),
        }
        return self._dice.choice(choices[kind]) if kind in choices else value
