"""How old a snapshot must be, where the clocks of planner and worker do not agree."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.base.values import replace
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.expiry.file_cleanup import named_by_snapshots
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.reachability import refuse_if_hidden
from firnline_worker.table_actions.expire_snapshots import Expirer, agreed_ms
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.types import LongType, NestedField

from tests.kit.expiries import expire
from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

HOUR = 3_600_000
NOW, AGE = 1_000 * HOUR, 120 * HOUR


@pytest.mark.parametrize(
    ("ahead", "waited", "agreed"),
    [
        (0, 0, NOW - AGE),
        (0, HOUR, NOW - AGE),  # the order lay about: what it says still holds
        (HOUR, 0, NOW - AGE),  # the planner's clock is ahead: ours decides
        (-HOUR, 0, NOW - HOUR - AGE),  # it is behind: less is expired
    ],
)
def test_both_clocks_must_call_a_snapshot_old(ahead: int, waited: int, agreed: int) -> None:
    ordered = NOW + ahead
    order = expire("t", TableName("u", ("db",), "t"), ordered - AGE, ordered)
    assert agreed_ms(order, NOW + waited) == agreed


@pytest.mark.parametrize("at_ms", [-5, 1_700_000_000_000_000, 2**62])
def test_a_result_tells_of_snapshots_of_any_date(at_ms: int) -> None:
    """A writer that counts microseconds: the planner would not believe the whole result."""
    unused: Any = None
    order = expire("t", TableName("u", ("db",), "t"), NOW, NOW)
    snapshot = SimpleNamespace(snapshot_id=1, timestamp_ms=at_ms)
    table: Any = SimpleNamespace(snapshots=[snapshot], retains=lambda _: True)
    expirer = Expirer(unused, unused, lambda _: (), "w", lambda: NOW)
    result = expirer._result(order, table, table, 0, None)
    assert RecordCodec().decode(encode_record(result)) == result


class LeavesOut(MemoryTables):
    """A catalog that tells of the heads of refs alone."""

    def load(self, table: TableName) -> LoadedTable:
        found = super().load(table)
        place = found.io.new_output(found.metadata_location)
        ToOutputFile.table_metadata(found.metadata, place, overwrite=True)
        heads = [found.head("main")]
        return dataclasses.replace(
            found, metadata=found.metadata.model_copy(update={"snapshots": heads})
        )


def test_nothing_is_expired_where_the_catalog_leaves_snapshots_out(tmp_path: Path) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    for number in range(2):
        table.append(pa.table({"id": [number]}))
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    unused: Any = None
    tables: Any = LeavesOut(catalog)
    expirer = Expirer(tables, unused, lambda _: (), "w", lambda: NOW)
    order = expire("t", name, NOW, NOW)
    with pytest.raises(TaskRefused) as refused:
        expirer.expire(order)
    assert refused.value.reason == "snapshots_hidden"


class Stored(MemoryTables):
    """A catalog whose metadata files are in the storage."""

    def load(self, table: TableName) -> LoadedTable:
        found = super().load(table)
        place = found.io.new_output(found.metadata_location)
        ToOutputFile.table_metadata(found.metadata, place, overwrite=True)
        return found


@pytest.mark.parametrize("announces", [True, False])
def test_nothing_is_expired_while_another_table_has_the_uuid(
    tmp_path: Path, announces: bool
) -> None:
    """Of either of the two; when one is dropped, the other is its own again."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1]}))
    catalog.clone("dev.copy", "db.t")
    uuid = str(table.metadata.table_uuid)
    unused: Any = None
    for name, other in ((("db", "t"), "dev.copy"), (("dev", "copy"), "db.t")):
        order = expire("t", TableName(uuid, name[:1], name[1]), NOW, NOW)
        order = replace(order, begins_at_ms=NOW if announces else None, agreed=True)
        tables: Any = Stored(catalog)
        clocks = {"the storage": NOW}
        expirer = Expirer(
            tables, unused, lambda _: (), "w", lambda: NOW, ask=lambda _, seen=clocks: seen
        )
        with pytest.raises(TaskRefused, match=other) as refused:
            expirer.expire(order)
        assert refused.value.reason == "shared_identity"


def _expirer(tables: Any) -> Expirer:
    unused: Any = None
    return Expirer(tables, unused, lambda _: (), "w", lambda: NOW, ask=lambda _: {"a store": NOW})


@pytest.mark.parametrize("place", ["_delta_log/0.json", "data/.hoodie/hoodie.properties"])
def test_nothing_is_expired_whose_files_a_table_of_another_kind_has(
    tmp_path: Path, place: str
) -> None:
    """What was rewritten here alone is live there."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1]}))
    log = Path(table.metadata.location.removeprefix("file://")) / place
    log.parent.mkdir(parents=True)
    log.touch()
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    with pytest.raises(TaskRefused, match=log.parent.name) as refused:
        _expirer(Stored(catalog)).expire(replace(expire("t", name, NOW, NOW), agreed=True))
    assert refused.value.reason == "shared_location"


def test_no_file_goes_that_a_clone_has_by_now(tmp_path: Path) -> None:
    """It was made while snapshots were being expired."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1]}))
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    tables = Stored(catalog)
    before = tables.load(name)
    expired = named_by_snapshots(before, [one.snapshot_id for one in before.snapshots])
    catalog.clone("dev.copy", "db.t")
    with pytest.raises(TaskRefused, match=r"dev\.copy") as refused:
        _expirer(tables)._clean(before, expired)
    assert refused.value.reason == "shared_identity"


class NamesAnothers(MemoryTables):
    """A catalog whose metadata file is not the table's."""

    def load(self, table: TableName) -> LoadedTable:
        found = super().load(table)
        place = found.io.new_output(found.metadata_location)
        another = found.metadata.model_copy(update={"table_uuid": uuid.uuid4()})
        ToOutputFile.table_metadata(another, place, overwrite=True)
        return found


def test_nothing_is_expired_by_another_tables_metadata_file(tmp_path: Path) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1]}))
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    with pytest.raises(TaskRefused) as refused:
        refuse_if_hidden(NamesAnothers(catalog).load(name))
    assert refused.value.reason == "metadata_of_another"
