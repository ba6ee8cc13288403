from __future__ import annotations

from firnline_domain.commands import RewriteFiles
from firnline_domain.identity import Scope, TableName
from firnline_worker import outputs

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
    files = naming.files("s3://b/t/metadata/00001-x.metadata.json")
    stem = f"s3://b/t/metadata/firnline-{ORDER.task_id}-2-cafe"
    assert (files.list, files.row_map) == (f"{stem}.json", f"{stem}.rows.puffin")
