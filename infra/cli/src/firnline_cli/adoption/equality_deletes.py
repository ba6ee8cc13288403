"""Waits until tables have no equality delete left, and proves it from the manifests of their heads.

A proof is of one moment: of the snapshot that it names. Whoever must read such tables afterwards
needs a promise (`firnline.equality-deletes.max-age-ms`) or writers without equality deletes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from firnline_domain.base.values import Value
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_cli.adoption.requests import Clock

LOOK_S = 10.0  # between two looks at the tables that are left


class Unreadable(Exception):
    """A table cannot be read, and no retry helped; the message says why."""


class Gone(Exception):
    """There is no such table any more."""


class EqualityDeletes(Value):
    """What the manifests of a table's head say. `snapshot_id` None: the table has no snapshot."""

    table: TableName
    snapshot_id: int | None
    manifests: int = 0  # of deletes, that were read; those of data hold none
    delete_files: int = 0  # of all kinds
    files: int = 0  # of equality deletes
    records: int = 0
    promised: bool = False  # the table's owner wants them to go


class Reader(Protocol):
    """Where tables are looked at."""

    def equality_deletes(self, table: TableName) -> EqualityDeletes:
        """Of its `main`, now. Raises Gone, Unreadable."""


class Report(Protocol):
    """Who is told."""

    def without_equality_deletes(self, found: EqualityDeletes) -> None:
        """A table has none, which is proven."""

    def with_equality_deletes(self, found: EqualityDeletes) -> None:
        """It has some, and is not waited for any longer."""

    def left_out(self, name: str, why: str) -> None:
        """It is gone."""

    def waiting(self, why: str) -> None:
        """So many are left."""


def equality_deletes_of(table: LoadedTable, promised: bool = False) -> EqualityDeletes:
    """Read from every delete manifest of the head. Raises RetryLater, MetadataFileGone."""
    if (head := table.head_id(MAIN)) is None:
        return EqualityDeletes(table.identity, None, promised=promised)
    manifests = [
        one
        for one in table.manifests(table.snapshot(head))
        if one.holds_deletes and not one.holds_no_live
    ]
    live = [
        entry
        for manifest in manifests
        for entry in table.entries(manifest, Detail.COUNTS)
        if entry.live and isinstance(entry, DeleteFileEntry)
    ]
    found = [one for one in live if one.kind is DeleteKind.EQUALITY]
    return EqualityDeletes(
        table.identity,
        head,
        len(manifests),
        len(live),
        len(found),
        sum(one.records for one in found),
        promised,
    )


@dataclass
class Wait:
    """For tables to lose their equality deletes, at most `patience_s`."""

    reader: Reader
    report: Report
    clock: Clock
    patience_s: float
    left: dict[str, EqualityDeletes] = field(default_factory=dict)  # by key: the last look

    def run(self, tables: Iterable[TableName]) -> bool:
        """True if none of them has any."""
        waiting = {one.key: one for one in tables}
        until_s = self.clock.now() + self.patience_s
        before = 0
        while waiting:
            waiting = {key: one for key, one in waiting.items() if self._has_some(one)}
            if not waiting or self.clock.now() >= until_s:
                break
            if len(waiting) != before:
                before = len(waiting)
                self.report.waiting(self._why(waiting))
            self.clock.sleep(LOOK_S)
        for key in waiting:
            self.report.with_equality_deletes(
                self.left.get(key, EqualityDeletes(waiting[key], None))
            )
        return not waiting

    def _has_some(self, table: TableName) -> bool:
        """Also where it cannot be read now: then nothing is proven."""
        try:
            found = self.reader.equality_deletes(table)
        except Gone as gone:
            self.report.left_out(table.dotted, str(gone))
            return False
        except Unreadable:
            return True
        if found.files:
            self.left[table.key] = found
            return True
        self.report.without_equality_deletes(found)
        return False

    def _why(self, waiting: dict[str, TableName]) -> str:
        some = [one for key, one in self.left.items() if key in waiting]
        files = sum(one.files for one in some)
        text = f"{len(waiting):,} tables have {files:,} equality-delete files"
        unpromised = sum(not one.promised for one in some)
        if not unpromised:
            return text
        return (
            f"{text}; {unpromised:,} of the tables promise nothing "
            "(firnline.equality-deletes.max-age-ms): theirs go when readers have paid for it"
        )
