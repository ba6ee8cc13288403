"""The steps of writers. Each picks its target from what the table shows, does it with Iceberg's own
API, and says what is to be seen afterwards. A step without a target is no step of that state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry

from firnline_schedules.rows import MAIN, Place, Row, without_keys
from firnline_schedules.table import AUDIT, Mark, Table


@dataclass(frozen=True)
class Step:
    """`applies`: whether it does anything here. `kinds`: of tables that know it."""

    do: Callable[[Table], None]
    applies: Callable[[Table], bool]
    versions: frozenset[int] = frozenset({2, 3})
    partitioned: bool | None = None  # None: both


def base(table: Table) -> None:
    """Where every schedule begins: in partition a an old file with a row under an equality delete
    and one under a position delete or vector, and a younger file; where there are partitions, one
    file in b."""
    place = (table.kind.scope.spec_id, table.kind.scope.partition)
    append(table, (1, 2, 3, 6), "a", place)
    delete_keys(table, [1], place)
    append(table, (1, 4, 5), "a", place)
    if table.kind.partitioned:
        append(table, (1, 7), "b", (1, '["b"]'))
    mark(table, table.files()[0])


# ---- rows come and go


def append(table: Table, keys: Sequence[int], p: str, place: Place) -> None:
    rows = table.new_rows(keys, p, place)
    table.writer.append(table.data_file(rows))
    table.landed(table.rows() | set(rows))


def current_place(table: Table, p: str = "a") -> Place:
    """Of what a writer of today writes."""
    spec = table.loaded.metadata.default_spec_id
    fields = table.loaded.spec(spec).fields
    return spec, f'["{p}"]' if fields else "[]"


def delete_keys(table: Table, keys: Sequence[int], place: Place) -> None:
    table.row_delta(delete=[table.key_file(keys, place)])
    table.landed(without_keys(table.rows(), keys, place))


def upsert(table: Table, ref: str = MAIN) -> None:
    """The newest row of partition a gets a new version."""
    old = newest(table, ref)
    (row,) = table.new_rows([old.key], "a", old.place)
    keys = table.key_file([old.key], old.place)
    table.row_delta([table.data_file([row])], [keys], ref)
    table.landed(without_keys(table.rows(ref), [old.key], old.place) | {row}, ref)


def shown(table: Table, ref: str = MAIN, p: str = "a") -> list[Row]:
    """Visible rows of a partition by age."""
    return sorted(row for row in table.rows(ref) if row.p == p)


def newest(table: Table, ref: str = MAIN) -> Row:
    return shown(table, ref)[-1]


def delete_oldest_key(table: Table) -> None:
    row = shown(table)[0]
    delete_keys(table, [row.key], row.place)


def delete_everywhere(table: Table) -> None:
    """A global equality delete: of the unpartitioned spec 0."""
    delete_keys(table, [shown(table)[0].key, 7], (0, "[]"))


def delete_all_keys(table: Table) -> None:
    """Every row of partition a's place."""
    place = shown(table)[0].place
    delete_keys(table, sorted({row.key for row in table.rows() if row.place == place}), place)


# ---- position deletes and vectors


def targets(table: Table, file: DataFileEntry) -> tuple[Row, list[int]]:
    """The row to delete, and positions to name: its own, and one that is dead already."""
    rows, seen = table.memory.data[file.path], table.rows()
    living = [n for n, row in enumerate(rows) if row in seen]
    dead = [n for n, row in enumerate(rows) if row not in seen]
    return rows[living[0]], sorted([living[0], *dead[:1]])


def mark(table: Table, file: DataFileEntry) -> None:
    """One row of one file: by a position-delete file, or by a vector that holds the old one."""
    row, positions = targets(table, file)
    if table.kind.version == 2:
        marks: list[Mark] = [(file.path, one) for one in positions]
        place = (file.spec_id, file.partition)
        table.row_delta(delete=[table.position_file(marks, place, file.path)])
    else:
        old = [one for one in table.live().deletes if one.referenced_data_file == file.normal_path]
        said = {pos for one in old for _, pos in table.marks_of(one)}
        table.replace_deletes(table.vector_file(file, said | set(positions)), old)
    table.landed(table.rows() - {row})


def merge_marks(table: Table) -> None:
    """As Spark's DELETE does: a file's position deletes and a new one in one file, in their
    place."""
    file = table.files()[0]
    row, positions = targets(table, file)
    old = file_scoped(table)
    said = {mark for one in old for mark in table.marks_of(one)}
    marks = sorted(said | {(file.path, one) for one in positions})
    place = (file.spec_id, file.partition)
    table.replace_deletes(table.position_file(marks, place, file.path), old)
    table.landed(table.rows() - {row})


def file_scoped(table: Table) -> list[DeleteFileEntry]:
    """Position-delete files of the oldest file alone."""
    file = table.files()[0]
    return [
        one
        for one in table.live().deletes
        if one.kind is DeleteKind.POSITION and one.referenced_data_file == file.normal_path
    ]


def mark_pair(table: Table) -> None:
    """One position-delete file of the whole partition, about its oldest and its newest file."""
    old, young = pair(table)
    found = [(file, targets(table, file)) for file in (old, young)]
    marks = [(file.path, one) for file, (_, positions) in found for one in positions]
    table.row_delta(delete=[table.position_file(marks, (old.spec_id, old.partition), None)])
    table.landed(table.rows() - {row for _, (row, _) in found})


def pair(table: Table) -> list[DataFileEntry]:
    """Oldest and newest file of the oldest one's place; one alone if there is no other."""
    files = [one for one in table.files() if one.scope == table.files()[0].scope]
    return [files[0], files[-1]] if len(files) > 1 else files


# ---- files and history


def remove(table: Table) -> None:
    """The oldest file."""
    file = table.files()[0]
    table.writer.delete(file)
    table.landed(table.rows() - set(table.memory.data[file.path]))


def parent(table: Table) -> int | None:
    loaded = table.loaded
    found = loaded.head(MAIN).parent_snapshot_id
    return found if found is not None and loaded.retains(found) else None


def roll_back(table: Table) -> None:
    """To the parent of the head."""
    back = parent(table)
    table.java.manageSnapshots().rollbackTo(back).commit()
    table.landed(table.memory.model.at[back or 0])


def write_branch(table: Table) -> None:
    """An upsert on a branch, made where there is none."""
    if AUDIT not in table.loaded.metadata.refs:
        table.java.manageSnapshots().createBranch(AUDIT).commit()
        table.landed(table.rows(), AUDIT)
    upsert(table, AUDIT)


def adopt_branch(table: Table) -> None:
    """Main is set to the branch's head: an ancestor of main's no more, as a rule."""
    head = table.loaded.head(AUDIT).snapshot_id
    table.java.manageSnapshots().setCurrentSnapshot(head).commit()
    table.landed(table.rows(AUDIT))


def adoptable(table: Table) -> bool:
    refs = table.loaded.metadata.refs
    return AUDIT in refs and refs[AUDIT].snapshot_id != refs[MAIN].snapshot_id


def change_spec(table: Table) -> None:
    """Partitioned from now on, or not any more."""
    change = table.java.updateSpec()
    (change.removeField("p") if table.kind.partitioned else change.addField("p")).commit()


def add_column(table: Table) -> None:
    long = table.jvm.org.apache.iceberg.types.Types.LongType.get()
    table.java.updateSchema().addColumn("extra", long).commit()


def always(_: Table) -> bool:
    return True


def some_rows(table: Table) -> bool:
    return bool(shown(table))


def first_spec(table: Table) -> bool:
    return table.loaded.metadata.default_spec_id == table.kind.scope.spec_id


V2, V3 = frozenset({2}), frozenset({3})
WRITERS: dict[str, Step] = {
    "append": Step(lambda t: append(t, (2, 8), "a", current_place(t)), always),
    "append.b": Step(
        lambda t: append(t, (1, 7), "b", current_place(t, "b")), always, partitioned=True
    ),
    "upsert": Step(upsert, some_rows),
    "eq": Step(delete_oldest_key, some_rows),
    "eq.all": Step(delete_all_keys, some_rows),
    "eq.global": Step(delete_everywhere, some_rows, partitioned=True),
    "pos": Step(lambda t: mark(t, t.files()[0]), some_rows, V2),
    "pos.young": Step(lambda t: mark(t, t.files()[-1]), lambda t: len(t.files()) > 1, V2),
    "pos.pair": Step(mark_pair, lambda t: some_rows(t) and len(pair(t)) > 1, V2),
    "pos.merge": Step(merge_marks, lambda t: some_rows(t) and bool(file_scoped(t)), V2),
    "dv": Step(lambda t: mark(t, t.files()[0]), some_rows, V3),
    "dv.young": Step(lambda t: mark(t, t.files()[-1]), lambda t: len(t.files()) > 1, V3),
    "remove": Step(remove, some_rows),
    "rollback": Step(roll_back, lambda t: parent(t) is not None),
    "branch": Step(write_branch, some_rows),
    "adopt": Step(adopt_branch, adoptable),
    "spec": Step(change_spec, first_spec),
    "column": Step(add_column, lambda t: len(t.loaded.schema.fields) == 3),
    "expire": Step(Table.expire, lambda t: len(t.loaded.snapshots) > len(t.memory.model.refs)),
}
RACERS = ("append", "eq", "pos", "dv", "remove")
"""Writers that may come between the committer's look at the table and its request."""
