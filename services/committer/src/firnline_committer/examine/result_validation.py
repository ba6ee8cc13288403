"""Checks whether a worker can have made a result, before its outputs are committed. A process that
can write into the results' topic may name any file there is. A file goes into a table only under a
name that a run of this task gives, in the table's own locations, as the very file that its
description is of, and once. A removal requires the same names
(`firnline_iceberg.removal.removal`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from firnline_domain.commits.conflicts import output_files
from firnline_domain.identity import normal_path
from firnline_domain.records.results import OutputFile, RewriteFinished
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.outputs.names import TaskRun, run_of
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.locations import Locations


def first_flaw(at: PinnedHead, result: RewriteFinished) -> str | None:
    """Return the first claim in a result that no worker can have made; None if there is none."""
    return next(_find_flaws(at, result), None)


def _find_flaws(at: PinnedHead, result: RewriteFinished) -> Iterator[str]:
    key, locations = at.table.identity.key, Locations.from_table(at.table)
    files = list(output_files(result))
    marks = result.slice.marks if result.slice is not None else None
    named = (result.row_map, result.output_list, None if marks is None else marks.path)
    beside = [path for path in named if path is not None]
    runs = {
        path: run_of(key, result.task_id, file_name(path))
        for path in (*beside, *(file.path for file in files))
    }
    for path, run in runs.items():
        if run is None or run.attempt != result.attempt:
            yield f"{path} is not named for this attempt of the task on this table"
    if len({run.run for run in runs.values() if run is not None}) > 1:
        yield "its files are of several runs"
    for path in beside:
        found = runs[path]
        if not found or file_name(path) not in found.names_beside:
            yield f"{path} is no row map, no write-ahead list, and no file of marks"
        if not locations.is_beside_metadata(path):
            yield f"{path} is not next to the table's metadata files"
    seen: set[str] = set()
    for file in files:
        yield from _find_file_flaws(file, runs[file.path], locations)
        if file.path in seen or normal_path(file.path) in at.head.data:
            yield f"{file.path} is there already"
        seen.add(file.path)


def _find_file_flaws(file: OutputFile, run: TaskRun | None, locations: Locations) -> Iterator[str]:
    """Check one output; `conflicts.partition_kept` checks its spec and partition."""
    name = file_name(file.path)
    if run is None or not run.names_content(name) or "-deletes." in name:
        yield f"{file.path} has not the name of an output"
    if not locations.contains(file.path):
        yield f"{file.path} is not in the table's locations"
    try:
        body = json.loads(file.content_file_json, object_pairs_hook=_reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        yield f"{file.path} is described by no JSON: {error}"
        return
    said = {
        "file-path": file.path,
        "content": "data",
        "file-format": "parquet",
        "record-count": file.records,
        "file-size-in-bytes": file.bytes,
    }
    if not isinstance(body, dict) or not isinstance(body.get("spec-id"), int):
        yield f"{file.path} is described without a partition spec"
        return
    for key, value in said.items():
        found = body.get(key)
        if (found.lower() if key in _ANY_CASE and isinstance(found, str) else found) != value:
            yield f"{file.path} is described with {key} {found!r:.200}, not {value!r:.200}"


_ANY_CASE = ("content", "file-format")


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raises ValueError on a duplicate key: readers differ on which of
    two values counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found
