"""The steps of writers: each picks targets for a step of `tests.kit.lake.steps` from what the table
shows. A step without a target is no step of that state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry

from firnline_schedules.table import AUDIT, Gone, LabTable
from tests.kit.lake import steps
from tests.kit.lake.rows import MAIN, Place, Row
from tests.kit.lake.steps import Planned


@dataclass(frozen=True)
class Step:
    """`applies`: whether it does anything here. `versions`: of tables that know it."""

    plan: Callable[[LabTable], Planned]
    applies: Callable[[LabTable], bool]
    versions: frozenset[int] = frozenset({2, 3})
    partitioned: bool | None = None  # None: both

    def do(self, table: LabTable) -> None:
        table.send(self.plan(table))


def base(table: LabTable) -> None:
    """Where every schedule begins: in partition a an old file with a row under an equality delete
    and one under a position delete or vector, and a younger file; where there are partitions, one
    file in b."""
    place = (table.kind.scope.spec_id, table.kind.scope.partition)
    table.send(append(table, (1, 2, 3, 6), "a", place))
    table.send(steps.eq_delete(table, [1], place))
    table.send(append(table, (1, 4, 5), "a", place))
    if table.kind.partitioned:
        table.send(append(table, (1, 7), "b", (1, '["b"]')))
    table.send(mark(table, table.files_of()[0]))


# ---- rows come and go


def append(table: LabTable, keys: Sequence[int], p: str, place: Place | None = None) -> Planned:
    return steps.append(table, table.new_rows(keys, p, place or current_place(table, p)))


def current_place(table: LabTable, p: str) -> Place:
    """Of what a writer of today writes."""
    spec = table.loaded.metadata.default_spec_id
    return spec, f'["{p}"]' if table.loaded.spec(spec).fields else "[]"


def upsert(table: LabTable, ref: str = MAIN) -> Planned:
    """The newest row of partition a gets a new version."""
    old = visible(table, ref)[-1]
    return steps.upsert(
        table, table.new_rows([old.key or 0], "a", old.place), [old.key], old.place, ref
    )


def visible(table: LabTable, ref: str = MAIN) -> list[Row]:
    """Rows of partition a by age."""
    return sorted(row for row in table.meant(ref) if row.p == "a")


def delete_oldest_key(table: LabTable) -> Planned:
    row = visible(table)[0]
    return steps.eq_delete(table, [row.key], row.place)


def delete_everywhere(table: LabTable) -> Planned:
    """A global equality delete: of the unpartitioned spec 0."""
    return steps.eq_delete(table, [visible(table)[0].key, 7], (0, "[]"))


def delete_all_keys(table: LabTable) -> Planned:
    """Every row of partition a's place."""
    place = visible(table)[0].place
    return steps.eq_delete(table, {row.key for row in table.meant() if row.place == place}, place)


# ---- position deletes and vectors


def targets(table: LabTable, file: DataFileEntry) -> tuple[list[int], list[int]]:
    """Positions of the row to delete, and of one that is dead already."""
    rows, seen = table.rows_in(file), table.meant()
    living = [n for n, row in enumerate(rows) if row in seen]
    dead = [n for n, row in enumerate(rows) if row not in seen]
    return living[:1], dead[:1]


def mark(table: LabTable, file: DataFileEntry) -> Planned:
    """One row of one file: by a position-delete file, or by a vector that holds the old one."""
    living, dead = targets(table, file)
    if table.kind.version == 2:
        return steps.pos_delete(table, {file: [*living, *dead]}, file.path)
    return steps.dv(table, file, living, dead, read_at=table.head)


def merge_marks(table: LabTable) -> Planned:
    """A file's position deletes and a new one in one file, in their place."""
    file, old = table.files_of()[0], file_scoped(table)
    marks = {file: [*chain(*targets(table, file))]}
    return steps.pos_delete(table, marks, file.path, old, read_at=table.head)


def file_scoped(table: LabTable) -> list[DeleteFileEntry]:
    """Position-delete files of the oldest file alone."""
    file = table.files_of()[0]
    return [
        one
        for one in table.live().deletes
        if one.kind is DeleteKind.POSITION and one.referenced_data_file == file.normal_path
    ]


def mark_pair(table: LabTable) -> Planned:
    """One position-delete file of the whole partition, about its oldest and its newest file."""
    return steps.pos_delete(table, {file: [*chain(*targets(table, file))] for file in pair(table)})


def pair(table: LabTable) -> list[DataFileEntry]:
    """Oldest and newest file of the oldest one's place; one alone if there is no other."""
    files = [one for one in table.files_of() if one.scope == table.files_of()[0].scope]
    return [files[0], files[-1]] if len(files) > 1 else files


# ---- files and history


def parent(table: LabTable) -> int | None:
    loaded = table.loaded
    found = loaded.head(MAIN).parent_snapshot_id
    return found if found is not None and loaded.retains(found) else None


def write_branch(table: LabTable) -> Planned:
    """An upsert on a branch, made where there is none."""
    if AUDIT not in table.loaded.metadata.refs:
        table.send(steps.branch(table, AUDIT))
    return upsert(table, AUDIT)


def adoptable(table: LabTable) -> bool:
    refs = table.loaded.metadata.refs
    return AUDIT in refs and refs[AUDIT].snapshot_id != refs[MAIN].snapshot_id


def expire(table: LabTable) -> Planned:
    """All snapshots but the heads; their files are gone."""
    change = steps.expire(table, int(time.time() * 1000) + 60_000).pending
    return Planned(change.deleteWith(Gone(table.ground.storage.gone)))


def expirable(table: LabTable) -> bool:
    return len(table.loaded.snapshots) > len(table.loaded.metadata.refs)


def always(_: LabTable) -> bool:
    return True


def some_rows(table: LabTable) -> bool:
    return bool(visible(table))


def several_files(table: LabTable) -> bool:
    return len(table.files_of()) > 1


def first_spec(table: LabTable) -> bool:
    return table.loaded.metadata.default_spec_id == table.kind.scope.spec_id


V2, V3 = frozenset({2}), frozenset({3})
WRITERS: dict[str, Step] = {
    "append": Step(lambda t: append(t, (2, 8), "a"), always),
    "append.b": Step(lambda t: append(t, (1, 7), "b"), always, partitioned=True),
    "upsert": Step(upsert, some_rows),
    "eq": Step(delete_oldest_key, some_rows),
    "eq.all": Step(delete_all_keys, some_rows),
    "eq.global": Step(delete_everywhere, some_rows, partitioned=True),
    "pos": Step(lambda t: mark(t, t.files_of()[0]), some_rows, V2),
    "pos.young": Step(lambda t: mark(t, t.files_of()[-1]), several_files, V2),
    "pos.pair": Step(mark_pair, lambda t: some_rows(t) and len(pair(t)) > 1, V2),
    "pos.merge": Step(merge_marks, lambda t: some_rows(t) and bool(file_scoped(t)), V2),
    "dv": Step(lambda t: mark(t, t.files_of()[0]), some_rows, V3),
    "dv.young": Step(lambda t: mark(t, t.files_of()[-1]), several_files, V3),
    "remove": Step(lambda t: steps.remove(t, t.files_of()[0]), some_rows),
    "rollback": Step(lambda t: steps.rollback(t, parent(t) or 0), lambda t: parent(t) is not None),
    "branch": Step(write_branch, some_rows),
    "adopt": Step(lambda t: steps.adopt(t, AUDIT), adoptable),
    "spec": Step(steps.change_spec, first_spec),
    "column": Step(
        lambda t: steps.add_column(t, "extra"), lambda t: len(t.loaded.schema.fields) == 3
    ),
    "expire": Step(expire, expirable),
}
RACERS = ("append", "eq", "pos", "dv", "remove")
"""Writers that may come between the committer's look at the table and its request."""
