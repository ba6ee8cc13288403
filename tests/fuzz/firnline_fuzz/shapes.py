"""Tables of every shape that docs/coverage.md names, each built by hand.

A shape is `name` or `name: argument / argument`; its function makes the table and leaves rows
that deletes have hidden wherever the shape has deletes at all. NULL keys are everywhere.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from firnline_domain.identity import TableName

from firnline_fuzz import values
from firnline_fuzz.tables import Place, Table, number

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
        iceberg = self.jvm.org.apache.iceberg
        fields = [one(n, name, kind) for n, (name, kind) in enumerate(columns.items(), 1)]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        parts = [
            {"name": f"p{n}", "transform": text, "source-id": list(columns).index(column) + 1,
             "field-id": 1000 + n}
            for n, (text, column) in enumerate(by)
        ]  # fmt: skip
        java = iceberg.SchemaParser.fromJson(json.dumps(schema))
        spec = json.dumps({"spec-id": 0, "fields": parts})
        name = f"s{uuid.uuid4().hex[:8]}"
        text = json.dumps({"namespace": [self.namespace], "name": name})
        made = self.catalog.createTable(
            iceberg.catalog.TableIdentifierParser.fromJson(text),
            java,
            iceberg.PartitionSpecParser.fromJson(java, spec),
            {
                "format-version": str(self.version),
                "firnline.rewrite.hold-off-ms": "0",
                **properties,
            },
        )
        identity = TableName(made.uuid().toString(), (self.namespace,), name)
        return Table(self.jvm, self.catalog, identity)


def one(number: int, name: str, kind: Any) -> dict[str, Any]:
    """An optional field, or a required one if its name ends in `!`."""
    required = name.endswith("!")
    return {"id": number, "name": name.rstrip("!"), "required": required, "type": kind}


# ---- writing


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


# ---- keys


def keys(make: Maker, *kinds: str) -> Table:
    """An id set of its own for each type."""
    table = make.table({f"k{n}": kind for n, kind in enumerate(kinds)} | {"v": "int"})
    pools = [[*values.pool(kind), None] for kind in kinds]
    depth = max(map(len, pools))
    rows = [(*(p[n % len(p)] for p in pools), n) for n in range(depth)]
    append(table, *rows)
    append(table, *rows[1:])
    for index, found in enumerate(pools):
        erase(table, [index + 1], [(found[0],), (None,)])
    append(table, *rows[:2])
    return table


def composite_key(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS, (None, None, 5), (1, None, 6))
    erase(table, [1, 2], [(1, "a"), (None, None), (4, None), (2, "x"), (None, "b")])
    return table


def two_id_sets(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS)
    erase(table, [1], [(1,), (None,)])
    erase(table, [1, 2], [(2, "b")])
    erase(table, [2], [(None,)])
    append(table, (4, None, 7))
    return table


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


INNER = _struct(one(3, "a", "int"), one(4, "b", "string"))
NESTED: Columns = {"id": "long", "st": INNER}
NESTED_ROWS = [(1, (1, "a")), (2, (2, None)), (3, None), (None, (None, "c")), (5, (5, "e"))]


def erase_nested(table: Table, *keys: Any) -> None:
    """By `st.a`: None = the struct is NULL."""
    field = table.arrow().field("st")
    narrow = field.with_type(pa.struct([field.type.field(0)]))
    given = [[None if key is None else (key,) for key in keys]]
    table.delta([], [table.equality_file([narrow], [number(field.type.field(0))], NOWHERE, given)])


def nested_key(make: Maker) -> Table:
    table = make.table(NESTED)
    append(table, *NESTED_ROWS)
    erase_nested(table, 1, 5)
    return table


def null_nested_key(make: Maker) -> Table:
    table = nested_key(make)
    erase_nested(table, None)
    return table


def nested_key_with_default(make: Maker) -> Table:
    """A key inside a struct that came with a default, after the first file."""
    table = make.table(NESTED)
    append(table, *NESTED_ROWS)
    added = {**one(5, "d", "int"), "initial-default": 7, "write-default": 7}
    change(table, lambda fields: fields[1]["type"]["fields"].append(added))
    append(table, (6, (6, "f", 7)), (7, (7, "g", 8)))
    field = table.arrow().field("st")
    narrow = field.with_type(pa.struct([field.type.field(2)]))
    table.delta([], [table.equality_file([narrow], [5], NOWHERE, [[(8,)]])])
    return table


def key_in_a_list(make: Maker) -> Table:
    kind = {"type": "list", "element-id": 3, "element-required": False, "element": "int"}
    table = make.table({"id": "long", "l": kind})
    append(table, (1, [1]), (None, [2]))
    table.delta([], [table.equality_file([table.arrow().field("l")], [3], NOWHERE, [[[1]]])])
    return table


def struct_as_key(make: Maker) -> Table:
    table = make.table(NESTED)
    append(table, *NESTED_ROWS)
    table.delta([], [table.equality_file([table.arrow().field("st")], [2], NOWHERE, [[(1, "a")]])])
    return table


# ---- deletes


def extra_and_reordered_columns(make: Maker) -> Table:
    """As Flink writes them: whole rows, and columns in an order of their own."""
    table = make.table()
    append(table, *ROWS)
    fields = list(table.arrow())
    order = [fields[2], fields[1], fields[0]]
    rows = [[77, 78], ["q", None], [1, None]]
    table.delta([], [table.equality_file(order, [1], NOWHERE, rows)])
    table.delta([], [table.equality_file(order, [2, 1], NOWHERE, [[0], ["b"], [2]])])
    return table


def same_commit(make: Maker) -> Table:
    """Rows of the delete's own sequence number live."""
    table = make.table()
    append(table, *ROWS)
    where = place(table, ROWS[0])
    new = table.data_file([(1, "new", 10), (None, "new", 11)], where, RNG)
    fields = list(table.arrow())
    erased = table.equality_file(fields[:1], [1], where, [[1, None]])
    table.delta([new], [erased])
    return table


def of_one_partition(make: Maker) -> Table:
    table = make.table(by=[("identity", "s")])
    for row in ((1, "a", 1), (None, "a", 2), (1, "b", 3), (1, None, 4), (None, None, 5)):
        append(table, row)
    erase(table, [1], [(1,), (None,)], place(table, (1, "a", 1)))
    erase(table, [1], [(None,)], place(table, (1, None, 1)))
    return table


def global_delete(make: Maker) -> Table:
    table = of_one_partition(make)
    table.java.updateSpec().removeField("p0").commit()
    erase(table, [3], [(3,), (None,)], Place(table.spec().spec_id, ()))
    append(table, (7, "b", 3))
    return table


def positions_of_a_partition(make: Maker) -> Table:
    table = upserted(make.table())
    dead = {live.path: [live.rows - 1] for live in table.live()}
    table.delta([], [table.position_file(dead, NOWHERE, scoped=False)])
    return table


def positions_of_a_file(make: Maker) -> Table:
    table = upserted(make.table())
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], [table.position_file({live.path: [1]}, NOWHERE, scoped=True)])
    return table


def deletion_vector(make: Maker) -> Table:
    table = upserted(make.table())
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], table.vectors({live: [1]}))
    return table


def vector_over_positions(make: Maker) -> Table:
    """A v2 table's position deletes, and after its upgrade a vector that takes them over."""
    table = positions_of_a_file(Maker(make.jvm, make.catalog, make.namespace, 2))
    upgrade(table, 3)
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], table.vectors({live: [1, 3]}))
    append(table, (8, "y", 8))
    return table


def older_positions_after_upgrade(make: Maker) -> Table:
    table = positions_of_a_file(Maker(make.jvm, make.catalog, make.namespace, 2))
    upgrade(table, 3)
    append(table, (8, "y", 8))
    return table


def missing_key_column(make: Maker) -> Table:
    """A delete file without its key column."""
    table = make.table()
    append(table, *ROWS)
    fields = list(table.arrow())
    table.delta([], [table.equality_file(fields[1:2], [1], NOWHERE, [["a"]])])
    return table


def deletes_without_ids(make: Maker) -> Table:
    table = upserted(make.table())
    table.map_names()
    bare = [pa.field("id", pa.int64())]
    table.delta([], [table.equality_file(bare, [1], NOWHERE, [[2, None]])])
    return table


# ---- evolution


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


def promoted_keys(make: Maker) -> Table:
    """Deletes before and after int became long, decimal(9,2) decimal(20,2), float double."""
    table = make.table({"i": "int", "d": "decimal(9,2)", "f": "float", "v": "int"})
    dec = values.Decimal
    rows = [(1, dec("1.00"), 1.5, 1), (2, dec("2.00"), float("nan"), 2), (None, None, None, 3)]
    append(table, *rows)
    erase(table, [1], [(1,), (None,)])
    kinds = ("long", "decimal(20,2)", "double", "int")
    change(table, lambda fields: [f.update(type=k) for f, k in zip(fields, kinds, strict=True)])
    append(table, (2**40, dec("9999999999.99"), 1e300, 4), (5, None, None, 5))
    erase(table, [2], [(dec("2.00"),), (None,)])
    erase(table, [1], [(2**40,)])
    append(table, (1, dec("2.00"), 0.1, 6))
    return table


def renamed_columns(make: Maker) -> Table:
    """The key is renamed, and another column takes its name."""
    table = upserted(make.table())
    change(table, lambda fields: fields[0].update(name="key"))
    change(table, lambda fields: fields[1].update(name="id"))
    erase(table, [1], [(2,)])
    append(table, (2, "b", 20))
    return table


def dropped_key(make: Maker) -> Table:
    table = upserted(make.table())
    change(table, lambda fields: fields.pop(0))
    append(table, ("n", 1))
    return table


def added_key(make: Maker) -> Table:
    """Older rows have NULL in the key."""
    table = upserted(make.table())
    change(table, lambda fields: fields.insert(0, one(4, "k", "int")))
    append(table, (5, 5, "e", 5), (None, 6, "f", 6))
    erase(table, [4], [(None,)])
    append(table, (None, 7, "g", 7))
    return table


def added_key_with_default(make: Maker) -> Table:
    table = upserted(make.table())
    new = {**one(4, "k", "int"), "initial-default": 3, "write-default": 3}
    change(table, lambda fields: fields.insert(0, new))
    append(table, (5, 5, "e", 5), (3, 6, "f", 6), (None, 6, "f", 6))
    erase(table, [4, 1], [(3, 2), (None, 6)])
    return table


def defaults(make: Maker, *kinds: str) -> Table:
    """Columns of these types with an initial default, after the first files."""
    from firnline_fuzz.schemas import default_json

    table = upserted(make.table())
    new = [
        {**one(n, f"d{n}", kind), "initial-default": (given := default_json(kind, RNG)),
         "write-default": given}
        for n, kind in enumerate(kinds, 4)
    ]  # fmt: skip
    change(table, lambda fields: fields.extend(new))
    append(table, (6, "f", 6, *(values.pool(kind)[0] for kind in kinds)))
    return table


def nested_changes(make: Maker) -> Table:
    """Members of a struct, of a list's and of a map's: added, renamed, dropped, reordered."""

    def inner(first: int) -> dict[str, Any]:
        return _struct(one(first, "a", "int"), one(first + 1, "b", "string"))

    table = make.table({
        "id": "long", "st": inner(10),
        "l": {"type": "list", "element-id": 5, "element-required": False, "element": inner(20)},
        "m": {"type": "map", "key-id": 6, "key": "string", "value-id": 7,
              "value-required": False, "value": inner(30)},
    })  # fmt: skip
    full = (2, "x")
    append(
        table, (1, full, [full, None], [("k", full)]), (None, None, None, None), (3, *[None] * 3)
    )

    def step(fields: list[dict[str, Any]]) -> None:
        last = 100
        for kind in (fields[1]["type"], fields[2]["type"]["element"], fields[3]["type"]["value"]):
            last += 1
            kind["fields"][0]["name"] = "renamed"
            kind["fields"][0]["type"] = "long"
            kind["fields"] = [one(last, "a", "date"), *reversed(kind["fields"])]

    change(table, step)
    new = (5, "y", 2**40)
    append(table, (4, new, [new], [("k", None)]))
    change(table, lambda fields: fields[1]["type"]["fields"].pop(1))
    erase(table, [1], [(None,), (3,)])
    return table


def optional_and_reordered(make: Maker) -> Table:
    table = make.table({"id!": "long", "s": "string", "v": "int"})
    append(table, (1, "a", 1), (2, None, 2))
    change(table, lambda fields: (fields[0].update(required=False), fields.reverse()))
    append(table, (3, "c", None))
    erase(table, [1], [(None,), (1,)])
    append(table, (4, None, None))
    return table


def dates_become_timestamps(make: Maker) -> Table:
    table = make.table({"id": "long", "d": "date"})
    append(table, (1, 5), (None, None))
    change(table, lambda fields: fields[1].update(type="timestamp"))
    append(table, (2, 86_400_000_001))
    erase(table, [1], [(None,)])
    return table


def required_without_value(make: Maker) -> Table:
    """A required column without a default that an older file lacks."""
    table = upserted(make.table())
    change(table, lambda fields: fields.append(one(4, "r!", "int")))
    return table


# ---- partitions

_SOURCES = {
    "identity": "date", "bucket": "string", "truncate": "string", "year": "date",
    "month": "timestamp", "day": "timestamptz", "hour": "timestamp",
}  # fmt: skip


def partitioned(make: Maker, *transforms: str) -> Table:
    """By several transforms, each of a column of its own; deletes in every partition."""
    kinds = [_SOURCES[text.partition("[")[0]] for text in transforms]
    columns = {f"c{n}": kind for n, kind in enumerate(kinds)} | {"id": "long"}
    by = [(text, f"c{n}") for n, text in enumerate(transforms)]
    table = make.table(columns, by)
    for pick in range(3):
        found = [[*values.pool(kind)[:2], None][pick] for kind in kinds]
        append(table, (*found, 1), (*found, None), (*found, 3))
        append(table, (*found, 4))
        erase(table, [len(kinds) + 1], [(1,), (None,)], place(table, (*found, 1)))
    return table


def one_field_void(make: Maker) -> Table:
    return _deleted_everywhere(make.table(by=[("void", "v"), ("identity", "s")]))


def all_fields_void(make: Maker) -> Table:
    return _deleted_everywhere(make.table(by=[("void", "v")]))


def float_partition(make: Maker) -> Table:
    table = make.table({"id": "long", "f": "double"}, [("identity", "f")])
    append(table, (1, 1.5), (None, 1.5))
    append(table, (1, 1.5))
    erase(table, [1], [(1,), (None,)], place(table, (1, 1.5)))
    append(table, (None, 1.5))
    return table


def fixed_partition(make: Maker) -> Table:
    """Iceberg 1.12.0 writes such a partition as `bytes` under a schema that says `fixed`."""
    table = make.table({"id": "long", "x": "fixed[4]"}, [("identity", "x")])
    append(table, (1, b"\0\0\0\0"), (2, b"\0\0\0\0"))
    return table


def unknown_transform(make: Maker) -> Table:
    table = make.table(by=[("zorder[3]", "s")])
    for rows in (ROWS[:1], ROWS[1:2], ROWS[2:]):
        table.append([table.data_file(rows, Place(0, ("x",)), RNG)])
    return table


def _deleted_everywhere(table: Table) -> Table:
    for row in ROWS:
        append(table, row)
        erase(table, [1], [row[:1]], place(table, row))
        append(table, (*row[:2], 10))
    return table


def older_specs(make: Maker) -> Table:
    """Three specs, each with files and deletes; what is rewritten stays under its own."""
    table = upserted(make.table())
    java = table.java
    java.updateSpec().addField("s").commit()
    append(table, (5, "a", 5), (None, "a", 6))
    append(table, (5, "a", 7))
    erase(table, [1], [(5,), (None,)], place(table, (5, "a", 5)))
    term = table.jvm.org.apache.iceberg.expressions.Expressions.bucket("id", 2)
    table.java.updateSpec().addField(term).commit()
    append(table, (5, "a", 8))
    erase(table, [3], [(8,)], place(table, (5, "a", 8)))
    return table


# ---- files


def without_ids_but_mapped(make: Maker) -> Table:
    table = make.table()
    table.map_names()
    append(table, *ROWS, bare=True)
    append(table, (9, "z", 9))
    erase(table, [1], [(1,), (None,)])
    return table


def without_ids(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS, bare=True)
    append(table, (9, "z", 9))
    erase(table, [1], [(1,), (None,)])
    return table


def unreadable_mapping(make: Maker) -> Table:
    table = upserted(make.table())
    table.java.updateProperties().set("schema.name-mapping.default", "[{]").commit()
    return table


def without_partition_column(make: Maker) -> Table:
    """Files as `add_files` imports them: the identity column's value is metadata only."""
    table = make.table(by=[("identity", "s")])
    append(table, (1, "a", 1), (None, "a", 2), without=frozenset([2]))
    append(table, (4, None, 4), without=frozenset([2]))
    erase(table, [1, 2], [(1, "a"), (None, None)], place(table, (1, "a", 1)))
    erase(table, [2], [(None,)], place(table, (1, None, 1)))
    return table


def partition_value_out_of_reach(make: Maker) -> Table:
    """A date that Python's calendar has not, in metadata only."""
    table = make.table({"id": "long", "d": "date"}, [("identity", "d")])
    far = 4_000_000  # days: in the year 12921
    append(table, (1, far), (None, far), without=frozenset([2]))
    append(table, (3, far), without=frozenset([2]))
    erase(table, [1], [(1,), (None,)], place(table, (1, far)))
    return table


def v1_files(make: Maker) -> Table:
    """Files of a v1 table, which was upgraded since."""
    table = Maker(make.jvm, make.catalog, make.namespace, 1).table()
    append(table, *ROWS)
    append(table, (9, "z", 9))
    upgrade(table, make.version)
    erase(table, [1], [(1,), (None,)])
    return table


def upgrade(table: Table, version: int) -> None:
    for step in range(table.version + 1, version + 1):
        table.java.updateProperties().set("format-version", str(step)).commit()


def no_deletes(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS)
    append(table, (9, "z", 9))
    append(table, (8, "y", 8))
    return table


def rows_without_ids(make: Maker) -> Table:
    """Upgraded to v3, and nothing committed since."""
    table = upserted(Maker(make.jvm, make.catalog, make.namespace, 2).table())
    upgrade(table, 3)
    return table


def lineage(make: Maker) -> Table:
    """Row ids that an earlier rewrite has stored, and new ones, in one partition."""
    table = upserted(make.table())
    append(table, (7, "x", 7))
    return table


def _local(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def two_columns_of_one_id(make: Maker) -> Table:
    table = upserted(make.table())
    fields = list(table.arrow())
    twin = pa.field("twin", pa.int64(), metadata=fields[0].metadata)
    columns = [[30, 31], ["x", "y"], [1, 2], [40, 41]]
    _adopt(table, [*fields, twin], columns)
    return table


def string_for_an_int(make: Maker) -> Table:
    table = upserted(make.table())
    fields = list(table.arrow())
    fields[2] = fields[2].with_type(pa.string())
    _adopt(table, fields, [[30, 31], ["x", "y"], ["1", "2"]])
    return table


def _adopt(table: Table, fields: list[pa.Field], columns: list[list[Any]]) -> None:
    arrays = [values.array(f.type, one) for f, one in zip(fields, columns, strict=True)]
    made = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    table.append([table.adopted(made, NOWHERE)])


def damaged_file(make: Maker) -> Table:
    table = upserted(make.table())
    path = _local(max(table.live(), key=lambda one: one.rows).path)
    body = bytearray(path.read_bytes())
    body[-4:] = b"RAP1"
    path.write_bytes(bytes(body))
    return table


def damaged_vector(make: Maker) -> Table:
    table = deletion_vector(make)
    body = next(json.loads(text) for live in table.live() for text in live.vectors)
    path = _local(body["file-path"])
    raw = bytearray(path.read_bytes())
    raw[body["content-offset"] + 6] ^= 0xFF
    path.write_bytes(bytes(raw))
    return table


def with_property(make: Maker, text: str) -> Table:
    table = upserted(make.table())
    name, _, value = text.partition("=")
    table.java.updateProperties().set(name, value).commit()
    return table


def other_format(make: Maker, name: str) -> Table:
    """A data file that Iceberg's generic writer has written as Avro or ORC."""
    table = upserted(make.table())
    iceberg, java = table.jvm.org.apache.iceberg, table.java
    kind = getattr(iceberg.FileFormat, name)
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(java)
    factory = builder.dataFileFormat(kind).dataSchema(java.schema()).build()
    files = iceberg.io.OutputFileFactory.builderFor(java, 1, RNG.randrange(1 << 30))
    out = files.format(kind).build().newOutputFile()
    writer = factory.newDataWriter(out, java.spec(), None)
    record = iceberg.data.GenericRecord.create(java.schema())
    record.setField("s", name)
    writer.write(record)
    writer.close()
    table.append([writer.toDataFile()])
    return table


def column_of_type(make: Maker, kind: str) -> Table:
    """Added to a table that has rows; nothing is stored for it."""
    table = upserted(make.table())
    change(table, lambda fields: fields.append(one(4, "x", kind)))
    return table


def unknown_member(make: Maker) -> Table:
    table = upserted(make.table())
    struct = {"type": "struct", "fields": [one(5, "y", "unknown"), one(6, "z", "int")]}
    change(table, lambda fields: fields.append(one(4, "x", struct)))
    return table


def wrong_row_count(make: Maker) -> Table:
    """Metadata that counts a row too many."""
    table = upserted(make.table())
    where = place(table, ROWS[0])
    good = table.data_file([(20, "w", 1), (21, "w", 1)], where, RNG)
    builder = table.jvm.org.apache.iceberg.DataFiles.builder(table.java.spec())
    bad = builder.copy(good).withRecordCount(3).build()
    table.append([bad])
    return table


def dropped_table(make: Maker) -> Table:
    table = upserted(make.table())
    text = json.dumps({"namespace": list(table.name.namespace), "name": table.name.name})
    parser = table.jvm.org.apache.iceberg.catalog.TableIdentifierParser
    table.catalog.dropTable(parser.fromJson(text))
    return table


def damaged_manifest(make: Maker) -> Table:
    table = upserted(make.table())
    io = table.java.io()
    for manifest in table.java.currentSnapshot().dataManifests(io):
        io.deleteFile(manifest.path())
    return table


def branch(make: Maker) -> Table:
    """Deletes on a branch only; main has rows of its own."""
    table = make.table()
    append(table, *ROWS)
    table.java.manageSnapshots().createBranch("side").commit()
    append(table, (5, "main", 5))
    fields = list(table.arrow())
    erased = table.equality_file(fields[:1], [1], NOWHERE, [[1, None]])
    new = table.data_file([(1, "side", 10)], place(table, ROWS[0]), RNG)
    table.delta([new], [erased], ref="side")
    return table


SHAPES: dict[str, Callable[..., Table]] = {
    "keys": keys,
    "composite key": composite_key,
    "several id sets": two_id_sets,
    "key in a struct": nested_key,
    "NULL key in a struct": null_nested_key,
    "key in a struct, with a default": nested_key_with_default,
    "key in a list": key_in_a_list,
    "a struct as key": struct_as_key,
    "extra and reordered columns": extra_and_reordered_columns,
    "rows of the delete's own commit": same_commit,
    "deletes of one partition": of_one_partition,
    "global delete": global_delete,
    "positions of a partition": positions_of_a_partition,
    "positions of one file": positions_of_a_file,
    "deletion vector": deletion_vector,
    "vector over position deletes": vector_over_positions,
    "position deletes of before an upgrade": older_positions_after_upgrade,
    "delete file without its key": missing_key_column,
    "delete file without ids": deletes_without_ids,
    "promoted columns and keys": promoted_keys,
    "renamed columns and keys": renamed_columns,
    "dropped key": dropped_key,
    "added key": added_key,
    "added key with a default": added_key_with_default,
    "defaults": defaults,
    "nested changes": nested_changes,
    "made optional, reordered": optional_and_reordered,
    "dates become timestamps": dates_become_timestamps,
    "required, no value": required_without_value,
    "partitioned": partitioned,
    "one field void": one_field_void,
    "all fields void": all_fields_void,
    "partitioned by a float": float_partition,
    "partitioned by a fixed": fixed_partition,
    "unknown transform": unknown_transform,
    "several specs": older_specs,
    "no ids, name mapping": without_ids_but_mapped,
    "no ids, no mapping": without_ids,
    "unreadable mapping": unreadable_mapping,
    "no partition column": without_partition_column,
    "no partition column, far date": partition_value_out_of_reach,
    "files of a v1 table": v1_files,
    "v1 table": no_deletes,
    "no deletes": no_deletes,
    "upgraded, nothing since": rows_without_ids,
    "row lineage": lineage,
    "two columns of one id": two_columns_of_one_id,
    "a string for an int": string_for_an_int,
    "damaged file": damaged_file,
    "damaged vector": damaged_vector,
    "property": with_property,
    "format": other_format,
    "column": column_of_type,
    "member of unknown type": unknown_member,
    "wrong row count": wrong_row_count,
    "dropped table": dropped_table,
    "manifest gone": damaged_manifest,
    "branch": branch,
}
