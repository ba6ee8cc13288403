"""A table with writers, and a right worker for it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import RewriteFinished, RewriteGroup
from firnline_iceberg.outputs import conversion_progress as mark_files
from firnline_iceberg.outputs.names import TaskRun
from firnline_worker.plan import conversion_progress as pass_marks
from firnline_worker.plan.slices import RemainingWork, slice_of

from tests.kit.lake.rows import Row
from tests.kit.lake.table import Table, read
from tests.kit.lake.worker import Rewrite
from tests.kit.lake.writer import local


@dataclass
class CommitScenario(Table):
    """What a committer's test begins with: `rewrite` or `convert` gives the result to commit."""

    work: Rewrite | None = None  # the last one

    def rewrite(
        self,
        p: str | None = None,
        groups: int = 1,
        number: int | None = None,
        ref: str = MAIN,
        task: str | None = None,
        attempt: int = 1,
        **more: Any,
    ) -> RewriteFinished:
        """Rewrite the scope's files up to a data sequence number (the start's by default)."""
        run = TaskRun(self.name.uuid, task or uuid.uuid4().hex, attempt, uuid.uuid4().hex[:8])
        self.work = Rewrite(self, run, self.scope(p), ref, groups, number, **more)
        return self.work.finish()

    def convert(self, *paths: str, p: str | None = None) -> RewriteFinished:
        """A rewrite of the scope that leaves these data files where they are."""
        return self.rewrite(p, converted=paths)

    def slice(self, *paths: str, after: Slice | None = None, left: int = 0) -> RewriteFinished:
        """A slice of a conversion: these files alone, with its marks; `left` more are to follow."""
        whole = self.convert(*paths)
        for output in conflicts.output_files(whole):
            local(output.path).unlink()
        groups = tuple(group for group in whole.groups if group.converts)
        start = whole.start_sequence_number
        order = RewriteFiles(
            task_id=whole.task_id, table=self.name, ref=MAIN, scope=whole.scope, action="convert",
            reason="equality_deletes", trigger_snapshot_id=1, attempt=1, ordered_at_ms=1,
            deadline_ms=1, after=after,
        )  # fmt: skip
        live = self.live_at(whole.start_snapshot_id)
        known = pass_marks.read_marks(self.loaded, order, live)
        marks = pass_marks.marks_after(order, start, live, known, groups)
        path = f"{self.loaded.metadata.location}/metadata/{self.run.marks_name}"
        stored = mark_files.write_marks(self.loaded.io, path, marks)
        done = slice_of(order, start, RemainingWork(left, left), stored)
        return replace(whole, groups=groups, slice=done)

    @property
    def run(self) -> TaskRun:
        """Of the last rewrite."""
        assert self.work is not None
        return self.work.run

    def output_path(self) -> str:
        """Of the last rewrite's next one."""
        assert self.work is not None
        return self.work.path()

    def unmasked(self, group: RewriteGroup) -> RewriteGroup:
        """The unpartitioned group as a worker makes it that applies nothing."""
        assert self.work is not None
        found = [row for file in group.inputs for row in read(file.path)]
        rows = [Row(row["v"], row["id"], row["p"], self.place()) for row in found]
        output = self.work.output(rows)
        return replace(group, outputs=(output,), rows_masked=0, rows_out=len(rows))


def file_names_of(result: RewriteFinished | None) -> set[str]:
    """Outputs and row map of a result."""
    if result is None:
        return set()
    paths = [*(one.path for one in conflicts.output_files(result)), result.row_map]
    return {path.rsplit("/", 1)[1] for path in paths if path is not None}
