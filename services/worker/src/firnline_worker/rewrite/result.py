"""Builds `RewriteFinished`, the result of a rewrite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from firnline_domain.base.values import bound_amount, replace
from firnline_domain.commits.row_count_proof import checksum_text
from firnline_domain.identity import Scope
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.dead_rows import Histogram
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    KeyChecksums,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.removal.removal import shares_files
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.write_format import SchemaChecksums
from pyiceberg.table.snapshots import Snapshot

from firnline_worker.plan.planning import Plan
from firnline_worker.rewrite.outputs import TaskFiles
from firnline_worker.spark.java_api import JavaTable
from firnline_worker.spark.stage import GroupDone


@dataclass(frozen=True)
class TaskContext:
    """The common part of all results of a task."""

    order: RewriteFiles
    table: LoadedTable
    head: Snapshot
    worker: str
    clock: TaskClock


def native_result(
    task: TaskContext,
    groups: tuple[RewriteGroup, ...],
    deletes: Sequence[DeleteFileEntry],
    files: TaskFiles | None,
    at_ms: int,
    done: Slice | None,
    dead_rows: Histogram,
    key_bytes: int = 0,
) -> RewriteFinished:
    """Return a native result; no groups = there was nothing to do. `dead_rows`: in files that stay
    or are added; `key_bytes`: read of the files that were converted."""
    applied = tuple(_applied_delete(delete) for delete in deletes)
    result = _build_result(task, Mode.NATIVE, at_ms, groups, applied, files, dead_rows=dead_rows)
    rewritten = (file for group in groups if not group.converts for file in group.inputs)
    equality = (delete for delete in deletes if delete.kind is DeleteKind.EQUALITY)
    return replace(
        result,
        slice=done,
        bytes_read=bound_amount(
            sum(file.bytes for file in rewritten) + sum(one.bytes for one in deletes)
        ),
        key_bytes=key_bytes,
        delete_records=bound_amount(sum(delete.records for delete in equality)),
    )


def handed_over_result(
    task: TaskContext, reason: str, snapshot_id: int | None, at_ms: int
) -> RewriteFinished:
    """Return the result of Iceberg's own action; `snapshot_id` None = it found nothing to do."""
    return _build_result(
        task, Mode.HANDED_OVER, at_ms, handover_reason=reason, committed_snapshot_id=snapshot_id
    )


def _build_result(
    task: TaskContext,
    mode: Mode,
    at_ms: int,
    groups: tuple[RewriteGroup, ...] = (),
    applied: tuple[AppliedDelete, ...] = (),
    files: TaskFiles | None = None,
    handover_reason: str | None = None,
    committed_snapshot_id: int | None = None,
    dead_rows: Histogram = (),
) -> RewriteFinished:
    order, form = task.order, task.table.form
    return RewriteFinished(
        task_id=order.task_id,
        table=order.table,
        ref=order.ref,
        scope=order.scope,
        attempt=order.attempt,
        worker=task.worker,
        mode=mode,
        start_snapshot_id=task.head.snapshot_id,
        start_sequence_number=task.head.sequence_number or 0,
        schema_id=form.schema_id,
        groups=groups,
        applied_deletes=applied,
        output_list=files.list if files else None,
        row_map=files.row_map if files else None,
        ordered_at_ms=order.ordered_at_ms,
        started_at_ms=task.clock.started_ms,
        first_byte_at_ms=task.clock.first_byte_ms,
        finished_at_ms=at_ms,
        handover_reason=handover_reason,
        committed_snapshot_id=committed_snapshot_id,
        measures=dict(task.clock.seconds),
        batch_size=order.batch_size,
        format_version=form.format_version,
        last_column_id=form.last_column_id,
        name_mapping=form.name_mapping,
        sends_noted=files is not None and shares_files(task.table),
        schema_checksum=SchemaChecksums(task.table.metadata)[form.schema_id],
        dead_rows=dead_rows,
    )


def describe_group(
    java: JavaTable, scope: Scope, plan: Plan, done: GroupDone, proved: tuple[int, ...]
) -> RewriteGroup:
    """Return one group with its outputs described by Iceberg itself. `proved`: ids of its key
    columns."""
    if done.index >= len(plan.groups):
        return _conversion_group(plan.converted[done.index - len(plan.groups)], done)
    inputs = plan.groups[done.index]
    order_id = plan.sort_order_id if plan.sort_keys else _order_of(inputs)
    return RewriteGroup(
        inputs=tuple(_input_file(file) for file in inputs),
        outputs=tuple(
            OutputFile(file.path, file.rows, file.bytes, java.content_file(scope, file, order_id))
            for file in done.files
        ),
        rows_in=done.tally.rows_in,
        rows_masked=done.tally.rows_masked,
        rows_out=done.tally.rows_out,
        keys=_key_checksums(done, proved) if proved else None,
    )


def _conversion_group(file: DataFileEntry, done: GroupDone) -> RewriteGroup:
    tally = done.tally
    counts = (tally.rows_in, tally.rows_masked, tally.rows_out)
    return RewriteGroup((_input_file(file),), (), *counts, converts=True)


def _key_checksums(done: GroupDone, proved: tuple[int, ...]) -> KeyChecksums:
    keys, written = done.tally.keys, sum(file.keys for file in done.files)
    return KeyChecksums(
        proved, checksum_text(keys.read), checksum_text(keys.masked), checksum_text(written)
    )


def _order_of(inputs: Sequence[DataFileEntry]) -> int:
    """Return the sort order of an output: dropping rows keeps one file's order; several files in a
    row have none."""
    return inputs[0].sort_order_id or 0 if len(inputs) == 1 else 0


def _input_file(file: DataFileEntry) -> InputFile:
    return InputFile(file.path, file.sequence_number, file.records, file.bytes)


def _applied_delete(delete: DeleteFileEntry) -> AppliedDelete:
    return AppliedDelete(
        delete.path, delete.kind, delete.sequence_number, delete.scope, delete.equality_ids
    )


@dataclass
class TaskClock:
    """Times of one task, in ms since the epoch and in seconds by phase."""

    started_ms: int
    first_byte_ms: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Record the seconds since the last lap as those of the phase `name`."""
        now = time.monotonic()
        self.seconds[f"{name}_seconds"] = round(now - self._last, 3)
        self._last = now
