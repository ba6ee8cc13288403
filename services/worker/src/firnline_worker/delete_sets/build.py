"""Builds the delete sets of a plan and publishes them as files that its groups map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firnline_deletes.deletes import delete_set, positions
from firnline_deletes.deletes.build import build_parts
from firnline_deletes.deletes.vectors import Vector, locate_vector
from firnline_deletes.files.parquet import SequencedFile
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DeleteFileEntry, FileEntry
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.types import BinaryType, DecimalType, IcebergType, StringType, UUIDType

from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.plan.columns import find_type, key_fields
from firnline_worker.plan.planning import Plan
from firnline_worker.spark.stage import file_opener

_POSITIONS = "positions.arrow"


@dataclass(frozen=True)
class Published:
    """Delete-set files in the cache; each exists as long as the `publish_sets` block runs.

    `together`: all sets fit in memory; else they are probed one after the other."""

    set_paths: tuple[str, ...]
    positions_path: str | None
    together: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """Return all paths, that of the positions last."""
        return (*self.set_paths, *filter(None, [self.positions_path]))

    def open_positions(self, plan: Plan) -> dict[str, positions.Positions]:
        """Return, by path of the input, the rows that position deletes and vectors name."""
        if self.positions_path is None:
            return {}
        found = positions.open_mapped(Path(self.positions_path), normal_path)
        return {file.path: found.positions_in(file.path) for file in plan.inputs}


@contextmanager
def publish_sets(
    cache: DeleteSetCache, table: LoadedTable, plan: Plan, budget_bytes: int
) -> Iterator[Published]:
    """Build the sets that no other task has built or builds, and keep all of them during the block.
    Raises Refused."""
    groups = equality_sets(plan.deletes)
    sizes = {key: set_bytes(table, deletes) for key, deletes in groups.items()}
    with ExitStack() as held:
        paths: list[Path] = []
        for key, deletes in groups.items():
            parts = _part_count(sizes[key], budget_bytes)
            paths += held.enter_context(_hold_equality_set(cache, table, key, deletes, parts))
        by_position = [d for d in plan.deletes if d.kind is not DeleteKind.EQUALITY]
        where = (
            held.enter_context(_hold_positions(cache, table, by_position, plan))
            if by_position
            else None
        )
        yield Published(
            tuple(str(path) for path in paths),
            str(where) if where else None,
            sum(sizes.values()) <= budget_bytes,
        )


def file_count(table: LoadedTable, plan: Plan, budget_bytes: int) -> int:
    """Return how many files `publish_sets` makes at most."""
    sizes = (set_bytes(table, deletes) for deletes in equality_sets(plan.deletes).values())
    return sum(_part_count(size, budget_bytes) for size in sizes) + 1


def _part_count(size: int, budget_bytes: int) -> int:
    """Return the number of parts. Building holds about four times a part in memory, so a part is at
    most a quarter of the budget."""
    return -(-size // max(1, budget_bytes // 4)) or 1


SetKey = tuple[Scope, tuple[int, ...]]


def equality_sets(
    deletes: Sequence[DeleteFileEntry],
) -> dict[SetKey, list[DeleteFileEntry]]:
    """Group deletes into one set per (partition or global scope, equality ids): a later delete of a
    key subsumes an earlier one only within these (iceberg-rules 2.1)."""
    found: dict[SetKey, list[DeleteFileEntry]] = defaultdict(list)
    for delete in deletes:
        if delete.kind is DeleteKind.EQUALITY:
            found[delete.scope, delete.equality_ids].append(delete)
    return dict(found)


@contextmanager
def _hold_equality_set(
    cache: DeleteSetCache,
    table: LoadedTable,
    key: SetKey,
    deletes: Sequence[DeleteFileEntry],
    parts: int,
) -> Iterator[list[Path]]:
    scope, ids = key
    keys, files = key_fields(table, ids), to_sequenced_files(deletes)
    name = f"{delete_set.delete_set_id(_scope_name(table, scope), keys, files)}-{parts}"

    def write(folder: Path) -> None:
        build_parts(files, keys, file_opener(table.io, files), folder, parts)

    with cache.hold(name, write) as folder:
        yield sorted(folder.iterdir())


@contextmanager
def _hold_positions(
    cache: DeleteSetCache, table: LoadedTable, by_position: Sequence[DeleteFileEntry], plan: Plan
) -> Iterator[Path]:
    data, vectors = to_sequenced_files(plan.inputs), _deletion_vectors(by_position)
    files = to_sequenced_files(
        [delete for delete in by_position if delete.kind is DeleteKind.POSITION]
    )
    name = positions.position_set_id(table.identity.key, data, files, vectors)

    def write(folder: Path) -> None:
        found = positions.build_position_set(
            files, data, file_opener(table.io, files), normal_path, vectors
        )
        found.write_to(folder / _POSITIONS)

    with cache.hold(name, write) as folder:
        yield folder / _POSITIONS


def _deletion_vectors(by_position: Sequence[DeleteFileEntry]) -> tuple[Vector, ...]:
    """Return those of `by_position` that are deletion vectors. Refused: unreadable_vector."""
    return tuple(
        locate_vector(delete) for delete in by_position if delete.kind is DeleteKind.DELETION_VECTOR
    )


def to_sequenced_files(files: Sequence[FileEntry]) -> tuple[SequencedFile, ...]:
    return tuple(
        SequencedFile(
            file.path,
            file.sequence_number,
            file.records,
            getattr(file, "first_row_id", None),
            file.bytes,
        )
        for file in files
    )


def _scope_name(table: LoadedTable, scope: Scope) -> str:
    return f"{table.identity.key}/{scope.spec_id}/{scope.partition}"


_SLOTS = 1.5  # a key, `firnline_deletes.columns.hash_table`
_SLOT_BYTES = 12  # index value and code
_WIDTHS: dict[type, int] = {StringType: 54, BinaryType: 54, UUIDType: 16, DecimalType: 16}


def set_bytes(table: LoadedTable, deletes: Iterable[DeleteFileEntry]) -> int:
    """Estimate the set of these equality deletes from above: every record a distinct key. Texts
    count as Iceberg estimates them, 54 bytes, or as many as they take in the file if that is
    more."""
    kinds: dict[tuple[int, ...], list[IcebergType | None]] = {}
    total = 0
    for delete in deletes:
        ids = delete.equality_ids
        if ids not in kinds:  # looks through every schema: once a set, not once a file
            kinds[ids] = [find_type(table, number) for number in ids]
        total += _key_bytes(kinds[ids], delete) * delete.records
    return total


def _key_bytes(kinds: list[IcebergType | None], delete: DeleteFileEntry) -> int:
    width = sum(_WIDTHS.get(type(kind), 8) for kind in kinds)
    stored = delete.bytes // max(1, delete.records)
    has_text = any(isinstance(kind, StringType | BinaryType) for kind in kinds)
    return int(_SLOTS * (_SLOT_BYTES + (max(width, stored) if has_text else width)))
