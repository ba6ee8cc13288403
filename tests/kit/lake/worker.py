"""A right worker, one row at a time: plans at the head, writes outputs and a row map.

And wrong ones, for the guards that no right worker ever meets."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
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
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.scan.planning import PlannedFile
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.write_format import SchemaChecksums

from tests.kit.lake.rows import MAIN, Row
from tests.kit.lake.table import Table


@dataclass(frozen=True)
class Wrong:
    """What a wrong worker does otherwise."""

    skips_deletes: bool = False  # applies no equality delete
    loses_a_row: bool = False
    foreign_place: tuple[int, str] | None = None  # of its outputs
    number: int | None = None  # data sequence number that it gives its outputs


RIGHT = Wrong()


@dataclass
class Rewrite:
    """One run of a task on a scope; nothing is committed. `number`: data sequence number of the
    outputs, the start's by default, and with `oldest` that of the youngest of them; `converted`:
    paths of files that stay, as their equality deletes become position deletes."""

    table: Table
    run: TaskRun
    scope: Scope
    ref: str = MAIN
    groups: int = 1
    number: int | None = None
    oldest: int | None = None  # files, of all
    converted: Collection[str] = ()
    rows_per_output: int = 1_000_000
    lists_outputs: bool = False
    wrong: Wrong = RIGHT
    written: int = 0  # outputs

    def finish(self) -> RewriteFinished:
        """Write, and give the result to commit."""
        loaded = self.table.loaded
        start = loaded.head(self.ref)
        found = self.table.live_at(start.snapshot_id).files_of_scope(self.scope)
        chosen = sorted(found, key=lambda one: one.data.sequence_number)[: self.oldest]
        number = start.sequence_number or 0
        if self.oldest is not None:
            number = max(one.data.sequence_number for one in chosen)
        elif self.number is not None:
            number = self.number
        chosen = [one for one in chosen if one.data.sequence_number <= number]
        self.number = number if self.wrong.number is None else self.wrong.number
        files = [self.applied(one) for one in chosen]
        deletes = {one.key: one for file in files for one in file.deletes}
        kept = [one for one in files if one.data.path in self.converted]
        moved = [one for one in files if one not in kept]
        parts = [moved[n :: self.groups] for n in range(self.groups)]
        made = [self.group(part, n) for n, part in enumerate(parts) if part]
        made += [self.conversion(one) for one in kept]
        output_list = self.store(self.run.list_name, b"{}") if self.lists_outputs else None
        return RewriteFinished(
            task_id=self.run.task_id, table=self.table.name, ref=self.ref, scope=self.scope,
            attempt=self.run.attempt, worker="w", mode=Mode.NATIVE,
            start_snapshot_id=start.snapshot_id, start_sequence_number=self.number,
            schema_id=loaded.form.schema_id, groups=tuple(made),
            applied_deletes=tuple(
                AppliedDelete(d.path, d.kind, d.sequence_number, d.scope, d.equality_ids)
                for d in deletes.values()
            ),
            output_list=output_list, ordered_at_ms=1, started_at_ms=2, first_byte_at_ms=3,
            finished_at_ms=4, row_map=self.row_map(moved, kept),
            format_version=loaded.format_version, last_column_id=loaded.metadata.last_column_id,
            name_mapping=loaded.form.name_mapping,
            schema_checksum=SchemaChecksums(loaded.metadata)[loaded.form.schema_id],
        )  # fmt: skip

    def applied(self, planned: PlannedFile) -> PlannedFile:
        """With the equality deletes up to the output's number alone, and all position deletes and
        vectors (unapplied-delete hazard, H2)."""
        return PlannedFile(planned.data, tuple(filter(self.applies, planned.deletes)))

    def applies(self, delete: DeleteFileEntry) -> bool:
        assert self.number is not None
        in_time = delete.sequence_number <= self.number and not self.wrong.skips_deletes
        return delete.kind is not DeleteKind.EQUALITY or in_time

    def marked(self, planned: PlannedFile) -> list[int]:
        """Positions that position deletes or vectors name."""
        deletes = [one for one in planned.deletes if one.kind is not DeleteKind.EQUALITY]
        marks = [mark for one in deletes for mark in self.table.marks_of(one)]
        named = (planned.data.path, planned.data.normal_path)
        return sorted({position for path, position in marks if path in named})

    def keep(self, planned: PlannedFile) -> list[bool]:
        """By position, whether the row lives."""
        marked = set(self.marked(planned))
        of_keys = [one for one in planned.deletes if one.kind is DeleteKind.EQUALITY]
        keys = {key for one in of_keys for key in self.table.keys_in(one)}
        rows = enumerate(self.table.rows_in(planned.data))
        return [n not in marked and row.key not in keys for n, row in rows]

    def survivors(self, planned: PlannedFile) -> list[Row]:
        rows = self.table.rows_in(planned.data)
        return [row for row, kept in zip(rows, self.keep(planned), strict=True) if kept]

    def group(self, files: Sequence[PlannedFile], number: int) -> RewriteGroup:
        rows = [row for one in files for row in self.survivors(one)]
        rows = rows[:-1] if self.wrong.loses_a_row else rows
        size = self.rows_per_output
        outputs = [self.output(rows[n : n + size], number) for n in range(0, len(rows), size)]
        total = sum(one.data.records for one in files)
        masked = sum(self.keep(one).count(False) for one in files)
        inputs = tuple(_input(one.data) for one in files)
        return RewriteGroup(inputs, tuple(outputs), total, masked, len(rows))

    def output(self, rows: Sequence[Row], group: int = 0) -> OutputFile:
        body: dict[str, Any] = json.loads(text := self.table.data_file(rows, self.path(group)))
        if self.wrong.foreign_place is not None:
            spec_id, partition = self.wrong.foreign_place
            text = json.dumps({**body, "spec-id": spec_id, "partition": json.loads(partition)})
        return OutputFile(body["file-path"], len(rows), body["file-size-in-bytes"], text)

    def path(self, group: int = 0) -> str:
        """Of the next output."""
        self.written += 1
        return self.table.new_path(self.run.output_name(group, self.written))

    def conversion(self, one: PlannedFile) -> RewriteGroup:
        rows, dead = one.data.records, self.keep(of_equality(one)).count(False)
        return RewriteGroup((_input(one.data),), (), rows, dead, rows - dead, converts=True)

    def row_map(self, files: Sequence[PlannedFile], kept: Sequence[PlannedFile]) -> str:
        masked, sink = row_map.MaskedRows(), BytesIO()
        for one in (*files, *map(of_equality, kept)):
            masked.add_group(one.data.path, 0, np.array(self.keep(one), dtype=np.bool_))
        marked = {one.data.path: np.array(self.marked(one), dtype=np.int64) for one in files}
        row_map.write_map(sink, masked.to_blobs(), marked)
        return self.store(self.run.row_map_name, sink.getvalue())

    def store(self, name: str, body: bytes) -> str:
        """A file beside the metadata."""
        path = f"{folder_of(self.table.loaded.metadata_location)}/{name}"
        self.table.store(path, body)
        return path


def of_equality(one: PlannedFile) -> PlannedFile:
    """With its equality deletes alone."""
    deletes = (delete for delete in one.deletes if delete.kind is DeleteKind.EQUALITY)
    return PlannedFile(one.data, tuple(deletes))


def _input(file: DataFileEntry) -> InputFile:
    return InputFile(file.path, file.sequence_number, file.records, file.bytes)
