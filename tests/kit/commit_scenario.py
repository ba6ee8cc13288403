"""A table with writers, and a right worker for it that rewrites one row at a time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from firnline_deletes.deletes import row_map, vectors
from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.outputs import conversion_progress as mark_files
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.scan.planning import PlannedFile, live_files
from firnline_iceberg.table.write_format import SchemaChecksums
from firnline_worker.plan import conversion_progress as pass_marks
from firnline_worker.plan.slices import RemainingWork, slice_of

from tests.kit.scenario_table import Row, ScenarioTable, read
from tests.kit.table_writer import local


@dataclass
class CommitScenario(ScenarioTable):
    """What a committer's test begins with: `rewrite` or `convert` gives the result to commit."""

    run: TaskRun | None = None  # of the last rewrite
    written: int = 0  # outputs

    def rewrite(
        self,
        p: str | None = None,
        groups: int = 1,
        number: int | None = None,
        ref: str = MAIN,
        task: str | None = None,
        attempt: int = 1,
    ) -> RewriteFinished:
        """Rewrite the scope's files up to a data sequence number (the start's by default)."""
        table = self.loaded
        start = table.head(ref)
        number = number if number is not None else start.sequence_number or 0
        live = live_files(table, start.snapshot_id)
        files = [
            PlannedFile(one.data, tuple(d for d in one.deletes if applied_by(d, number)))
            for one in live.files_of_scope(self.scope(p))
            if one.data.sequence_number <= number
        ]
        deletes = {delete.key: delete for one in files for delete in one.deletes}
        name = task or uuid.uuid4().hex
        self.run = TaskRun(self.name.uuid, name, attempt, uuid.uuid4().hex[:8])
        made = [self._group(files[n::groups], p) for n in range(groups) if files[n::groups]]
        return RewriteFinished(
            task_id=name, table=self.name, ref=ref, scope=self.scope(p),
            attempt=attempt, worker="w", mode=Mode.NATIVE, start_snapshot_id=start.snapshot_id,
            start_sequence_number=number, schema_id=table.form.schema_id, groups=tuple(made),
            applied_deletes=tuple(
                AppliedDelete(d.path, d.kind, d.sequence_number, d.scope, d.equality_ids)
                for d in deletes.values()
            ),
            output_list=None, ordered_at_ms=1, started_at_ms=2, first_byte_at_ms=3,
            finished_at_ms=4, row_map=self._row_map(files),
            format_version=table.format_version, last_column_id=table.metadata.last_column_id,
            name_mapping=table.form.name_mapping,
            schema_checksum=SchemaChecksums(table.metadata)[table.form.schema_id],
        )  # fmt: skip

    def convert(self, *paths: str, p: str | None = None) -> RewriteFinished:
        """A rewrite of the scope that leaves these data files where they are."""
        whole = self.rewrite(p)
        live = live_files(self.loaded, whole.start_snapshot_id)
        files = live.files_of_scope(self.scope(p))
        kept = [one for one in files if one.data.path in paths]
        others = [one for one in files if one.data.path not in paths]
        groups = [self._group(others, p)] if others else []
        groups += [self._conversion(one) for one in kept]
        for output in conflicts.output_files(whole):
            local(output.path).unlink()
        path = self._row_map(others, kept)
        return replace(whole, groups=tuple(groups), row_map=path)

    def slice(self, *paths: str, after: Slice | None = None, left: int = 0) -> RewriteFinished:
        """A slice of a conversion: these files alone, with its marks; `left` more are to follow."""
        whole = self.convert(*paths)
        for output in conflicts.output_files(whole):
            local(output.path).unlink()
        start = whole.start_sequence_number
        order = RewriteFiles(
            task_id=whole.task_id, table=self.name, ref=MAIN, scope=whole.scope, action="convert",
            reason="equality_deletes", trigger_snapshot_id=1, attempt=1, ordered_at_ms=1,
            deadline_ms=1, after=after,
        )  # fmt: skip
        groups = tuple(group for group in whole.groups if group.converts)
        live = live_files(self.loaded, whole.start_snapshot_id)
        known = pass_marks.read_marks(self.loaded, order, live)
        marks = pass_marks.marks_after(order, start, live, known, groups)
        assert self.run is not None
        path = f"{self.loaded.metadata.location}/metadata/{self.run.marks_name}"
        stored = mark_files.write_marks(self.loaded.io, path, marks)
        done = slice_of(order, start, RemainingWork(left, left), stored)
        return replace(whole, groups=groups, slice=done)

    def output_path(self) -> str:
        """Of the last rewrite's next one."""
        assert self.run is not None
        self.written += 1
        return f"{self.loaded.metadata.location}/data/{self.run.output_name(0, self.written)}"

    def unmasked(self, group: RewriteGroup) -> RewriteGroup:
        """The unpartitioned group as a worker makes it that applies nothing."""
        rows = [(row["id"], row["v"]) for file in group.inputs for row in read(file.path)]
        output = self._output(rows, None)
        return replace(group, outputs=(output,), rows_masked=0, rows_out=len(rows))

    def _output(self, rows: Sequence[Row], p: str | None) -> OutputFile:
        body = json.loads(text := self.data(rows, p, self.output_path()))
        return OutputFile(body["file-path"], len(rows), body["file-size-in-bytes"], text)

    def _group(self, files: Sequence[PlannedFile], p: str | None) -> RewriteGroup:
        rows = [row for one in files for _, row in surviving(one)]
        outputs = (self._output(rows, p),) if rows else ()
        total = sum(one.data.records for one in files)
        inputs = tuple(_input(one) for one in files)
        return RewriteGroup(inputs, outputs, total, total - len(rows), len(rows))

    def _conversion(self, one: PlannedFile) -> RewriteGroup:
        records, dead = one.data.records, len(of_equality(one))
        return RewriteGroup((_input(one),), (), records, dead, records - dead, converts=True)

    def _row_map(self, files: Sequence[PlannedFile], converted: Sequence[PlannedFile] = ()) -> str:
        masked, marked = row_map.MaskedRows(), {}
        for one in files:
            kept = [position for position, _ in surviving(one)]
            keep = np.zeros(one.data.records, dtype=np.bool_)
            keep[kept] = True
            masked.add_group(one.data.path, 0, keep)
            marked[one.data.path] = np.array(sorted(deleted_by_position(one)), dtype=np.int64)
        for one in converted:
            keep = np.ones(one.data.records, dtype=np.bool_)
            keep[of_equality(one)] = False
            masked.add_group(one.data.path, 0, keep)
        assert self.run is not None
        path = f"{self.loaded.metadata.location}/metadata/{self.run.row_map_name}"
        with local(path).open("wb") as sink:
            row_map.write_map(sink, masked.to_blobs(), marked)
        return path


def _input(one: PlannedFile) -> InputFile:
    data = one.data
    return InputFile(data.path, data.sequence_number, data.records, data.bytes)


def applied_by(delete: Any, number: int) -> bool:
    """Whether outputs of this data sequence number have the delete applied."""
    return delete.kind is not DeleteKind.EQUALITY or delete.sequence_number <= number


def surviving(planned: PlannedFile) -> list[tuple[int, Row]]:
    """Living rows, each with its position."""
    ids = {
        row["id"] for d in planned.deletes if d.kind is DeleteKind.EQUALITY for row in read(d.path)
    }
    dead = deleted_by_position(planned)
    rows = enumerate(read(planned.data.path))
    return [(n, (r["id"], r["v"])) for n, r in rows if n not in dead and r["id"] not in ids]


def of_equality(planned: PlannedFile) -> list[int]:
    """Positions of the rows that equality deletes name."""
    deletes = tuple(one for one in planned.deletes if one.kind is DeleteKind.EQUALITY)
    kept = {position for position, _ in surviving(PlannedFile(planned.data, deletes))}
    return [position for position in range(planned.data.records) if position not in kept]


def deleted_by_position(planned: PlannedFile) -> set[int]:
    """Positions that position deletes or vectors name."""
    return {
        position
        for delete in planned.deletes
        if delete.kind is not DeleteKind.EQUALITY
        for position in named(delete, planned.data.path)
    }


def named(delete: DeleteFileEntry, data: str) -> list[int]:
    """Positions of a data file that a position delete or vector names."""
    if delete.kind is DeleteKind.POSITION:
        return [row["pos"] for row in read(delete.path) if row["file_path"] == data]
    offset, size = delete.content_offset or 0, delete.content_size or 0
    blob = local(delete.path).read_bytes()[offset : offset + size]
    return [int(one) for one in vectors.decode_positions(blob, delete.path)]


def file_names_of(result: RewriteFinished | None) -> set[str]:
    """Outputs and row map of a result."""
    if result is None:
        return set()
    paths = [*(one.path for one in conflicts.output_files(result)), result.row_map]
    return {path.rsplit("/", 1)[1] for path in paths if path is not None}
