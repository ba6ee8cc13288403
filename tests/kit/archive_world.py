"""A table with old files, and what moves them to its archive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import PartitionArchiving
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.archive_marks import ROUND
from firnline_domain.records.results import TableResult
from firnline_domain.records.signing import Keyring, SigningKey
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.table_actions.archive_partitions import Archiver
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from tests.kit.lake.writer import FileWriter, TableWriter
from tests.kit.meddled_commits import MeddledCommits

SCHEMA = Schema(NestedField(1, "d", LongType()), NestedField(2, "at", DateType()))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "at"))
ARROW = pa.schema([("d", pa.int64()), ("at", pa.date32())])
TODAY = datetime.now(UTC).date()
ALL = [1, 30, 40, 400]
KEYS = Keyring([SigningKey("k1", b"s" * 32)])


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


class World:
    """A table with rows of 1, 30, 40 and 400 days ago, each in a file and a partition of its own;
    those older than ten days are to be archived."""

    def __init__(
        self, lake: RestCatalog, namespace: str, uri: str, jvm: Any, java: Any, **properties: str
    ) -> None:
        self.lake, self.namespace, self.jvm, self.java = lake, namespace, jvm, java
        self.tables = Tables(uri)
        self.uri = uri
        given = {"format-version": "2", "firnline.archive.after-hours": "240", **properties}
        lake.create_table(f"{namespace}.t", SCHEMA, partition_spec=BY_DAY, properties=given)
        for ago in ALL:
            self.insert(ago)
        self.commits = MeddledCommits(JavaCommits(IcebergOf(jvm), uri))
        self.archiver = Archiver(self.tables, self.commits, "w1", now_ms, KEYS)  # type: ignore[arg-type]

    def allow(self, archives: str) -> None:
        """What the operator says of archives."""
        properties = {"uri": self.uri, "firnline.archives": archives}
        self.archiver.tables = self.tables = Tables(CatalogConnection("lake", properties))

    def insert(self, day: int, ago: int | None = None, **more: int) -> None:
        at = TODAY - timedelta(days=day if ago is None else ago)
        schema = ARROW
        for name in more:
            schema = schema.append(pa.field(name, pa.int64()))
        row = pa.Table.from_pylist([{"d": day, "at": at, **more}], schema=schema)
        self.lake.load_table(f"{self.namespace}.t").append(row)

    def set(self, **properties: str) -> None:
        with self.lake.load_table(f"{self.namespace}.t").transaction() as change:
            change.set_properties(properties)

    def order(self, reason: str = Reason.REQUESTED, **numbers: float) -> TableOrder:
        at, given = now_ms(), {"archive_h": 240.0, **numbers}
        name, task = PartitionArchiving.name, f"{self.namespace}-{at}"
        table = self.table().identity
        return TableOrder(task, table, name, reason, 1, 1, at, at + 3_600_000, given)

    def archive(self) -> TableResult:
        return self.archiver.archive(self.order())

    def table(self, name: str = "t") -> LoadedTable:
        return self.tables.load_named((self.namespace,), name)

    def days(self, name: str = "t") -> list[int]:
        """Of the rows, as PyIceberg reads them."""
        found = self.lake.load_table(f"{self.namespace}.{name}").scan().to_arrow()
        return sorted(found["d"].to_pylist())

    def kept(self) -> list[int]:
        return self.days("t_archive")

    def entry(self, day: int) -> DataFileEntry:
        """The file of a row, by its partition."""
        text = f'["{TODAY - timedelta(days=day)}"]'
        table = self.table()
        live = live_files(table, table.head("main").snapshot_id)
        return next(one for one in live.data if one.partition == text)

    def delete(self, day: int) -> None:
        """By position, of the first row of a file."""
        entry = self.entry(day)
        path = f"{self.table().metadata.location}/data/deletes-{now_ms()}.parquet"
        place = (entry.spec_id, entry.partition)
        made = FileWriter().position_deletes(path, [(entry.path, 0)], place)
        writer = TableWriter(
            self.jvm, lambda: load_table(self.jvm, self.java, self.table().identity)
        )
        writer.row_delta(deletes=[made])

    def rewrite(self, day: int) -> None:
        """The same rows in another file."""
        table = self.lake.load_table(f"{self.namespace}.t")
        found = EqualTo(term="at", value=(TODAY - timedelta(days=day)).isoformat())
        table.overwrite(table.scan(row_filter=found).to_arrow(), overwrite_filter=found)

    def is_settled(self) -> bool:
        ends = [self.table(name).properties.get(ROUND, "") for name in ("t", "t_archive")]
        return ends[0] == ends[1]


class IcebergOf:
    """As `IcebergJvm` is for `JavaCommits`."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm

    def watch(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def refused_by(world: World) -> str:
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    return refused.value.reason
