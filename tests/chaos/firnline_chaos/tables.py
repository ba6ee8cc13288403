"""The tables of a run, and which writes each of them gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from firnline_domain.identity import TableName

from tests.kit.lake.rows import Change
from tests.kit.lake.table import create_table

NAMESPACE = "chaos"
COLUMNS = ((1, "id", "long"), (2, "v", "long"), (3, "p", "string"), (4, "n", "int"))
PARTITIONS = ("a", "b", "c")
TOO_OLD = "2020-01-01"
DAYS = (TOO_OLD, "2090-01-01", "2090-01-02")
PROPERTIES = {
    # Small files of a few kB against this target are fragments.
    "write.target-file-size-bytes": str(1024 * 1024),
    "write.parquet.compression-codec": "zstd",
    "firnline.rewrite.min-fragments": "4",
    "firnline.rewrite.min-equality-deletes": "2",
    "firnline.rewrite.min-position-deletes": "2",
    "firnline.rewrite.quiet-ms": "300",
    "firnline.rewrite.cool-down-ms": "1500",
    "firnline.rewrite.hold-off-ms": "2000",
    "firnline.rewrite.deadline-ms": "240000",
    "firnline.expire.min-interval-ms": "90000",
    "firnline.expire.enabled": "true",  # else nothing is expired on its first day
    "history.expire.max-snapshot-age-ms": "100000",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.retry.num-retries": "6",
    "commit.retry.max-wait-ms": "1000",
}
CONVERTING = {"write.target-file-size-bytes": "8192", "firnline.rewrite.convert": "always"}
SORTING = {
    "firnline.sort": "id",
    "firnline.sort.max-depth": "2",
    "firnline.sort.interval-ms": "5000",
}
AGEING = {
    "firnline.partitions.ttl-hours": "24",
    "firnline.partitions.column": "p",
    "firnline.partitions.grace-ms": "20000",
    "firnline.partitions.min-interval-ms": "30000",
}
DESCRIBED = {
    "firnline.statistics": "id",
    "firnline.statistics.min-interval-ms": "30000",
    "firnline.partition-statistics": "true",
}
UPGRADED = {"firnline.format-version": "3", "firnline.format-version.grace-ms": "45000"}
ROWS_COME = {"append": 6, "upsert": 6}
FILES_GO = {"overwrite": 1, "copy_on_write": 2, "remove_file": 1, "expire": 1, "rollback": 1}
BRANCHES = {"branch_write": 2, "fast_forward": 1, "drop_branch": 1}
OF_HISTORY = frozenset({*BRANCHES, "rollback", "expire"})  # none of it where history is hidden
SHAPES = {"schema": 1, "spec": 1}


@dataclass(frozen=True)
class Kind:
    """A table: `writes` are kinds of writes with their weights."""

    name: str
    version: int
    partitioned: bool
    writes: Mapping[str, int] = field(default_factory=dict)
    converts: bool = False  # its files of some kB are no fragments, and stay
    sorts: bool = False  # its rows by id
    ages: bool = False  # `p` is a day, and rows of one of them are too old
    is_described: bool = False  # by statistics
    rises: bool = False  # from v2 to v3, in the middle of the first storm

    @property
    def properties(self) -> dict[str, str]:
        """Those of the table."""
        given = {"format-version": str(self.version), **PROPERTIES}
        for wanted, more in (
            (self.converts, CONVERTING),
            (self.sorts, SORTING),
            (self.ages, AGEING),
            (self.is_described, DESCRIBED),
            (self.rises, UPGRADED),
        ):
            given |= more if wanted else {}
        return given

    @property
    def partitions(self) -> tuple[str, ...]:
        """Values of `p`."""
        return DAYS if self.ages else PARTITIONS

    @property
    def target_bytes(self) -> int:
        """What its files aim at."""
        return int(self.properties["write.target-file-size-bytes"])

    @property
    def deletes(self) -> str:
        """How single rows are marked as deleted."""
        return "vector" if self.version == 3 else "position_delete"


CONVERTED = ("orders", "sensors")
SORTED = ("accounts", "sensors")
AGES = ("orders", "sensors")
IS_DESCRIBED = ("accounts", "orders")
RISES = ("moving",)
BUSY = Kind("busy", 2, False)
"""One writer appends to it all the time, faster than a commit of ours is made."""
STEADY = tuple(
    Kind(
        name,
        version,
        partitioned,
        {**writes, "vector" if version == 3 else "position_delete": 5},
        name in CONVERTED,
        name in SORTED,
        name in AGES,
        name in IS_DESCRIBED,
        name in RISES,
    )
    for name, version, partitioned, writes in (
        ("accounts", 2, False, {**ROWS_COME, **FILES_GO}),
        ("orders", 2, True, {**ROWS_COME, **FILES_GO, **BRANCHES}),
        ("events", 3, False, {**ROWS_COME, **FILES_GO, **BRANCHES}),
        ("sensors", 3, True, {**ROWS_COME, **FILES_GO}),
        ("moving", 2, True, {**ROWS_COME, **SHAPES, "overwrite": 1, "copy_on_write": 1}),
    )
)
KINDS = (*STEADY, BUSY)


def of_nessie(kind: Kind) -> Kind:
    """The same table where a catalog knows v2 alone, and of its history nothing."""
    told = {"vector": "position_delete"}
    writes = {told.get(what, what): n for what, n in kind.writes.items() if what not in OF_HISTORY}
    return replace(kind, version=2, writes=writes, rises=False)


def drop_old(_: object) -> Change:
    """What Firnline has to take out of a table that `ages`, whenever it looks."""
    return Change(cleared=TOO_OLD)


def create(jvm: Any, catalog: Any, kind: Kind) -> None:
    """Make an empty table, by Iceberg's Java API."""
    name = TableName("", (NAMESPACE,), kind.name)
    create_table(jvm, catalog, name, kind.partitioned, COLUMNS, **kind.properties)
