"""PyIceberg, knowing only the gateway's URI."""

from __future__ import annotations

import pyarrow as pa
import pytest
from firnline_domain.records.events import TableChange, TableCommitted
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import StringType

from .conftest import Events

pytestmark = pytest.mark.stack

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def test_every_change_of_a_table_is_an_event(
    through: RestCatalog, lake: RestCatalog, namespace: str, events: Events
) -> None:
    table = through.create_table(f"{namespace}.t", ROWS.schema)
    table.append(ROWS)
    first = table.current_snapshot()
    with table.update_schema() as update:
        update.add_column("name", StringType())
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(pa.table({"id": pa.array([9], pa.int64())}), branch="audit")
    audit = table.refresh().snapshot_by_name("audit")
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").commit()
    table.manage_snapshots().remove_branch("audit").commit()
    assert table.scan().to_arrow().num_rows == 3
    stored = len(table.refresh().io.new_input(table.metadata_location))
    through.rename_table(f"{namespace}.t", f"{namespace}.u")
    through.drop_table(f"{namespace}.u")

    found = events.until(namespace, lambda e: any(x.change is TableChange.DROPPED for x in e))
    assert [described(event) for event in found] == [
        (TableChange.CREATED, "t", [], [], True),
        (TableChange.COMMITTED, "t", [first.snapshot_id], [("main", first.snapshot_id)], False),
        (TableChange.COMMITTED, "t", [], [], True),
        (TableChange.COMMITTED, "t", [], [("audit", first.snapshot_id)], False),
        (TableChange.COMMITTED, "t", [audit.snapshot_id], [("audit", audit.snapshot_id)], False),
        (TableChange.COMMITTED, "t", [], [("v1", first.snapshot_id)], False),
        (TableChange.COMMITTED, "t", [], [("audit", None)], False),
        (TableChange.RENAMED, "u", [], [], False),
        (TableChange.DROPPED, "u", [], [], False),
    ]
    assert {event.table.uuid for event in found} == {str(table.metadata.table_uuid)}
    assert all(event.source == "gateway" for event in found)
    assert [found[0].metadata_bytes, found[-1].metadata_bytes] == [None, None]
    assert stored / 2 < found[-3].metadata_bytes < stored * 2
    assert all(event.user_agent.startswith("PyIceberg/") for event in found)


def described(
    event: TableCommitted,
) -> tuple[TableChange, str, list[int], list[tuple[str, int | None]], bool]:
    return (
        event.change,
        event.table.name,
        [new.snapshot_id for new in event.snapshots],
        [(moved.ref, moved.snapshot_id) for moved in event.refs],
        event.metadata_changed,
    )
