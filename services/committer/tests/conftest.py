"""Results as a worker sends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import (
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)

Result = Callable[..., RewriteFinished]


@dataclass(frozen=True)
class Defaults:
    task: str = "task"
    table: str = "uuid-a"
    inputs: tuple[str, ...] = ("file:/in",)
    mode: Mode = Mode.NATIVE
    committed: int | None = None
    reason: str | None = None
    batch_size: int = 1
    took_ms: int = 2


@pytest.fixture
def result() -> Result:
    """`result(task=..., table=uuid, inputs=..., mode=..., committed=..., reason=...,
    batch_size=..., took_ms=...)`."""

    def make(**given: object) -> RewriteFinished:
        one = Defaults(**given)  # type: ignore[arg-type]
        inputs = tuple(InputFile(path, 1, 2, 100) for path in one.inputs)
        rows = 2 * len(inputs)
        outputs = (OutputFile(f"file:/{one.task}", rows, 60, "{}"),)
        groups = (RewriteGroup(inputs, outputs, rows, 0, rows),) if inputs else ()
        return RewriteFinished(
            task_id=one.task, table=TableName(one.table, ("ns",), "t"), ref="main",
            scope=Scope(0, "[]"), attempt=1, worker="w", mode=one.mode, start_snapshot_id=7,
            start_sequence_number=1, schema_id=0, groups=groups, applied_deletes=(),
            output_list=None, ordered_at_ms=1, started_at_ms=2, first_byte_at_ms=3,
            finished_at_ms=2 + one.took_ms, handover_reason=one.reason,
            committed_snapshot_id=one.committed, batch_size=one.batch_size,
            format_version=2, last_column_id=3,
        )  # fmt: skip

    return make
