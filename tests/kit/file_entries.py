"""Files of a head, and the plan that the worker makes of them."""

from __future__ import annotations

from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus
from firnline_iceberg.scan.planning import LiveFiles
from firnline_worker.plan.planning import ANY_SPAN, plan
from firnline_worker.plan.slices import ANY_SIZE

TARGET = 800


def entry(
    path: str, sequence: int, size: int, partition: str, added: int | None = None
) -> dict[str, object]:
    return {
        "path": path,
        "manifest_path": "m",
        "status": EntryStatus.ADDED,
        "snapshot_id": 1,
        "sequence_number": sequence,
        "file_sequence_number": sequence if added is None else added,
        "spec_id": 0,
        "partition": partition,
        "format": "PARQUET",
        "records": 10,
        "bytes": size,
    }


def data(
    path: str,
    sequence: int = 1,
    size: int = 500,
    partition: str = "[1]",
    added: int | None = None,
) -> DataFileEntry:
    return DataFileEntry(**entry(path, sequence, size, partition, added))


def delete(path: str, sequence: int, partition: str = "[1]") -> DeleteFileEntry:
    made = entry(path, sequence, 9, partition)
    return DeleteFileEntry(**made, kind=DeleteKind.EQUALITY, equality_ids=(1,))


def planned(
    files,
    deletes=(),
    scope="[1]",
    action=Action.COMPACT,
    limit=ANY_SPAN,
    ratio=None,
    slice_limit=ANY_SIZE,
):
    live = LiveFiles(1, tuple(files), tuple(deletes))
    if ratio is None:
        ratio = 0.0 if action == Action.COMPACT else 1.0
    return plan(live, Scope(0, scope), TARGET, action, limit, ratio, slice_limit)


def paths(groups):
    return ["".join(file.path for file in group) for group in groups]
