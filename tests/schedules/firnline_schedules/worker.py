"""A right worker, one row at a time: plans at the head, writes outputs and a row map.

And wrong ones, for the guards that no right worker ever meets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from firnline_deletes.deletes import row_map
from firnline_domain.identity import Scope
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.scan.planning import PlannedFile
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.write_format import SchemaChecksums

from firnline_schedules.rows import MAIN, Row
from firnline_schedules.table import Mark, Table

ROWS_PER_OUTPUT = 2  # so that most groups write several files
MERGED = 2  # files of a merge


@dataclass(frozen=True)
class Wrong:
    """What a wrong worker does otherwise."""

    skips_deletes: bool = False  # applies no equality delete
    loses_a_row: bool = False
    foreign_place: tuple[int, str] | None = None  # of its outputs
    number: int | None = None  # data sequence number that it gives its outputs


RIGHT = Wrong()


@dataclass(frozen=True)
class Order:
    """What to rewrite: a scope, whole or its oldest files alone (merge); or all but the oldest
    file, which is converted."""

    scope: Scope
    groups: int = 1
    merge: bool = False
    converts: bool = False


def rewrite(table: Table, task: str, order: Order, wrong: Wrong = RIGHT) -> RewriteFinished:
    """Files named `firnline-`, as the product's are. Nothing is committed."""
    start = table.loaded.head(MAIN)
    live = table.live()
    planned = sorted(live.files_of_scope(order.scope), key=lambda one: one.data.sequence_number)
    chosen = planned[:MERGED] if order.merge else planned
    newest = max(one.data.sequence_number for one in chosen)
    number = newest if order.merge else start.sequence_number or 0
    run = _Run(table, task, number if wrong.number is None else wrong.number, wrong)
    files = [run.applied(one) for one in chosen]
    return run.finished(files, order, start.snapshot_id)


@dataclass
class _Run:
    table: Table
    task: str
    number: int
    wrong: Wrong

    @property
    def own(self) -> TaskRun:
        """What names its files."""
        return TaskRun(self.table.name.uuid, self.task, 1, "cafe0000")

    def applied(self, planned: PlannedFile) -> PlannedFile:
        """With the deletes up to the output's number alone, and all position deletes and vectors
        (unapplied-delete hazard, H2)."""
        kept = (
            delete
            for delete in planned.deletes
            if delete.kind is not DeleteKind.EQUALITY
            or (delete.sequence_number <= self.number and not self.wrong.skips_deletes)
        )
        return PlannedFile(planned.data, tuple(kept))

    def marked(self, planned: PlannedFile) -> list[int]:
        marks: list[Mark] = [
            mark
            for delete in planned.deletes
            if delete.kind is not DeleteKind.EQUALITY
            for mark in self.table.marks_of(delete)
        ]
        return sorted({position for path, position in marks if path == planned.data.path})

    def keep(self, planned: PlannedFile) -> list[bool]:
        marked = set(self.marked(planned))
        keys = {key for one in planned.deletes for key in self.table.memory.keys.get(one.path, ())}
        rows = self.table.memory.data[planned.data.path]
        return [n not in marked and row.key not in keys for n, row in enumerate(rows)]

    def survivors(self, planned: PlannedFile) -> list[Row]:
        rows = self.table.memory.data[planned.data.path]
        return [row for row, kept in zip(rows, self.keep(planned), strict=True) if kept]

    def finished(self, files: Sequence[PlannedFile], order: Order, start: int) -> RewriteFinished:
        deletes = {one.key: one for file in files for one in file.deletes}
        kept = files[:1] if order.converts else []
        moved = files[len(kept) :]
        parts = [moved[n :: order.groups] for n in range(order.groups)]
        groups = [self.group(part, n) for n, part in enumerate(parts) if part]
        groups += [self.conversion(one) for one in kept]
        return RewriteFinished(
            task_id=self.task, table=self.table.name, ref=MAIN, scope=order.scope,
            attempt=1, worker="w", mode=Mode.NATIVE, start_snapshot_id=start,
            start_sequence_number=self.number, schema_id=0, groups=tuple(groups),
            applied_deletes=tuple(
                AppliedDelete(d.path, d.kind, d.sequence_number, d.scope, d.equality_ids)
                for d in deletes.values()
            ),
            output_list=self.written(self.own.list_name, b"{}"), ordered_at_ms=1, started_at_ms=2,
            first_byte_at_ms=3, finished_at_ms=4, row_map=self.row_map(moved, kept),
            format_version=self.table.kind.version, last_column_id=3,
            schema_checksum=SchemaChecksums(self.table.loaded.metadata)[0],
        )  # fmt: skip

    def written(self, name: str, data: bytes) -> str:
        path = f"{folder_of(self.table.loaded.metadata_location)}/{name}"
        self.table.ground.storage.put(path, data)
        return path

    def conversion(self, one: PlannedFile) -> RewriteGroup:
        rows, dead = one.data.records, self.keep(of_equality(one)).count(False)
        return RewriteGroup((_input(one.data),), (), rows, dead, rows - dead, converts=True)

    def row_map(self, files: Sequence[PlannedFile], kept: Sequence[PlannedFile]) -> str:
        masked, sink = row_map.MaskedRows(), BytesIO()
        for one in (*files, *map(of_equality, kept)):
            masked.add_group(one.data.path, 0, np.array(self.keep(one), dtype=np.bool_))
        marked = {one.data.path: np.array(self.marked(one), dtype=np.int64) for one in files}
        row_map.write_map(sink, masked.to_blobs(), marked)
        return self.written(self.own.row_map_name, sink.getvalue())

    def group(self, files: Sequence[PlannedFile], number: int) -> RewriteGroup:
        rows = [row for one in files for row in self.survivors(one)]
        rows = rows[:-1] if self.wrong.loses_a_row else rows
        cuts = [rows[n : n + ROWS_PER_OUTPUT] for n in range(0, len(rows), ROWS_PER_OUTPUT)]
        total = sum(one.data.records for one in files)
        masked = sum(self.keep(one).count(False) for one in files)
        return RewriteGroup(
            tuple(_input(one.data) for one in files),
            tuple(self.output(cut, number) for cut in cuts),
            total,
            masked,
            len(rows),
        )

    def output(self, rows: Sequence[Row], group: int) -> OutputFile:
        name = self.own.output_name(group, self.table.memory.files)
        text = self.table.data_file(rows, name)
        body: dict[str, Any] = json.loads(text)
        if self.wrong.foreign_place is not None:
            spec_id, partition = self.wrong.foreign_place
            text = json.dumps({**body, "spec-id": spec_id, "partition": json.loads(partition)})
        return OutputFile(body["file-path"], len(rows), body["file-size-in-bytes"], text)


def of_equality(one: PlannedFile) -> PlannedFile:
    """With its equality deletes alone."""
    deletes = (delete for delete in one.deletes if delete.kind is DeleteKind.EQUALITY)
    return PlannedFile(one.data, tuple(deletes))


def _input(file: DataFileEntry) -> InputFile:
    return InputFile(file.path, file.sequence_number, file.records, file.bytes)
