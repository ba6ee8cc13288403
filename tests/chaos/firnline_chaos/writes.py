"""Kinds of writes: each draws its targets from the table as it was loaded, for a step of
`tests.kit.lake.steps`."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from firnline_domain.identity import MAIN
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_chaos.tables import Kind
from tests.kit.lake import steps
from tests.kit.lake.rows import Lineage, Place, Row
from tests.kit.lake.steps import Planned
from tests.kit.lake.table import Columns, Table

AUDIT = "audit"
KEYS = 300  # different keys of a table
NULL_KEY = 0.03  # share of rows without a key
APPENDED, UPSERTED, MARKED = 40, 15, 6  # rows, at most
MOST_COLUMNS = 8


class NothingToDo(Exception):
    """The table has nothing that such a write could be about."""


class Turn(Table):
    """One attempt at one write, on the table as it was when the attempt began."""

    def __init__(
        self,
        jvm: Any,
        java: Any,
        loaded: LoadedTable,
        kind: Kind,
        lineage: Lineage,
        marker: str,
        dice: random.Random,
        versions: Iterator[int],
        hold_s: float,
    ) -> None:
        """`hold_s`: between planning and commit, as a long statement takes."""
        super().__init__(jvm, None, None, loaded.identity, lineage=lineage)
        self._java, self._loaded = java, loaded
        self.kind, self.marker, self.dice = kind, marker, dice
        self.versions, self.hold_s = versions, hold_s

    @property
    def java(self) -> Any:
        return self._java

    @property
    def loaded(self) -> LoadedTable:
        return self._loaded

    @property
    def columns(self) -> Columns:
        return [(one.field_id, one.name, str(one.field_type)) for one in self.loaded.schema.fields]

    def new_path(self, name: str = "") -> str:
        return super().new_path(f"w-{name or f'{uuid.uuid4().hex}.parquet'}")

    def send(self, planned: Planned) -> None:
        time.sleep(self.hold_s)
        planned.send(self.lineage, self.marker)

    # ---- what there is

    def head_of(self, ref: str = MAIN) -> int:
        """Raises NothingToDo where there is none."""
        found = self.loaded.head_id(ref)
        if found is None:
            raise NothingToDo(f"no {ref}")
        return found

    @cached_property
    def live_on_main(self) -> LiveFiles:
        return self.live_at(self.head_of())

    def live(self, ref: str = MAIN) -> LiveFiles:
        return self.live_on_main if ref == MAIN else super().live(ref)

    @cached_property
    def visible(self) -> dict[int, Row]:
        """What main shows, by version."""
        return {row.version: row for row in self.lineage.rows(self.head_of())}

    def today(self, p: str) -> Place:
        """Where today's writers put this `p`."""
        spec = self.loaded.metadata.default_spec_id
        return spec, json.dumps([p]) if self.loaded.spec(spec).fields else "[]"

    def some_file(self) -> tuple[DataFileEntry, dict[int, Row]]:
        """A data file that shows rows: position -> row. Raises NothingToDo."""
        files = list(self.live_on_main.data)
        self.dice.shuffle(files)
        for file in files[:6]:
            if shown := self.shown_in(file):
                return file, shown
        raise NothingToDo("no file shows a row")

    def shown_in(self, file: DataFileEntry) -> dict[int, Row]:
        visible, rows = self.visible, enumerate(self.rows_in(file))
        return {at: visible[row.version] for at, row in rows if row.version in visible}

    def pick(self, positions: Iterable[int]) -> list[int]:
        """A few of them."""
        found = sorted(positions)
        return sorted(self.dice.sample(found, min(len(found), self.dice.randint(1, MARKED))))

    # ---- what is made

    def new_rows(self, keys: Sequence[int | None], p: str) -> list[Row]:
        top, place = max(number for number, _, _ in self.columns), self.today(p)
        return [Row(next(self.versions), key, p, place, top) for key in keys]

    def key(self) -> int | None:
        return None if self.dice.random() < NULL_KEY else self.dice.randrange(KEYS)

    def keys(self, most: int) -> list[int | None]:
        return [self.key() for _ in range(self.dice.randint(1, most))]


def append(turn: Turn, ref: str = MAIN) -> Planned:
    """One or two files of new rows."""
    chosen = turn.dice.sample(turn.kind.partitions, turn.dice.randint(1, 2))
    return steps.append(turn, *(turn.new_rows(turn.keys(APPENDED), p) for p in chosen), ref=ref)


def upsert(turn: Turn, ref: str = MAIN) -> Planned:
    """As a stream does it: equality deletes of some keys, and their new rows; sometimes no rows."""
    p, keys = turn.dice.choice(turn.kind.partitions), {*turn.keys(UPSERTED)}
    rows = turn.new_rows(sorted(keys, key=str), p) if turn.dice.random() < 0.85 else []
    return steps.upsert(turn, rows, keys, turn.today(p), ref)


def position_delete(turn: Turn) -> Planned:
    """A DELETE on merge-on-read: of one file, or one delete file for two of a partition. As an
    engine does it that loads the table with each statement: of a v3 table it writes vectors."""
    if turn.loaded.format_version > turn.kind.version:
        return vector(turn)
    file, shown = turn.some_file()
    dead = {file: turn.pick(shown)}
    others = [one for one in turn.live_on_main.data if one.scope == file.scope and one != file]
    if others and turn.dice.random() < 0.4:
        other = turn.dice.choice(others)
        found = turn.shown_in(other)
        dead[other] = turn.pick(found) if found else []
    about = file.path if len(dead) == 1 and turn.dice.random() < 0.7 else None
    return checked(steps.pos_delete(turn, dead, about, **guards(turn, *dead)))


def vector(turn: Turn) -> Planned:
    """The same in a v3 table: a file's new deletion vector holds the old one; where it may have
    position deletes from before it was v3, all that they can have said, for a reader looks at the
    vector alone."""
    file, shown = turn.some_file()
    upgraded = turn.loaded.format_version > turn.kind.version
    also = set(range(file.records)) - shown.keys() if upgraded else ()
    return checked(steps.dv(turn, file, turn.pick(shown), also, **guards(turn, file)))


def guards(turn: Turn, *files: DataFileEntry) -> dict[str, Any]:
    """As Spark checks a DELETE: its files must still be there."""
    return {"read_at": turn.head_of(), "must_exist": [one.path for one in files]}


def checked(planned: Planned) -> Planned:
    """With no new deletes of others."""
    return replace(planned, pending=planned.pending.validateDeletedFiles())


def overwrite(turn: Turn) -> Planned:
    """INSERT OVERWRITE of a partition, or of everything where there are none."""
    p = turn.dice.choice(turn.kind.partitions)
    rows = turn.new_rows(turn.keys(APPENDED), p)
    return steps.overwrite(turn, rows, None if rows[0].place[1] == "[]" else p)


def copy_on_write(turn: Turn) -> Planned:
    file, shown = turn.some_file()
    killed = frozenset(shown[at].version for at in turn.pick(shown))
    left = [row for row in shown.values() if row.version not in killed]
    return steps.copy_on_write(turn, file, killed, left)


def remove_file(turn: Turn) -> Planned:
    return steps.remove(turn, turn.some_file()[0], must_exist=True)


def expire(turn: Turn) -> Planned:
    """Snapshots go, and what only they had; also those that tasks have started from."""
    age_ms = turn.dice.choice([0, 5_000, 15_000])
    return steps.expire(turn, int(time.time() * 1000) - age_ms)


def rollback(turn: Turn) -> Planned:
    """Main goes back by one to four snapshots."""
    past = [one.snapshot_id for one in turn.loaded.ancestors(turn.head_of())][1:5]
    if not past:
        raise NothingToDo("no ancestor is retained")
    return steps.rollback(turn, turn.dice.choice(past))


def branch_write(turn: Turn) -> Planned:
    """An append or an upsert on a branch, which is made where there is none."""
    if AUDIT not in turn.loaded.metadata.refs:
        steps.branch(turn, AUDIT, turn.head_of()).send(turn.lineage)
    return turn.dice.choice([append, upsert])(turn, AUDIT)


def fast_forward(turn: Turn) -> Planned:
    """Main is moved onto the branch; set to it where it has gone another way."""
    has_branch(turn)
    turn.head_of()
    return steps.adopt(turn, AUDIT)


def drop_branch(turn: Turn) -> Planned:
    has_branch(turn)
    return steps.drop_ref(turn, AUDIT)


def has_branch(turn: Turn) -> None:
    """Raises NothingToDo."""
    if AUDIT not in turn.loaded.metadata.refs:
        raise NothingToDo("no branch")


def schema(turn: Turn) -> Planned:
    """A column comes, goes, gets another name, or becomes wider."""
    fields, change = turn.loaded.schema.fields, turn.java.updateSchema()
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
    return Planned(change)


WRITES: dict[str, Callable[[Turn], Planned]] = {
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
    "spec": steps.change_spec,
}
