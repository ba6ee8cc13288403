from __future__ import annotations

import json

from firnline_domain.commands import RewriteFiles
from firnline_domain.identity import Scope, TableName
from firnline_worker import outputs
from pyiceberg.io import load_file_io

ORDER = RewriteFiles(
    "abcdef0123456789abcdef0123456789", TableName("u", ("d",), "t"), "main", Scope(0, "[]"),
    "compact", "r", 1, 2, 0, 0,
)  # fmt: skip


def test_names_are_of_task_attempt_run_group_and_number():
    naming = outputs.naming(ORDER, "cafe")
    assert naming.names(1, 2) == [
        "firnline-abcdef0123456789-2-cafe-00001-00000.parquet",
        "firnline-abcdef0123456789-2-cafe-00001-00001.parquet",
    ]
    other = outputs.naming(ORDER, "beef")
    assert not set(naming.names(0, 9)) & set(other.names(0, 9))
    path = naming.list_path("s3://b/t/metadata/00001-x.metadata.json")
    assert path == f"s3://b/t/metadata/firnline-{ORDER.task_id}-2-cafe.json"


def test_the_list_is_written_once_and_losers_are_removed_by_it(tmp_path):
    io = load_file_io({}, str(tmp_path))
    kept = tmp_path / "kept.parquet"
    made = tmp_path / "made.parquet"
    for path in (kept, made):
        path.write_text("x")
    listed = str(tmp_path / "list.json")
    outputs.write_list(io, listed, ORDER, "w", 5, [str(made), str(tmp_path / "never")])
    body = json.loads((tmp_path / "list.json").read_text())
    assert body["outputs"] == [str(made), str(tmp_path / "never")]
    assert (body["task_id"], body["attempt"], body["worker"]) == (ORDER.task_id, 2, "w")
    assert outputs.remove(io, [*body["outputs"], listed]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept.parquet"]
