"""From a plan's delete files to the published sets that its groups map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firnline_deletes import delete_set, positions
from firnline_deletes.files import SequencedFile
from firnline_deletes.spilling import build_parts
from firnline_deletes.vectors import Vector, located
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.files import DeleteFileEntry, FileEntry
from firnline_iceberg.tables import LoadedTable

from firnline_worker.columns import key_fields
from firnline_worker.planning import Plan
from firnline_worker.set_sizes import set_bytes
from firnline_worker.shelf import Shelf
from firnline_worker.stage import opener

_POSITIONS = "positions.arrow"


@dataclass(frozen=True)
class Published:
    """Files on the shelf; each is there as long as the `published` block runs.

    `together`: all sets fit in memory; else they are probed one after the other.
    """

    set_paths: tuple[str, ...]
    positions_path: str | None
    together: bool

    def marked(self, plan: Plan) -> dict[str, positions.Positions]:
        """By path of the input: the rows that position deletes and vectors name."""
        if self.positions_path is None:
            return {}
        found = positions.open_mapped(Path(self.positions_path), normal_path)
        return {file.path: found.of(file.path) for file in plan.inputs}


@contextmanager
def published(
    shelf: Shelf, table: LoadedTable, plan: Plan, budget_bytes: int
) -> Iterator[Published]:
    """Build what nobody has built, or wait for who is at it. Raises Refused.

    Building holds about four times a part in memory, so a part is at most a quarter of the budget.
    """
    groups = equality_sets(plan.deletes)
    sizes = {key: set_bytes(table, deletes) for key, deletes in groups.items()}
    part_bytes = max(1, budget_bytes // 4)
    with ExitStack() as held:
        paths: list[Path] = []
        for key, deletes in groups.items():
            parts = -(-sizes[key] // part_bytes) or 1
            paths += held.enter_context(_equality(shelf, table, key, deletes, parts))
        marks = [d for d in plan.deletes if d.kind is not DeleteKind.EQUALITY]
        where = held.enter_context(_positions(shelf, table, marks, plan)) if marks else None
        yield Published(
            tuple(str(path) for path in paths),
            str(where) if where else None,
            sum(sizes.values()) <= budget_bytes,
        )


SetKey = tuple[Scope, tuple[int, ...]]


def equality_sets(
    deletes: Sequence[DeleteFileEntry],
) -> dict[SetKey, list[DeleteFileEntry]]:
    """One set per (partition or global scope, equality ids): a later delete of a key subsumes an
    earlier one only within these (iceberg-rules 4.1)."""
    found: dict[SetKey, list[DeleteFileEntry]] = defaultdict(list)
    for delete in deletes:
        if delete.kind is DeleteKind.EQUALITY:
            found[delete.scope, delete.equality_ids].append(delete)
    return dict(found)


@contextmanager
def _equality(
    shelf: Shelf,
    table: LoadedTable,
    key: SetKey,
    deletes: Sequence[DeleteFileEntry],
    parts: int,
) -> Iterator[list[Path]]:
    scope, ids = key
    keys, files = key_fields(table, ids), sequenced(deletes)
    name = f"{delete_set.identity(_name(table, scope), keys, files)}-{parts}"

    def write(folder: Path) -> None:
        build_parts(files, keys, opener(table.io), folder, parts)

    with shelf.holding(name, write) as folder:
        yield sorted(folder.iterdir())


@contextmanager
def _positions(
    shelf: Shelf, table: LoadedTable, marks: Sequence[DeleteFileEntry], plan: Plan
) -> Iterator[Path]:
    data, vectors = sequenced(plan.inputs), _vectors(marks)
    files = sequenced([mark for mark in marks if mark.kind is DeleteKind.POSITION])
    name = positions.identity(table.identity.uuid, data, files, vectors)

    def write(folder: Path) -> None:
        found = positions.build(files, data, opener(table.io), normal_path, vectors)
        found.write(folder / _POSITIONS)

    with shelf.holding(name, write) as folder:
        yield folder / _POSITIONS


def _vectors(marks: Sequence[DeleteFileEntry]) -> tuple[Vector, ...]:
    """Those of `marks` that are deletion vectors. Refused: unreadable_vector."""
    return tuple(located(mark) for mark in marks if mark.kind is DeleteKind.DELETION_VECTOR)


def sequenced(files: Sequence[FileEntry]) -> tuple[SequencedFile, ...]:
    """As the kernel wants them."""
    return tuple(
        SequencedFile(
            file.path, file.sequence_number, file.records, getattr(file, "first_row_id", None)
        )
        for file in files
    )


def _name(table: LoadedTable, scope: Scope) -> str:
    return f"{table.identity.uuid}/{scope.spec_id}/{scope.partition}"
