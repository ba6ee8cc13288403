"""A result that names files that are not its task's, or not as it says, is told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_committer.examine.result_validation import first_flaw
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import InputFile, OutputFile, RewriteFinished
from firnline_iceberg.commit.pinned_head import PinnedHead, pin_head
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.scan.planning import live_files
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

TASK = "a" * 32


@pytest.fixture
def at(tmp_path: Path, result: Any) -> PinnedHead:
    """A table with one file, and no more."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("ns.tbl", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1]}))
    found = MemoryTables(catalog).load_named(("ns",), "tbl")
    (live,) = live_files(found, found.head_id("main")).data
    one = result(task=TASK)
    inputs = (InputFile(live.path, live.sequence_number, live.records, live.bytes),)
    named = replace(one, scope=live.scope, groups=(replace(one.groups[0], inputs=inputs),))
    return pin_head(found, "main", [named])


@pytest.fixture
def run(at: PinnedHead) -> TaskRun:
    return TaskRun(at.table.identity.uuid, TASK, 1, "cafe0000")


def output(path: str, rows: int = 2, size: int = 60, **said: Any) -> OutputFile:
    body = {
        "spec-id": 0, "content": "data", "file-path": path, "file-format": "parquet",
        "partition": [], "file-size-in-bytes": size, "record-count": rows, **said,
    }  # fmt: skip
    return OutputFile(path, rows, size, json.dumps(body))


def in_data(at: PinnedHead, name: str) -> str:
    return f"{at.table.metadata.location}/data/{name}"


def beside(at: PinnedHead, name: str) -> str:
    return f"{at.table.metadata.location}/metadata/{name}"


@pytest.fixture
def honest(at: PinnedHead, run: TaskRun, result: Any) -> RewriteFinished:
    one = result(task=TASK)
    files = tuple(output(in_data(at, run.output_name(0, number))) for number in range(2))
    group = replace(one.groups[0], outputs=files)
    name = TableName(at.table.identity.uuid, ("ns",), "tbl")
    return replace(
        one,
        table=name,
        scope=Scope(0, "[]"),
        groups=(group,),
        row_map=beside(at, run.row_map_name),
        output_list=beside(at, run.list_name),
    )


def with_outputs(one: RewriteFinished, *files: OutputFile) -> RewriteFinished:
    return replace(one, groups=(replace(one.groups[0], outputs=files),))


def test_what_a_worker_says_is_believed(at: PinnedHead, honest: RewriteFinished) -> None:
    assert first_flaw(at, honest) is None
    assert first_flaw(at, replace(honest, output_list=None, row_map=None)) is None
    assert first_flaw(at, with_outputs(honest)) is None


def test_paths_that_are_not_its_own(at: PinnedHead, run: TaskRun, honest: RewriteFinished) -> None:
    mine = run.output_name(0, 0)
    other_run = TaskRun(run.table_key, TASK, 1, "beef0000")
    (live,) = at.head.data.values()
    wrong = [
        str(live.path),
        "file:///etc/passwd",
        f"{at.table.metadata.location}2/data/{mine}",
        f"{at.table.metadata.location}/data/../../tbl2/{mine}",
        f"s3://bucket/data/{mine}",
        mine,
        in_data(at, run.delete_name(0, False)),
        in_data(at, run.row_map_name),
        in_data(at, run.list_name),
        in_data(at, f"x{mine}"),
        in_data(at, f"{mine}.crc"),
        in_data(at, other_run.output_name(0, 0)),
        in_data(at, TaskRun(run.table_key, TASK, 2, run.run).output_name(0, 0)),
        in_data(at, TaskRun(run.table_key, "b" * 32, 1, run.run).output_name(0, 0)),
        in_data(at, TaskRun("another-table", TASK, 1, run.run).output_name(0, 0)),
    ]
    for path in wrong:
        assert first_flaw(at, with_outputs(honest, output(path))), path
    for path in (*wrong, in_data(at, mine), beside(at, mine)):
        assert first_flaw(at, replace(honest, row_map=path)), path
        assert first_flaw(at, replace(honest, output_list=path)), path
    assert first_flaw(at, replace(honest, attempt=2))
    assert first_flaw(at, replace(honest, task_id="b" * 32))


@pytest.mark.parametrize(
    "said",
    [
        {"file-path": "file:///etc/passwd"},
        {"content": "equality-deletes", "equality-ids": [1]},
        {"content": "position-deletes"},
        {"file-format": "avro"},
        {"record-count": 3},
        {"file-size-in-bytes": 1},
        {"spec-id": None},
    ],
)
def test_descriptions_of_another_file(
    at: PinnedHead, run: TaskRun, honest: RewriteFinished, said: dict[str, Any]
) -> None:
    path = in_data(at, run.output_name(0, 0))
    assert first_flaw(at, with_outputs(honest, output(path, **said)))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "[" * 9000, '{"content": "data", "content": 1}']
)
def test_descriptions_that_are_none(
    at: PinnedHead, run: TaskRun, honest: RewriteFinished, text: str
) -> None:
    file = replace(output(in_data(at, run.output_name(0, 0))), content_file_json=text)
    assert first_flaw(at, with_outputs(honest, file))


def test_a_file_that_is_there_already(
    at: PinnedHead, run: TaskRun, honest: RewriteFinished
) -> None:
    """Twice in the result, or live: a commit would have its rows twice."""
    file = output(in_data(at, run.output_name(0, 0)))
    assert first_flaw(at, with_outputs(honest, file, file))
    (live,) = at.head.data.values()
    known = replace(at.head, data={**at.head.data, file.path: live})
    assert first_flaw(PinnedHead(known, at.table, at.live), with_outputs(honest, file))
