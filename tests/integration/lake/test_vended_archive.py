"""A table and its archive on an object store, each with keys of its own that its catalog alone
hands out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_domain.base.values import replace
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import PartitionArchiving
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.scan.planning import live_files
from firnline_worker.table_actions.archive_partitions import Archiver

from tests.kit.lake.table import Table
from tests.kit.lake_catalog import LakeCatalog, Rules, lake_catalog
from tests.kit.lake_pair import now_ms, pair
from tests.kit.s3_server import S3Server

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def server(servers: Path, store: S3Server) -> Iterator[LakeCatalog]:
    with lake_catalog(servers / "vending-archive", Rules(keys_s=60.0), store) as found:
        yield found


@pytest.mark.long
def test_old_rows_move_by_two_tables_keys(
    server: LakeCatalog, lake_jvm: IcebergJvm, tmp_path: Path
) -> None:
    server.rules.credentials_in = "storage-credentials"  # for the location of one table
    lake = pair(lake_jvm, tmp_path, server.connection())
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    properties = {"firnline.archive.after-hours": "24", "firnline.partitions.column": "p"}
    properties["firnline.archive.table"] = "cold"  # which no prefix of the table's keys covers
    table = lake.table(namespace, partitioned=True, **properties)
    for number, day in enumerate(("2001-01-01", "2001-01-02", "2999-01-01")):
        table.append((number, number), p=day)
    at, name = now_ms(), PartitionArchiving.name
    order = TableOrder(
        "archive", table.name, name, Reason.REQUESTED, 1, 1, at, at + 3_600_000, {"archive_h": 24.0}
    )
    result = Archiver(lake.tables, lake.commits, "w1", now_ms).archive(order)
    assert result.numbers["files_archived"] == 2
    assert table.rows() == [(2, 2)]
    kept = lake.tables.load_named((namespace,), "cold")
    archive = Table(lake.iceberg.jvm, lake.catalog, lake.tables, kept.identity, partitioned=True)
    assert archive.rows() == [(0, 0), (1, 1)]
    below = kept.metadata.location
    assert all(one.path.startswith(below) for one in live_files(kept, archive.head).data)
    again = replace(order, task_id="again")
    assert Archiver(lake.tables, lake.commits, "w1", now_ms).archive(again).numbers == {}
