"""Schemas as Iceberg's JSON: random ones, and every legal step from one to the next."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from firnline_fuzz.values import Kind, pool

Field = dict[str, Any]

KEYS = [
    "boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "uuid",
    "fixed[4]", "binary", "decimal(9,2)", "decimal(18,3)", "decimal(30,4)",
]  # fmt: skip
FLOATS = ["float", "double"]
UNSEEN_BY_SPARK = ["time"]
NANOSECONDS = ["timestamp_ns", "timestamptz_ns"]
_PROMOTIONS = {"int": "long", "float": "double"}


class Numbers:
    """Field ids, one after the other."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def schema(rng: Random, columns: int, kinds: list[str]) -> Field:
    """A random schema; ids in the order in which Iceberg gives them anew, top level first."""
    fields = []
    numbers = Numbers()
    ids = [numbers.next() for _ in range(columns)]
    for index, number in enumerate(ids):
        nested = index > 0 and rng.random() < 0.3
        kind = _nested(rng, kinds, numbers, 2) if nested else rng.choice(kinds)
        required = kind != "unknown" and rng.random() < 0.2
        fields.append({"id": number, "name": f"c{number}", "required": required, "type": kind})
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _nested(rng: Random, kinds: list[str], numbers: Numbers, depth: int) -> Kind:
    shape = rng.choice(["struct", "struct", "list", "map"])
    if shape == "struct":
        ids = [numbers.next() for _ in range(rng.randint(1, 3))]
        members = [(n, _below(rng, kinds, numbers, depth)) for n in ids]
        return {"type": "struct", "fields": [_optional(n, f"f{n}", kind) for n, kind in members]}
    if shape == "list":
        return {
            "type": "list", "element-id": numbers.next(), "element-required": False,
            "element": _below(rng, kinds, numbers, depth),
        }  # fmt: skip
    key, item = numbers.next(), numbers.next()
    return {
        "type": "map", "key-id": key, "key": rng.choice(["string", "long", "date"]),
        "value-id": item, "value-required": False, "value": _below(rng, kinds, numbers, depth),
    }  # fmt: skip


def _optional(number: int, name: str, kind: Kind) -> Field:
    return {"id": number, "name": name, "required": False, "type": kind}


def _below(rng: Random, kinds: list[str], numbers: Numbers, depth: int) -> Kind:
    if depth > 1 and rng.random() < 0.3:
        return _nested(rng, kinds, numbers, depth - 1)
    return rng.choice([kind for kind in kinds if kind != "unknown"])


def leaves(fields: list[Field]) -> Iterator[Field]:
    """Primitive fields at the top and inside structs: what an equality key may be."""
    for field in fields:
        if isinstance(field["type"], str):
            yield field
        elif field["type"]["type"] == "struct":
            yield from leaves(field["type"]["fields"])


def nested(fields: list[Field], wanted: set[int]) -> set[int]:
    """Ids of those wanted fields that lie in structs, and of these structs."""
    found: set[int] = set()
    for field in fields:
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            members = field["type"]["fields"]
            below = nested(members, wanted) | {one["id"] for one in members} & wanted
            found |= below | ({field["id"]} if below else set())
    return found


def structs(kind: Kind) -> Iterator[Field]:
    """Every struct below a type (map keys apart: they never change)."""
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield kind
        for field in kind["fields"]:
            yield from structs(field["type"])
    elif kind["type"] == "list":
        yield from structs(kind["element"])
    else:
        yield from structs(kind["value"])


def evolved(
    old: Field, rng: Random, last: int, kinds: list[str], defaults: bool, held: set[int]
) -> tuple[Field, int, str]:
    """The next schema, its last column id and what was done. `held`: ids that no one may drop."""
    new, numbers = copy.deepcopy(old), Numbers(last)
    where = rng.choice(list(structs(new)))
    step = rng.choice(["add", "add", "drop", "rename", "promote", "promote", "reorder", "optional"])
    fields = where["fields"]
    if step == "add":
        added = _added(rng, numbers, kinds, defaults)
        added["required"] &= where is new  # PyArrow writes no required member of a NULL struct
        gone = f"c{rng.randint(1, 3)}"  # a name that comes back has another id
        if rng.random() < 0.3 and gone not in {field["name"] for field in fields}:
            added["name"] = gone
        fields.insert(rng.randint(0, len(fields)), added)
    elif step == "drop":
        _drop(rng, fields, held)
    elif step == "rename":
        rng.choice(fields)["name"] = f"r{rng.randrange(1000)}_{numbers.last}"
    elif step == "promote":
        _promote(new)
    elif step == "reorder":
        rng.shuffle(fields)
    else:
        rng.choice(fields)["required"] = False
    new["schema-id"] = old["schema-id"] + 1
    return new, numbers.last, step


def _added(rng: Random, numbers: Numbers, kinds: list[str], defaults: bool) -> Field:
    number = numbers.next()
    if not defaults and rng.random() < 0.25:
        kind = _nested(rng, kinds, numbers, 1)
        return _optional(number, f"n{number}", kind)
    kind = rng.choice(kinds)
    field = _optional(number, f"a{number}", kind)
    if defaults and kind != "unknown" and rng.random() < 0.7:
        field["initial-default"] = field["write-default"] = default_json(kind, rng)
        field["required"] = rng.random() < 0.3
    return field


def default_json(kind: str, rng: Random) -> Any:
    """A default in Iceberg's single-value JSON."""
    fixed = {
        "date": "2020-02-29", "time": "01:02:03.000004", "timestamp": "2020-02-29T01:02:03.000004",
        "timestamptz": "1969-12-31T23:59:59.999999+00:00",
        "timestamp_ns": "2020-02-29T01:02:03.000000004",
        "timestamptz_ns": "1969-12-31T23:59:59.999999999+00:00",
        "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7", "binary": "00FF", "string": "a",
        "float": 1.5, "double": 0.1, "boolean": True,
    }  # fmt: skip
    if kind in fixed:
        return fixed[kind]
    if kind.startswith("fixed"):
        return "AB" * int(kind[6:-1])
    if kind.startswith("decimal"):
        return str(pool(kind)[1])
    return rng.choice([0, 1, 7])


def _drop(rng: Random, fields: list[Field], held: set[int]) -> None:
    free = [field for field in fields if field["id"] not in held]
    if free and len(fields) > 1:
        fields.remove(rng.choice(free))


def _promote(new: Field) -> None:
    for struct in structs(new):
        for field in struct["fields"]:
            kind = field["type"]
            if isinstance(kind, str):
                field["type"] = _PROMOTIONS.get(kind, kind).replace("decimal(9,", "decimal(20,")
