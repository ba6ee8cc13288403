"""Tables whose columns have changed, and partitioned ones."""

from __future__ import annotations

from typing import Any

from firnline_fuzz import values
from firnline_fuzz.maker import (
    RNG,
    ROWS,
    Maker,
    append,
    change,
    erase,
    one,
    place,
    shape,
    struct_of,
    upserted,
)
from firnline_fuzz.tables import Place, Table


@shape("promoted columns and keys")
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


@shape("renamed columns and keys")
def renamed_columns(make: Maker) -> Table:
    """The key is renamed, and another column takes its name."""
    table = upserted(make.table())
    change(table, lambda fields: fields[0].update(name="key"))
    change(table, lambda fields: fields[1].update(name="id"))
    erase(table, [1], [(2,)])
    append(table, (2, "b", 20))
    return table


@shape("dropped key")
def dropped_key(make: Maker) -> Table:
    table = upserted(make.table())
    change(table, lambda fields: fields.pop(0))
    append(table, ("n", 1))
    return table


@shape("added key")
def added_key(make: Maker) -> Table:
    """Older rows have NULL in the key."""
    table = upserted(make.table())
    change(table, lambda fields: fields.insert(0, one(4, "k", "int")))
    append(table, (5, 5, "e", 5), (None, 6, "f", 6))
    erase(table, [4], [(None,)])
    append(table, (None, 7, "g", 7))
    return table


@shape("added key with a default")
def added_key_with_default(make: Maker) -> Table:
    table = upserted(make.table())
    new = {**one(4, "k", "int"), "initial-default": 3, "write-default": 3}
    change(table, lambda fields: fields.insert(0, new))
    append(table, (5, 5, "e", 5), (3, 6, "f", 6), (None, 6, "f", 6))
    erase(table, [4, 1], [(3, 2), (None, 6)])
    return table


@shape("defaults")
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


@shape("nested changes")
def nested_changes(make: Maker) -> Table:
    """Members of a struct, of a list's and of a map's: added, renamed, dropped, reordered."""

    def inner(first: int) -> dict[str, Any]:
        return struct_of(one(first, "a", "int"), one(first + 1, "b", "string"))

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


@shape("made optional, reordered")
def optional_and_reordered(make: Maker) -> Table:
    table = make.table({"id!": "long", "s": "string", "v": "int"})
    append(table, (1, "a", 1), (2, None, 2))
    change(table, lambda fields: (fields[0].update(required=False), fields.reverse()))
    append(table, (3, "c", None))
    erase(table, [1], [(None,), (1,)])
    append(table, (4, None, None))
    return table


@shape("dates become timestamps")
def dates_become_timestamps(make: Maker) -> Table:
    table = make.table({"id": "long", "d": "date"})
    append(table, (1, 5), (None, None))
    change(table, lambda fields: fields[1].update(type="timestamp"))
    append(table, (2, 86_400_000_001))
    erase(table, [1], [(None,)])
    return table


@shape("required, no value")
def required_without_value(make: Maker) -> Table:
    """A required column without a default that an older file lacks."""
    table = upserted(make.table())
    change(table, lambda fields: fields.append(one(4, "r!", "int")))
    return table


_SOURCES = {
    "identity": "date", "bucket": "string", "truncate": "string", "year": "date",
    "month": "timestamp", "day": "timestamptz", "hour": "timestamp",
}  # fmt: skip


@shape("partitioned")
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


@shape("one field void")
def one_field_void(make: Maker) -> Table:
    return _deleted_everywhere(make.table(by=[("void", "v"), ("identity", "s")]))


@shape("all fields void")
def all_fields_void(make: Maker) -> Table:
    return _deleted_everywhere(make.table(by=[("void", "v")]))


@shape("partitioned by a float")
def float_partition(make: Maker) -> Table:
    table = make.table({"id": "long", "f": "double"}, [("identity", "f")])
    append(table, (1, 1.5), (None, 1.5))
    append(table, (1, 1.5))
    erase(table, [1], [(1,), (None,)], place(table, (1, 1.5)))
    append(table, (None, 1.5))
    return table


@shape("partitioned by a fixed")
def fixed_partition(make: Maker) -> Table:
    """Iceberg 1.12.0 writes such a partition as `bytes` under a schema that says `fixed`."""
    table = make.table({"id": "long", "x": "fixed[4]"}, [("identity", "x")])
    append(table, (1, b"\0\0\0\0"), (2, b"\0\0\0\0"))
    return table


@shape("unknown transform")
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


@shape("partition column dropped")
def dropped_partition_column(make: Maker) -> Table:
    """It was dropped after the spec had let it go; the older files still have their partitions."""
    table = _deleted_everywhere(make.table(by=[("identity", "s")]))
    table.java.updateSpec().removeField("p0").commit()
    table.java.updateSchema().deleteColumn("s").commit()
    return table


@shape("several specs")
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
