"""Results as a worker leaves them on storage, with their write-ahead list; what lies about."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import LIST_SUFFIX, ROW_MAP_SUFFIX
from firnline_iceberg.outputs.write_ahead_list import OutputList

from tests.kit.lake.scenario import CommitScenario
from tests.kit.lake.writer import local


def now_ms() -> int:
    return int(time.time() * 1000)


def listed(
    table: CommitScenario, result: RewriteFinished, *spare: str, **more: Any
) -> RewriteFinished:
    """The result, with the write-ahead list that a worker writes before it begins."""
    names = [file.path for file in conflicts.output_files(result)]
    assert result.row_map is not None
    listing = OutputList(
        result.task_id, result.attempt, table.name.uuid, "w", now_ms(),
        (*names, *spare, result.row_map), **more,
    )  # fmt: skip
    path = result.row_map.removesuffix(ROW_MAP_SUFFIX) + LIST_SUFFIX
    write_ahead_list.write_list(table.loaded.io, path, listing)
    return replace(result, output_list=path)


def never_written(table: CommitScenario) -> str:
    return f"{table.loaded.metadata.location}/data/{table.run.output_name(7, 0)}"


def ours(table: CommitScenario) -> list[str]:
    """Lists and row maps that lie about."""
    root = local(table.loaded.metadata.location)
    return sorted(path.name for path in (root / "metadata").glob("firnline-*"))


def outputs(result: RewriteFinished) -> list[Path]:
    return [local(file.path) for file in conflicts.output_files(result)]


def started(table: CommitScenario, **more: Any) -> RewriteFinished:
    table.append((1, 1), (2, 1))
    table.append((3, 1), (4, 1))
    result: RewriteFinished = table.rewrite(**more)
    return result
