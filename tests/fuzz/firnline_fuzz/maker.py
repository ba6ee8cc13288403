"""Makes tables of one format version, and writes to them by hand.

A shape is `name` or `name: argument / argument`; its function, registered by `shape`, makes the
table and leaves rows that deletes have hidden wherever the shape has deletes at all. NULL keys are
everywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from firnline_domain.identity import TableName
from firnline_worker.rewrite.preconditions import HOLD_OFF

from firnline_fuzz.tables import Place, Table, number
from tests.kit.lake.table import create

RNG = Random(0)
NOWHERE = Place(0, ())
Columns = Mapping[str, Any]
BASE: Columns = {"id": "long", "s": "string", "v": "int"}
ROWS = [(1, "a", 1), (2, "b", 2), (None, "c", 3), (4, None, 4)]


@dataclass
class Maker:
    """Makes tables of one format version."""

    jvm: Any
    catalog: Any
    namespace: str
    version: int

    def table(
        self,
        columns: Columns = BASE,
        by: Sequence[tuple[str, str]] = (),
        **properties: str,
    ) -> Table:
        """An empty table; `by`: (transform, column). Ids count from 1 in the order of columns."""
        fields = [one(n, name, kind) for n, (name, kind) in enumerate(columns.items(), 1)]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        parts = [
            {"name": f"p{n}", "transform": text, "source-id": list(columns).index(column) + 1,
             "field-id": 1000 + n}
            for n, (text, column) in enumerate(by)
        ]  # fmt: skip
        name = TableName("", (self.namespace,), f"s{uuid.uuid4().hex[:8]}")
        given = {"format-version": str(self.version), HOLD_OFF: "0", **properties}
        made = create(self.jvm, self.catalog, name, schema, parts, given)
        return Table(self.jvm, self.catalog, made)


def one(number: int, name: str, kind: Any) -> dict[str, Any]:
    """An optional field, or a required one if its name ends in `!`."""
    required = name.endswith("!")
    return {"id": number, "name": name.rstrip("!"), "required": required, "type": kind}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


Build = Callable[..., Table]
SHAPES: dict[str, Build] = {}
"""By the names that docs/reference/compatibility.md uses."""


def shape(*names: str) -> Callable[[Build], Build]:
    """Registers the function that makes the shape."""

    def register(build: Build) -> Build:
        SHAPES.update(dict.fromkeys(names, build))
        return build

    return register


def place(table: Table, row: Sequence[Any]) -> Place:
    """The partition of a row under the current spec."""
    fields = table.schema()["fields"]
    return table.place({f["id"]: value for f, value in zip(fields, row, strict=True)})


def append(table: Table, *rows: Sequence[Any], **how: Any) -> None:
    """One data file."""
    table.append([table.data_file(rows, place(table, rows[0]), RNG, **how)])


def erase(
    table: Table, ids: Sequence[int], keys: Sequence[Sequence[Any]], where: Place | None = None
) -> None:
    """An equality-delete file of the key columns, in the order of `ids`."""
    fields = {number(f): f for f in table.arrow()}
    columns = [fields[n] for n in ids]
    given = [[key[n] for key in keys] for n in range(len(ids))]
    spec = table.spec()
    where = where or Place(spec.spec_id, (None,) * len(spec.fields))
    table.delta([], [table.equality_file(columns, ids, where, given)])


def upserted(table: Table) -> Table:
    """A table of the BASE columns with rows, one of them and the NULL key deleted."""
    append(table, *ROWS)
    append(table, (9, "z", 9))
    erase(table, [1], [(1,), (None,)])
    return table


def change(table: Table, do: Callable[[list[dict[str, Any]]], object]) -> None:
    """The next schema."""
    schema = table.schema()
    do(schema["fields"])
    ids = _ids(schema)
    schema["schema-id"] += 1
    table.evolve(schema, max(table.last_column_id, *ids))


def _ids(kind: Any) -> list[int]:
    if isinstance(kind, list):
        return [n for item in kind for n in _ids(item)]
    if not isinstance(kind, dict):
        return []
    own = [value for key, value in kind.items() if key == "id" or key.endswith("-id")]
    return own + [n for value in kind.values() for n in _ids(value)]


def upgrade(table: Table, version: int) -> None:
    for step in range(table.version + 1, version + 1):
        table.java.updateProperties().set("format-version", str(step)).commit()
