"""Tables with files of every kind and damage, and odd metadata."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from firnline_fuzz import values
from firnline_fuzz.delete_shapes import deletion_vector
from firnline_fuzz.maker import (
    NOWHERE,
    RNG,
    ROWS,
    Maker,
    append,
    change,
    erase,
    one,
    place,
    shape,
    upgrade,
    upserted,
)
from firnline_fuzz.tables import Table
from tests.kit.lake.writer import local


@shape("no ids, name mapping")
def without_ids_but_mapped(make: Maker) -> Table:
    table = make.table()
    table.map_names()
    append(table, *ROWS, bare=True)
    append(table, (9, "z", 9))
    erase(table, [1], [(1,), (None,)])
    return table


@shape("no ids, no mapping")
def without_ids(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS, bare=True)
    append(table, (9, "z", 9))
    erase(table, [1], [(1,), (None,)])
    return table


@shape("unreadable mapping")
def unreadable_mapping(make: Maker) -> Table:
    table = upserted(make.table())
    table.java.updateProperties().set("schema.name-mapping.default", "[{]").commit()
    return table


@shape("no partition column")
def without_partition_column(make: Maker) -> Table:
    """Files as `add_files` imports them: the identity column's value is metadata only."""
    table = make.table(by=[("identity", "s")])
    append(table, (1, "a", 1), (None, "a", 2), without=frozenset([2]))
    append(table, (4, None, 4), without=frozenset([2]))
    erase(table, [1, 2], [(1, "a"), (None, None)], place(table, (1, "a", 1)))
    erase(table, [2], [(None,)], place(table, (1, None, 1)))
    return table


@shape("no partition column, far date")
def partition_value_out_of_reach(make: Maker) -> Table:
    """A date that Python's calendar has not, in metadata only."""
    table = make.table({"id": "long", "d": "date"}, [("identity", "d")])
    far = 4_000_000  # days: in the year 12921
    append(table, (1, far), (None, far), without=frozenset([2]))
    append(table, (3, far), without=frozenset([2]))
    erase(table, [1], [(1,), (None,)], place(table, (1, far)))
    return table


@shape("files of a v1 table")
def v1_files(make: Maker) -> Table:
    """Files of a v1 table, which was upgraded since."""
    table = Maker(make.jvm, make.catalog, make.namespace, 1).table()
    append(table, *ROWS)
    append(table, (9, "z", 9))
    upgrade(table, make.version)
    erase(table, [1], [(1,), (None,)])
    return table


@shape("v1 table", "no deletes")
def no_deletes(make: Maker) -> Table:
    table = make.table()
    append(table, *ROWS)
    append(table, (9, "z", 9))
    append(table, (8, "y", 8))
    return table


@shape("upgraded, nothing since")
def rows_without_ids(make: Maker) -> Table:
    """Upgraded to v3, and nothing committed since."""
    table = upserted(Maker(make.jvm, make.catalog, make.namespace, 2).table())
    upgrade(table, 3)
    return table


@shape("row lineage")
def lineage(make: Maker) -> Table:
    """Row ids that an earlier rewrite has stored, and new ones, in one partition."""
    table = upserted(make.table())
    append(table, (7, "x", 7))
    return table


@shape("two columns of one id")
def two_columns_of_one_id(make: Maker) -> Table:
    table = upserted(make.table())
    fields = list(table.arrow())
    twin = pa.field("twin", pa.int64(), metadata=fields[0].metadata)
    columns = [[30, 31], ["x", "y"], [1, 2], [40, 41]]
    _adopt(table, [*fields, twin], columns)
    return table


@shape("a string for an int")
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


@shape("damaged file")
def damaged_file(make: Maker) -> Table:
    table = upserted(make.table())
    path = local(max(table.live(), key=lambda one: one.rows).path)
    body = bytearray(path.read_bytes())
    body[-4:] = b"RAP1"
    path.write_bytes(bytes(body))
    return table


@shape("damaged vector")
def damaged_vector(make: Maker) -> Table:
    table = deletion_vector(make)
    body = next(json.loads(text) for live in table.live() for text in live.vectors)
    path = local(body["file-path"])
    raw = bytearray(path.read_bytes())
    raw[body["content-offset"] + 6] ^= 0xFF
    path.write_bytes(bytes(raw))
    return table


@shape("property")
def with_property(make: Maker, text: str) -> Table:
    table = upserted(make.table())
    name, _, value = text.partition("=")
    table.java.updateProperties().set(name, value).commit()
    return table


@shape("format")
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


@shape("column")
def column_of_type(make: Maker, kind: str) -> Table:
    """Added to a table that has rows; nothing is stored for it."""
    table = upserted(make.table())
    change(table, lambda fields: fields.append(one(4, "x", kind)))
    return table


@shape("member of unknown type")
def unknown_member(make: Maker) -> Table:
    table = upserted(make.table())
    struct = {"type": "struct", "fields": [one(5, "y", "unknown"), one(6, "z", "int")]}
    change(table, lambda fields: fields.append(one(4, "x", struct)))
    return table


@shape("wrong row count")
def wrong_row_count(make: Maker) -> Table:
    """Metadata that counts a row too many."""
    table = upserted(make.table())
    where = place(table, ROWS[0])
    good = table.data_file([(20, "w", 1), (21, "w", 1)], where, RNG)
    builder = table.jvm.org.apache.iceberg.DataFiles.builder(table.java.spec())
    bad = builder.copy(good).withRecordCount(3).build()
    table.append([bad])
    return table


@shape("dropped table")
def dropped_table(make: Maker) -> Table:
    table = upserted(make.table())
    text = json.dumps({"namespace": list(table.name.namespace), "name": table.name.name})
    parser = table.jvm.org.apache.iceberg.catalog.TableIdentifierParser
    table.catalog.dropTable(parser.fromJson(text))
    return table


@shape("manifest gone")
def damaged_manifest(make: Maker) -> Table:
    table = upserted(make.table())
    io = table.java.io()
    for manifest in table.java.currentSnapshot().dataManifests(io):
        io.deleteFile(manifest.path())
    return table


@shape("branch")
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
