"""Kinds of writes: each plans on the table as it was loaded, says what it means, and commits by
Iceberg's own Java API, as an engine would."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from firnline_domain.identity import MAIN
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, FileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_chaos.files import Folder, vector_positions, versions_in
from firnline_chaos.tables import Kind
from tests.kit.lake.rows import EVERYTHING, MARKER, Change, Lineage, Place, Row
from tests.kit.lake.writer import TableWriter

AUDIT = "audit"
KEYS = 300  # different keys of a table
NULL_KEY = 0.03  # share of rows without a key
APPENDED, UPSERTED, MARKED = 40, 15, 6  # rows, at most
MOST_COLUMNS = 8


class NothingToDo(Exception):
    """The table has nothing that such a write could be about."""


@dataclass
class Turn:
    """One attempt at one write."""

    jvm: Any
    java: Any  # the table in Java
    table: LoadedTable  # the same for us
    kind: Kind
    lineage: Lineage
    marker: str
    dice: random.Random
    versions: Iterator[int]
    hold_s: float  # between planning and commit, as a long statement takes

    # ---- what there is

    def head(self, ref: str = MAIN) -> int:
        """Raises NothingToDo where the table is empty."""
        found = self.table.head_id(ref)
        if found is None:
            raise NothingToDo(f"no {ref}")
        return found

    @cached_property
    def live(self) -> LiveFiles:
        return live_files(self.table, self.head())

    @cached_property
    def rows(self) -> dict[int, Row]:
        """What main shows, by version."""
        return {row.version: row for row in self.lineage.rows(self.head())}

    @cached_property
    def folder(self) -> Folder:
        return Folder.of(self.table)

    def place(self, p: str) -> Place:
        """Where today's writers put this `p`."""
        spec = self.table.metadata.default_spec_id
        return spec, json.dumps([p]) if self.table.spec(spec).fields else "[]"

    def some_file(self) -> tuple[DataFileEntry, dict[int, Row]]:
        """A data file that shows rows: position -> row. Raises NothingToDo."""
        files = list(self.live.data)
        self.dice.shuffle(files)
        for file in files[:6]:
            if shown := self.shown_in(file):
                return file, shown
        raise NothingToDo("no file shows a row")

    def shown_in(self, file: DataFileEntry) -> dict[int, Row]:
        rows, found = self.rows, {}
        for position, version in enumerate(versions_in(self.table, file)):
            if version in rows:
                found[position] = rows[version]
        return found

    def pick(self, positions: Iterable[int]) -> list[int]:
        """A few of them."""
        found = sorted(positions)
        return sorted(self.dice.sample(found, min(len(found), self.dice.randint(1, MARKED))))

    # ---- what is made

    def new_rows(self, keys: Sequence[int | None], p: str, place: Place) -> list[Row]:
        top = max(number for number, _, _ in self.folder.columns)
        return [Row(next(self.versions), key, p, place, top) for key in keys]

    def key(self) -> int | None:
        return None if self.dice.random() < NULL_KEY else self.dice.randrange(KEYS)

    @property
    def writer(self) -> TableWriter:
        """Onto the table as this attempt has loaded it."""
        return TableWriter(self.jvm, lambda: self.java)

    def file(self, file: str | FileEntry) -> Any:
        return self.writer.java_file(self.java, file)

    def commit(self, pending: Any, change: Change, ref: str = MAIN) -> None:
        """Say what it means, wait as long as it takes, send it."""
        self.lineage.mean(self.marker, change)
        pending.set(MARKER, self.marker)
        pending.toBranch(ref)
        time.sleep(self.hold_s)
        pending.commit()


def append(turn: Turn, ref: str = MAIN) -> None:
    """One or two files of new rows."""
    texts, added = list[str](), list[Row]()
    for p in turn.dice.sample(turn.kind.partitions, turn.dice.randint(1, 2)):
        keys = [turn.key() for _ in range(turn.dice.randint(1, APPENDED))]
        rows = turn.new_rows(keys, p, turn.place(p))
        texts.append(turn.folder.rows(rows, rows[0].place))
        added += rows
    turn.commit(turn.writer.planned_append(*texts), Change(tuple(added)), ref)


def upsert(turn: Turn, ref: str = MAIN) -> None:
    """As a stream does it: equality deletes of some keys, and their new rows; sometimes no rows."""
    p = turn.dice.choice(turn.kind.partitions)
    place = turn.place(p)
    keys = {turn.key() for _ in range(turn.dice.randint(1, UPSERTED))}
    rows = turn.new_rows(sorted(keys, key=str), p, place) if turn.dice.random() < 0.85 else []
    added = [turn.folder.rows(rows, place)] if rows else []
    pending = turn.writer.planned_row_delta(added, [turn.folder.keys(keys, place)])
    turn.commit(pending, Change(tuple(rows), keys=frozenset(keys), place=place), ref)


def position_delete(turn: Turn) -> None:
    """A DELETE on merge-on-read: of one file, or one delete file for two of a partition. As an
    engine does it that loads the table with each statement: of a v3 table it writes vectors."""
    if turn.table.metadata.format_version > turn.kind.version:
        vector(turn)
        return
    file, shown = turn.some_file()
    chosen = {file: {at: shown[at] for at in turn.pick(shown)}}
    others = [one for one in turn.live.data if one.scope == file.scope and one != file]
    if others and turn.dice.random() < 0.4:
        other = turn.dice.choice(others)
        found = turn.shown_in(other)
        chosen[other] = {at: found[at] for at in turn.pick(found)} if found else {}
    marks = [(one.path, at) for one, picked in chosen.items() for at in picked]
    about = file.path if len(chosen) == 1 and turn.dice.random() < 0.7 else None
    text = turn.folder.positions(marks, (file.spec_id, file.partition), about)
    pending = _checked(turn, text, [one.path for one in chosen])
    killed = frozenset(row.version for picked in chosen.values() for row in picked.values())
    turn.commit(pending, Change(killed=killed))


def vector(turn: Turn) -> None:
    """The same in a v3 table: a file's new deletion vector holds the old one; where it may have
    position deletes from before it was v3, all that they can have said, for a reader looks at the
    vector alone."""
    file, shown = turn.some_file()
    chosen, said = turn.pick(shown), set[int]()
    if turn.table.metadata.format_version > turn.kind.version:
        said |= set(range(file.records)) - shown.keys()
    replaced = _vectors(turn.live.deletes, file)
    for old in replaced:
        offset, size = old.content_offset or 0, old.content_size or 0
        said |= vector_positions(turn.table, old.path, offset, size)
    pending = _checked(turn, turn.folder.vector(file, said | {*chosen}), [file.path], replaced)
    turn.commit(pending, Change(killed=frozenset(shown[at].version for at in chosen)))


def _vectors(deletes: Iterable[DeleteFileEntry], file: DataFileEntry) -> list[DeleteFileEntry]:
    return [
        one
        for one in deletes
        if one.kind is DeleteKind.DELETION_VECTOR and one.referenced_data_file == file.normal_path
    ]


def _checked(
    turn: Turn, text: str, paths: list[str], replaced: Sequence[DeleteFileEntry] = ()
) -> Any:
    """A row delta, checked as Spark checks a DELETE: its files must still be there, with no new
    deletes of others."""
    planned = turn.writer.planned_row_delta
    pending = planned((), [text], replaced, read_at=turn.head(), must_exist=paths)
    return pending.validateDeletedFiles()


def overwrite(turn: Turn) -> None:
    """INSERT OVERWRITE of a partition, or of everything where there are none."""
    p = turn.dice.choice(turn.kind.partitions)
    place = turn.place(p)
    rows = turn.new_rows([turn.key() for _ in range(turn.dice.randint(1, APPENDED))], p, place)
    make = turn.jvm.org.apache.iceberg.expressions.Expressions
    whole = place[1] == "[]"
    rule = make.alwaysTrue() if whole else make.equal("p", p)
    pending = turn.java.newOverwrite().overwriteByRowFilter(rule)
    pending.addFile(turn.file(turn.folder.rows(rows, place)))
    turn.commit(pending, Change(tuple(rows), cleared=EVERYTHING if whole else p))


def copy_on_write(turn: Turn) -> None:
    """A DELETE on copy-on-write: the file's other rows go into a new file."""
    file, shown = turn.some_file()
    killed = frozenset(shown[at].version for at in turn.pick(shown))
    left = [row for row in shown.values() if row.version not in killed]
    pending = turn.java.newOverwrite().deleteFile(turn.file(file))
    if left:
        pending.addFile(turn.file(turn.folder.rows(left, (file.spec_id, file.partition))))
    pending.validateFromSnapshot(turn.head())
    pending.conflictDetectionFilter(
        turn.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    )
    pending.validateNoConflictingDeletes()
    turn.commit(pending, Change(killed=killed))


def remove_file(turn: Turn) -> None:
    """A DELETE that takes whole files, with the rows that a rollback has brought back meanwhile."""
    file, _ = turn.some_file()
    pending = turn.java.newDelete().deleteFile(turn.file(file)).validateFilesExist()
    turn.commit(pending, Change(killed=frozenset(versions_in(turn.table, file))))


def expire(turn: Turn) -> None:
    """Snapshots go, and what only they had; also those that tasks have started from."""
    age_ms = turn.dice.choice([0, 5_000, 15_000])
    now_ms = int(time.time() * 1000)
    turn.java.expireSnapshots().expireOlderThan(now_ms - age_ms).retainLast(1).commit()


def rollback(turn: Turn) -> None:
    """Main goes back by one to four snapshots."""
    past = [one.snapshot_id for one in turn.table.ancestors(turn.head())][1:5]
    if not past:
        raise NothingToDo("no ancestor is retained")
    turn.java.manageSnapshots().rollbackTo(turn.dice.choice(past)).commit()


def branch_write(turn: Turn) -> None:
    """An append or an upsert on a branch, which is made where there is none."""
    if AUDIT not in turn.table.metadata.refs:
        turn.java.manageSnapshots().createBranch(AUDIT, turn.head()).commit()
    turn.dice.choice([append, upsert])(turn, AUDIT)


def fast_forward(turn: Turn) -> None:
    """Main is moved onto the branch; set to it where it has gone another way."""
    if AUDIT not in turn.table.metadata.refs:
        raise NothingToDo("no branch")
    head, branch = turn.head(), turn.head(AUDIT)
    ahead = head in {one.snapshot_id for one in turn.table.ancestors(branch)}
    manage = turn.java.manageSnapshots()
    if ahead:
        manage.fastForwardBranch(MAIN, AUDIT).commit()
    else:
        manage.setCurrentSnapshot(branch).commit()


def drop_branch(turn: Turn) -> None:
    if AUDIT not in turn.table.metadata.refs:
        raise NothingToDo("no branch")
    turn.java.manageSnapshots().removeBranch(AUDIT).commit()


def schema(turn: Turn) -> None:
    """A column comes, goes, gets another name, or becomes wider."""
    fields, change = turn.table.schema.fields, turn.java.updateSchema()
    spare = [one for one in fields if one.field_id > 3]
    types = turn.jvm.org.apache.iceberg.types.Types
    narrow = next((one.name for one in spare if str(one.field_type) == "int"), None)
    what = turn.dice.choice(["add", "add", "drop", "rename", "widen"])
    if what == "add" and len(fields) < MOST_COLUMNS:
        change.addColumn(f"c{next(turn.versions)}", types.LongType.get())
    elif what == "drop" and spare:
        change.deleteColumn(turn.dice.choice(spare).name)
    elif what == "widen" and narrow is not None:
        change.updateColumn(narrow, types.LongType.get())
    elif spare:
        change.renameColumn(turn.dice.choice(spare).name, f"r{next(turn.versions)}")
    else:
        raise NothingToDo("no column to change")
    change.commit()


def spec(turn: Turn) -> None:
    """Partitioned from now on, or not any more."""
    fields = turn.table.spec(turn.table.metadata.default_spec_id).fields
    change = turn.java.updateSpec()
    (change.removeField("p") if fields else change.addField("p")).commit()


WRITES: dict[str, Callable[[Turn], None]] = {
    "append": append,
    "upsert": upsert,
    "position_delete": position_delete,
    "vector": vector,
    "overwrite": overwrite,
    "copy_on_write": copy_on_write,
    "remove_file": remove_file,
    "expire": expire,
    "rollback": rollback,
    "branch_write": branch_write,
    "fast_forward": fast_forward,
    "drop_branch": drop_branch,
    "schema": schema,
    "spec": spec,
}
