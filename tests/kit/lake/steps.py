"""The alphabet: what a writer may do to a table, as one commit, and what it means for the rows.

A step takes its targets from its caller, plans by Iceberg's own API on the table as it is, and
sends nothing: the caller may wait, or let others go first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry

from tests.kit.lake.rows import EVERYTHING, MAIN, MARKER, Change, Lineage, Place, Row
from tests.kit.lake.table import Table

_markers = itertools.count(1)
Dead = Mapping[DataFileEntry, Iterable[int]]  # positions of data files


@dataclass(frozen=True)
class Planned:
    """A change of Iceberg's, not sent. `change`: None where it makes no snapshot."""

    pending: Any
    change: Change | None = None

    def send(self, lineage: Lineage, marker: str = "") -> None:
        """Say what it means, and commit it. Raises Py4JJavaError."""
        if self.change is not None:
            marker = marker or f"w{next(_markers)}"
            lineage.mean(marker, self.change)
            self.pending.set(MARKER, marker)
        self.pending.commit()


# ---- rows come and go


def append(table: Table, *files: Sequence[Row], ref: str = MAIN) -> Planned:
    """Rows, in these files."""
    made = [table.data_file(rows) for rows in files]
    change = Change(tuple(row for rows in files for row in rows))
    return Planned(table.writer.planned_append(*made, ref=ref), change)


def upsert(
    table: Table, rows: Sequence[Row], keys: Iterable[int | None], place: Place, ref: str = MAIN
) -> Planned:
    """An equality delete of keys in a place, everywhere if its spec has no partition, and rows."""
    keys = frozenset(keys)
    add = [table.data_file(rows)] if rows else []
    deletes = [table.key_file(sorted(keys, key=str), place)]
    change = Change(tuple(rows), keys=keys, place=place)
    return Planned(table.writer.planned_row_delta(add, deletes, ref=ref), change)


def eq_delete(table: Table, keys: Iterable[int | None], place: Place, ref: str = MAIN) -> Planned:
    """See `upsert`."""
    return upsert(table, (), keys, place, ref)


def pos_delete(
    table: Table,
    dead: Dead,
    about: str | None = None,
    merged: Sequence[DeleteFileEntry] = (),
    **checks: Any,
) -> Planned:
    """One position-delete file in the place of its data files. `about`: of one alone, and says so;
    `merged`: delete files whose positions it takes in, and which it replaces, as Spark's DELETE
    does; `checks`: of `planned_row_delta`."""
    marks = {mark for one in merged for mark in table.marks_of(one)}
    marks |= {(file.path, position) for file, positions in dead.items() for position in positions}
    first = next(iter(dead))
    text = table.position_file(sorted(marks), (first.spec_id, first.partition), about)
    return _deleted(table, dead, text, merged, checks)


def dv(
    table: Table,
    file: DataFileEntry,
    positions: Iterable[int],
    also: Iterable[int] = (),
    **checks: Any,
) -> Planned:
    """A file's deletion vector, which holds the one before. `also`: positions that show no row."""
    positions, old = list(positions), vectors_of(table, file)
    said = {position for one in old for _, position in table.marks_of(one)}
    text = table.vector_file(file, said | {*positions, *also})
    return _deleted(table, {file: positions}, text, old, checks)


def _deleted(
    table: Table,
    dead: Dead,
    text: str,
    replaced: Sequence[DeleteFileEntry],
    checks: Mapping[str, Any],
) -> Planned:
    pending = table.writer.planned_row_delta((), [text], replaced, **checks)
    rows = {file: table.rows_in(file) for file in dead}
    killed = frozenset(rows[file][at].version for file, some in dead.items() for at in some)
    return Planned(pending, Change(killed=killed))


def vectors_of(table: Table, file: DataFileEntry, ref: str = MAIN) -> list[DeleteFileEntry]:
    """The deletion vector that a file has."""
    return [
        one
        for one in table.live(ref).deletes
        if one.kind is DeleteKind.DELETION_VECTOR and one.referenced_data_file == file.normal_path
    ]


def remove(table: Table, *files: DataFileEntry, must_exist: bool = False) -> Planned:
    """Whole files, with the rows that a rollback may bring back meanwhile."""
    killed = frozenset(row.version for file in files for row in table.rows_in(file))
    return Planned(
        table.writer.planned_delete(*files, must_exist=must_exist), Change(killed=killed)
    )


def overwrite(table: Table, rows: Sequence[Row], p: str | None) -> Planned:
    """INSERT OVERWRITE of a partition, or of everything."""
    make = table.jvm.org.apache.iceberg.expressions.Expressions
    java = table.java
    rule = make.alwaysTrue() if p is None else make.equal("p", p)
    pending = java.newOverwrite().overwriteByRowFilter(rule)
    pending.addFile(table.writer.java_file(java, table.data_file(rows)))
    return Planned(pending, Change(tuple(rows), cleared=EVERYTHING if p is None else p))


def copy_on_write(
    table: Table, file: DataFileEntry, killed: frozenset[int], left: Sequence[Row]
) -> Planned:
    """A DELETE on copy-on-write: the file's other rows go into a new file."""
    java, filed = table.java, table.writer.java_file
    pending = java.newOverwrite().deleteFile(filed(java, file))
    if left:
        pending.addFile(filed(java, table.data_file(left)))
    pending.validateFromSnapshot(table.head)
    pending.conflictDetectionFilter(
        table.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    )
    pending.validateNoConflictingDeletes()
    return Planned(pending, Change(killed=killed))


# ---- refs and history


def rollback(table: Table, snapshot_id: int) -> Planned:
    """Main goes back to an ancestor."""
    return Planned(table.java.manageSnapshots().rollbackTo(snapshot_id))


def adopt(table: Table, ref: str) -> Planned:
    """Main is moved onto a branch; set to it where it has gone another way."""
    loaded, manage = table.loaded, table.java.manageSnapshots()
    branch = loaded.head(ref).snapshot_id
    if table.head in {one.snapshot_id for one in loaded.ancestors(branch)}:
        return Planned(manage.fastForwardBranch(MAIN, ref))
    return Planned(manage.setCurrentSnapshot(branch))


def branch(table: Table, name: str, at: int | None = None) -> Planned:
    manage = table.java.manageSnapshots()
    return Planned(manage.createBranch(name, table.head if at is None else at))


def tag(table: Table, name: str, at: int | None = None) -> Planned:
    return Planned(table.java.manageSnapshots().createTag(name, table.head if at is None else at))


def drop_ref(table: Table, name: str) -> Planned:
    """A branch or a tag."""
    java = table.java
    manage = java.manageSnapshots()
    drop = manage.removeTag if java.refs()[name].isTag() else manage.removeBranch
    return Planned(drop(name))


def expire(table: Table, older_than_ms: int) -> Planned:
    """Snapshots older than that, and what only they had; heads stay."""
    return Planned(table.java.expireSnapshots().expireOlderThan(older_than_ms).retainLast(1))


# ---- schema and spec


def add_column(table: Table, name: str) -> Planned:
    long = table.jvm.org.apache.iceberg.types.Types.LongType.get()
    return Planned(table.java.updateSchema().addColumn(name, long))


def change_spec(table: Table) -> Planned:
    """Partitioned by p from now on, or not any more."""
    loaded, change = table.loaded, table.java.updateSpec()
    fields = loaded.spec(loaded.metadata.default_spec_id).fields
    return Planned(change.removeField("p") if fields else change.addField("p"))
