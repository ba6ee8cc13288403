"""Tables by the keys and the kinds of their deletes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from firnline_fuzz import values
from firnline_fuzz.maker import (
    NOWHERE,
    RNG,
    ROWS,
    Columns,
    Maker,
    append,
    change,
    erase,
    one,
    place,
    shape,
    struct_of,
    upgrade,
    upserted,
)
from firnline_fuzz.tables import Place, Table, number


@shape("keys")
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


@shape("composite key")
def composite_key(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS, (None, None, 5), (1, None, 6))
    erase(table, [1, 2], [(1, "a"), (None, None), (4, None), (2, "x"), (None, "b")])
    return table


@shape("several id sets")
def two_id_sets(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS)
    erase(table, [1], [(1,), (None,)])
    erase(table, [1, 2], [(2, "b")])
    erase(table, [2], [(None,)])
    append(table, (4, None, 7))
    return table


INNER = struct_of(one(3, "a", "int"), one(4, "b", "string"))
NESTED: Columns = {"id": "long", "st": INNER}
NESTED_ROWS = [(1, (1, "a")), (2, (2, None)), (3, None), (None, (None, "c")), (5, (5, "e"))]


def erase_nested(table: Table, *keys: Any) -> None:
    """By `st.a`: None = the struct is NULL."""
    field = table.arrow().field("st")
    narrow = field.with_type(pa.struct([field.type.field(0)]))
    given = [[None if key is None else (key,) for key in keys]]
    table.delta([], [table.equality_file([narrow], [number(field.type.field(0))], NOWHERE, given)])


@shape("key in a struct")
def nested_key(make: Maker) -> Table:
    table = make.table(NESTED)
    append(table, *NESTED_ROWS)
    erase_nested(table, 1, 5)
    return table


@shape("NULL key in a struct")
def null_nested_key(make: Maker) -> Table:
    table = nested_key(make)
    erase_nested(table, None)
    return table


@shape("key in a struct, with a default")
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


@shape("key in a list")
def key_in_a_list(make: Maker) -> Table:
    kind = {"type": "list", "element-id": 3, "element-required": False, "element": "int"}
    table = make.table({"id": "long", "l": kind})
    append(table, (1, [1]), (None, [2]))
    table.delta([], [table.equality_file([table.arrow().field("l")], [3], NOWHERE, [[[1]]])])
    return table


@shape("a struct as key")
def struct_as_key(make: Maker) -> Table:
    table = make.table(NESTED)
    append(table, *NESTED_ROWS)
    table.delta([], [table.equality_file([table.arrow().field("st")], [2], NOWHERE, [[(1, "a")]])])
    return table


@shape("extra and reordered columns")
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


@shape("rows of the delete's own commit")
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


@shape("deletes of one partition")
def of_one_partition(make: Maker) -> Table:
    table = make.table(by=[("identity", "s")])
    for row in ((1, "a", 1), (None, "a", 2), (1, "b", 3), (1, None, 4), (None, None, 5)):
        append(table, row)
    erase(table, [1], [(1,), (None,)], place(table, (1, "a", 1)))
    erase(table, [1], [(None,)], place(table, (1, None, 1)))
    return table


@shape("global delete")
def global_delete(make: Maker) -> Table:
    table = of_one_partition(make)
    table.java.updateSpec().removeField("p0").commit()
    erase(table, [3], [(3,), (None,)], Place(table.spec().spec_id, ()))
    append(table, (7, "b", 3))
    return table


@shape("positions of a partition")
def positions_of_a_partition(make: Maker) -> Table:
    table = upserted(make.table())
    dead = {live.path: [live.rows - 1] for live in table.live()}
    table.delta([], [table.position_file(dead, NOWHERE, scoped=False)])
    return table


@shape("positions of one file")
def positions_of_a_file(make: Maker) -> Table:
    table = upserted(make.table())
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], [table.position_file({live.path: [1]}, NOWHERE, scoped=True)])
    return table


@shape("positions by another spelling")
def positions_by_another_spelling(make: Maker) -> Table:
    """Iceberg's readers compare the text, so these rows are alive for them."""
    table = upserted(make.table())
    path = max(table.live(), key=lambda one: one.rows).path
    other = "file:/" + path.removeprefix("file:").lstrip("/")
    if other == path:
        other = other.replace("file:/", "file:///", 1)
    table.delta([], [table.position_file({other: [1]}, NOWHERE, scoped=False)])
    return table


@shape("deletion vector")
def deletion_vector(make: Maker) -> Table:
    table = upserted(make.table())
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], table.vectors({live: [1]}))
    return table


@shape("vector over position deletes")
def vector_over_positions(make: Maker) -> Table:
    """A v2 table's position deletes, and after its upgrade a vector that takes them over."""
    table = positions_of_a_file(Maker(make.jvm, make.catalog, make.namespace, 2))
    upgrade(table, 3)
    live = max(table.live(), key=lambda one: one.rows)
    table.delta([], table.vectors({live: [1, 3]}))
    append(table, (8, "y", 8))
    return table


@shape("position deletes of before an upgrade")
def older_positions_after_upgrade(make: Maker) -> Table:
    table = positions_of_a_file(Maker(make.jvm, make.catalog, make.namespace, 2))
    upgrade(table, 3)
    append(table, (8, "y", 8))
    return table


@shape("delete file without its key")
def missing_key_column(make: Maker) -> Table:
    """A delete file without its key column."""
    table = make.table()
    append(table, *ROWS)
    fields = list(table.arrow())
    table.delta([], [table.equality_file(fields[1:2], [1], NOWHERE, [["a"]])])
    return table


@shape("delete file without ids")
def deletes_without_ids(make: Maker) -> Table:
    table = upserted(make.table())
    table.map_names()
    bare = [pa.field("id", pa.int64())]
    table.delta([], [table.equality_file(bare, [1], NOWHERE, [[2, None]])])
    return table
