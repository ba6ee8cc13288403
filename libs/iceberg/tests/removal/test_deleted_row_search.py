"""What files hold is told by the files: not by bounds, nor by what they are for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.files.puffin import Blob, write_puffin
from firnline_domain.identity import TableName
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus, FileStats
from firnline_iceberg.removal import deleted_row_search
from firnline_iceberg.removal.deleted_row_search import HolderKind, find_holders, wanted_rows
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

SCHEMA = Schema(
    NestedField(1, "customer", LongType()),
    NestedField(2, "mail", StringType()),
    NestedField(3, "day", DateType()),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "customer"), spec_id=0)


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


CUSTOMER, MAIL = field("customer", pa.int64(), 1), field("mail", pa.string(), 2)
POSITIONS = [field("file_path", pa.string(), 2147483546), field("pos", pa.int64(), 2147483545)]
ROWS = [{"customer": 3, "mail": "c"}, {"customer": 7, "mail": "g"}, {"customer": 9, "mail": "i"}]


@pytest.fixture
def catalog(tmp_path: Path) -> MemoryCatalog:
    return MemoryCatalog(f"file://{tmp_path}")


def load(catalog: MemoryCatalog, table: Any) -> LoadedTable:
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    return MemoryTables(catalog).load(name)


@pytest.fixture
def table(catalog: MemoryCatalog) -> LoadedTable:
    return load(catalog, catalog.make("db.t", SCHEMA))


def written(folder: Path, rows: list[dict[str, Any]], *fields: pa.Field, name: str = "f") -> str:
    made = pa.Table.from_pylist(rows, schema=pa.schema(list(fields)))
    pq.write_table(made, folder / f"{name}.parquet", store_schema=False)
    return f"file://{folder}/{name}.parquet"


def entry(path: str, kind: DeleteKind | None = None, **more: Any) -> Any:
    given = {
        "path": path, "manifest_path": "m", "status": EntryStatus.ADDED, "snapshot_id": 1,
        "sequence_number": 1, "file_sequence_number": 1, "spec_id": 0, "partition": "[]",
        "format": "PARQUET", "records": 3, "bytes": 1, **more,
    }  # fmt: skip
    return DataFileEntry(**given) if kind is None else DeleteFileEntry(**given, kind=kind)


def count(table: LoadedTable, one: Any, where: str) -> tuple[int | None, str]:
    return deleted_row_search._count_rows(table, one, wanted_rows(table, where))


def stats(low: Any, high: Any, number: int = 1) -> FileStats:
    kind: Any = SCHEMA.find_type(number)
    bounds = ({number: to_bytes(kind, one)} for one in (low, high))
    return FileStats({number: 3}, {number: 0}, {}, *bounds)


def test_bounds_leave_out_no_file(catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also none whose bounds are no text, or of another type."""
    made = catalog.make("db.t", SCHEMA)
    made.append(pa.table({"customer": [3, 7, 9], "mail": ["c", "g", "i"]}))
    loaded = load(catalog, made)
    entries = LoadedTable.entries_of
    wrong = FileStats({1: 3}, {1: 3}, {}, {1: b"\1", 2: b"\xff\xe2"}, {1: b"\0" * 8, 2: b"\xe2"})

    def lied(self: LoadedTable, manifest: Any, *detail: Any) -> Any:
        return (replace(one, stats=wrong) for one in entries(self, manifest, *detail))

    monkeypatch.setattr(LoadedTable, "entries_of", lied)
    for where in ("customer = 7", "mail = 'g'", "customer = 7 and mail = 'g'"):
        [found] = find_holders(loaded, wanted_rows(loaded, where))
        assert (found.kind, found.rows, found.visible) == (HolderKind.DATA, 1, True)
    assert find_holders(loaded, wanted_rows(loaded, "customer = 8")) == []


@pytest.mark.parametrize("kind", [None, DeleteKind.EQUALITY, DeleteKind.POSITION])
def test_a_files_own_columns_count_whatever_it_is_for(
    table: LoadedTable, tmp_path: Path, kind: DeleteKind | None
) -> None:
    """An equality delete by customer that has the whole row."""
    one = entry(written(tmp_path, ROWS, CUSTOMER, MAIL), kind)
    for where, rows in (
        ("mail = 'g'", 1), ("customer > 3 and mail != 'g'", 1), ("not customer = 7", 2),
        ("mail in ('c', 'i')", 2), ("mail is null", 0), ("customer = 7 or mail = 'c'", 2),
    ):  # fmt: skip
        assert count(table, one, where) == (rows, ""), where


def test_the_row_in_a_position_delete_counts(table: LoadedTable, tmp_path: Path) -> None:
    of_row = field("row", pa.struct([CUSTOMER, MAIL]), 2147483544)
    rows = [{"file_path": "a", "pos": at, "row": row} for at, row in enumerate([*ROWS, None])]
    one = entry(written(tmp_path, rows, *POSITIONS, of_row), DeleteKind.POSITION)
    assert count(table, one, "mail = 'g'") == (1, "")
    assert count(table, one, "mail = 'x'") == (0, "")
    bare = entry(written(tmp_path, rows, *POSITIONS, name="bare"), DeleteKind.POSITION)
    assert count(table, bare, "mail = 'g'") == (0, "")


def test_a_deletion_vector_holds_no_rows_if_it_is_one(table: LoadedTable, tmp_path: Path) -> None:
    """Whatever its entry says that it is."""
    told = {"deletion-vector-v1": (0, ""), "rows": (None, "it has rows, which is not read")}
    for kind, found in told.items():
        with (tmp_path / "v.puffin").open("wb") as sink:
            write_puffin(sink, [Blob(kind, b"x", (), {})], "test")
        vector = entry(f"file://{tmp_path}/v.puffin", DeleteKind.DELETION_VECTOR, format="PUFFIN")
        assert count(table, vector, "mail = 'g'") == found
    path = written(tmp_path, ROWS, CUSTOMER, MAIL)
    rows, why = count(table, entry(path, DeleteKind.POSITION, format="PUFFIN"), "mail = 'g'")
    assert rows is None
    assert why.startswith("it cannot be read: ")
    for content in (b"", b"PFA1", b"PFA1" + b"\xff" * 12, b"x" * 20 + b"PFA1"):
        (tmp_path / "v.puffin").write_bytes(content)
        assert count(table, vector, "mail = 'g'")[0] is None


@pytest.mark.parametrize("name", ["mail", "Mail"])
@pytest.mark.parametrize("others", [[], [MAIL]])
def test_a_column_of_that_name_that_the_table_never_had_is_not_told(
    table: LoadedTable, tmp_path: Path, name: str, others: list[pa.Field]
) -> None:
    """Its schema may have been cleaned up. Two columns of one name are no one column."""
    fields = [CUSTOMER, *others, field(name, pa.string(), 99)]
    values = [pa.array([7]), *([pa.array(["g"])] * (len(fields) - 1))]
    path = tmp_path / "f.parquet"
    made = pa.Table.from_arrays(values, schema=pa.schema(fields))
    pq.write_table(made, path, store_schema=False)
    for where in ("mail = 'g'", "mail = 'x'", "mail = 'x' and customer = 7"):
        assert count(table, entry(f"file://{path}"), where)[0] is None
    assert count(table, entry(f"file://{path}"), "customer = 7") == (1, "")
    assert count(table, entry(f"file://{path}"), "customer = 8") == (0, "")


def test_a_column_of_an_older_type_is_compared_as_the_tables(
    table: LoadedTable, tmp_path: Path
) -> None:
    narrow = field("renamed", pa.int32(), 1)
    one = entry(written(tmp_path, [{"renamed": 7}], narrow))
    assert count(table, one, "customer = 7") == (1, "")
    assert count(table, one, "customer = 4294967303") == (0, "")


def test_what_cannot_be_told_is_perhaps_and_says_why(table: LoadedTable, tmp_path: Path) -> None:
    good = written(tmp_path, ROWS, CUSTOMER, MAIL)
    for one, why in (
        (entry(good, format="AVRO"), "AVRO is not read"),
        (entry(good, encrypted=True), "it is encrypted"),
        (entry(f"file://{tmp_path}/gone.parquet"), "it cannot be read: "),
        (entry(written(tmp_path, ROWS, MAIL, name="m")), "it has none of the columns"),
        (entry(written(tmp_path, ROWS, pa.field("customer", pa.int64()), name="i")), "no field id"),
    ):
        rows, said = count(table, one, "customer = 7")
        assert rows is None
        assert why in said
    half = entry(written(tmp_path, ROWS, MAIL, name="half"), DeleteKind.EQUALITY)
    assert count(table, half, "customer = 7 and mail = 'g'")[0] is None
    assert count(table, half, "customer = 7 and mail = 'x'") == (0, "")
    (tmp_path / "f.parquet").write_bytes((tmp_path / "f.parquet").read_bytes()[:-40] + b"0" * 40)
    assert count(table, entry(good), "customer = 7")[0] is None
    in_list = field("many", pa.list_(field("element", pa.int64(), 1)), 8)
    listed = written(tmp_path, [{"many": [7]}], in_list, name="list")
    assert count(table, entry(listed, DeleteKind.EQUALITY), "customer = 7")[0] is None


def test_nan_is_above_all_numbers(catalog: MemoryCatalog, tmp_path: Path) -> None:
    """For Spark, which deletes it by `x > 5`, and for Iceberg."""
    loaded = load(catalog, catalog.make("db.t", Schema(NestedField(1, "x", DoubleType()))))
    rows = [{"x": float("nan")}, {"x": 5.0}, {"x": -0.0}]
    one = entry(written(tmp_path, rows, field("x", pa.float64(), 1)))
    for where, found in (
        ("x > 5", 1), ("x >= 5", 2), ("not x <= 5", 1), ("x < 6", 2), ("x = 0.0", 1),
    ):  # fmt: skip
        assert count(loaded, one, where) == (found, ""), where


@pytest.mark.parametrize("kind", [None, DeleteKind.EQUALITY, DeleteKind.POSITION])
def test_a_column_that_is_twice_in_a_file_is_not_told(
    table: LoadedTable, tmp_path: Path, kind: DeleteKind | None
) -> None:
    of_row = field("row", pa.struct([MAIL]), 2147483544)
    again = field("again", pa.string(), 2)
    rows = [{"mail": "a", "row": {"mail": "g"}, "again": "g"}]
    for at, columns in enumerate(([MAIL, of_row], [of_row, MAIL], [MAIL, again])):
        one = entry(written(tmp_path, rows, *columns, name=f"twice{at}"), kind)
        assert count(table, one, "mail = 'g'") == (None, "it has a column twice")


def test_a_column_that_was_dropped_and_came_back_is_not_told(
    catalog: MemoryCatalog, tmp_path: Path
) -> None:
    """An equality delete by the former one."""
    made = catalog.make("db.t", SCHEMA)
    with made.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("mail")
    with made.update_schema() as change:
        change.add_column("mail", StringType())
    loaded = load(catalog, made)
    one = entry(written(tmp_path, ROWS, MAIL), DeleteKind.EQUALITY)
    why = "it has a dropped column of that name"
    assert count(loaded, one, "mail = 'g'") == (None, why)
    assert count(loaded, one, "customer = 7") == (0, "")


MOMENT = "2026-01-02T03:04:05.000006"


@pytest.mark.parametrize(
    ("kind", "text", "canonical", "value"),
    [
        (UUIDType(), f"'{UUID(int=7)}'", str(UUID(int=7)), UUID(int=7)),
        (DoubleType(), "7.5", 7.5, 7.5),
        (FloatType(), "0.1", 0.1, 0.1),
        (TimestampType(), f"'{MOMENT}'", MOMENT, None),
        (TimestamptzType(), f"'{MOMENT}+00:00'", f"{MOMENT}+00:00", None),
        (TimeType(), "'03:04:05.000006'", "03:04:05.000006", None),
        (DecimalType(9, 2), "7.50", "7.50", None),
        (DateType(), "'2026-01-02'", "2026-01-02", None),
        (StringType(), "'g'", "g", "g"),
        (LongType(), "7", 7, 7),
    ],
)
def test_values_of_all_types_are_values_in_a_manifest(
    catalog: MemoryCatalog, kind: IcebergType, text: str, canonical: Any, value: Any
) -> None:
    """Also where no bounds are kept, and of columns within others."""
    schema = Schema(
        NestedField(1, "x", kind), NestedField(2, "in", StructType(NestedField(3, "x", kind)))
    )
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"), spec_id=0)
    loaded = load(catalog, catalog.make("db.t", schema, spec))

    def says(one: Any, where: str) -> bool:
        return deleted_row_search._metadata_matches(loaded, one, wanted_rows(loaded, where))

    partition = json.dumps([canonical])
    assert says(entry("f", stats=NO_STATS, partition=partition), f"x = {text}")
    assert not says(entry("f", stats=NO_STATS, partition="[null]"), f"x = {text}")
    if value is not None:
        raw: Any = to_bytes(kind, value)  # type: ignore[arg-type]
        for number, name in ((1, "x"), (3, "in.x")):
            bounds = FileStats({number: 1}, {number: 0}, {}, {number: raw}, {number: raw})
            assert says(entry("f", stats=bounds, partition="[null]"), f"{name} = {text}")


NO_STATS = FileStats({}, {}, {}, {}, {})


@pytest.mark.parametrize(
    ("one", "where", "said"),
    [
        (entry("f", stats=stats(3, 7)), "customer = 7", True),
        (entry("f", stats=stats(3, 9)), "customer = 7", False),
        (entry("f", stats=stats(3, 7), status=EntryStatus.DELETED), "customer = 7", True),
        (entry("f", DeleteKind.EQUALITY, stats=stats(7, 7)), "customer = 7", True),
        (entry("f", stats=stats("a", "g", 2)), "mail = 'g'", True),
        (entry("f", stats=stats(3, 7)), "customer = 7 and mail = 'g'", False),  # of one alone
        (entry("f", stats=stats(3, 7)), "customer = 7 or mail = 'g'", True),
        (
            entry("f", stats=stats("a", "g", 2), partition="[7]"),
            "customer = 7 and mail = 'g'",
            True,
        ),
        (entry("f", stats=stats("a", "b", 2)), "customer = 7 and mail = 'g'", False),
        (entry("f", stats=FileStats({}, {}, {}, {1: b"\1"}, {1: b""})), "customer = 7", False),
        (entry("f", stats=NO_STATS, partition="[7]"), "customer = 7", True),
        (entry("f", stats=NO_STATS, partition="[8]"), "customer = 7", False),
        (
            entry("f", stats=NO_STATS, partition="[null]"),
            "customer = 7",
            False,
        ),
    ],
)
def test_bounds_and_partition_values_are_values(
    catalog: MemoryCatalog, one: Any, where: str, said: bool
) -> None:
    loaded = load(catalog, catalog.make("db.t", SCHEMA, SPEC))
    assert deleted_row_search._metadata_matches(loaded, one, wanted_rows(loaded, where)) is said


def test_a_manifest_of_a_retained_snapshot_holds_what_its_entries_say(
    catalog: MemoryCatalog,
) -> None:
    made = catalog.make("db.t", SCHEMA)
    made.append(pa.table({"customer": [7, 9], "mail": ["g", "i"]}))
    loaded = load(catalog, made)
    data, manifest = find_holders(loaded, wanted_rows(loaded, "customer = 7"))
    assert (data.kind, manifest.kind) == (HolderKind.DATA, HolderKind.MANIFEST)
    assert (manifest.rows, manifest.refs, manifest.snapshots) == (1, ("main",), 1)


def test_the_quarantine_is_read(catalog: MemoryCatalog) -> None:
    made = catalog.make("db.t", SCHEMA)
    made.append(pa.table({"customer": [3], "mail": ["c"]}))
    loaded = load(catalog, made)
    folder = Path(loaded.metadata.location.removeprefix("file://")) / "firnline-quarantine/17/data"
    folder.mkdir(parents=True)
    path = written(folder, ROWS, CUSTOMER, MAIL)
    wanted = wanted_rows(loaded, "customer = 7")
    [found] = find_holders(loaded, wanted)
    assert (found.kind, found.path, found.rows) == (HolderKind.QUARANTINED, path, 1)
    (folder / "f.parquet").unlink()
    (folder / "v3.metadata.json").write_text("{}")
    assert find_holders(loaded, wanted) == []
    (folder / "m0.avro").write_bytes(b"Obj")
    [found] = find_holders(loaded, wanted)
    assert (found.rows, found.why) == (None, "its format is not read")


def test_the_quarantine_of_an_earlier_location_is_searched(table, tmp_path) -> None:
    """`SET LOCATION` moves no files; the metadata log still contains some of the old location."""
    old = tmp_path / "db/t/firnline-quarantine/1/data"
    old.mkdir(parents=True)
    path = written(old, ROWS, CUSTOMER, MAIL)
    metadata = table.metadata.model_copy(update={"location": f"file://{tmp_path}/elsewhere"})
    moved = replace(table, metadata=metadata)
    for one in (table, moved):
        [holder] = find_holders(one, wanted_rows(one, "customer = 7"))
        assert (holder.path, holder.kind, holder.rows) == (path, HolderKind.QUARANTINED, 1)
