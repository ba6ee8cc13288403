from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import RewriteFiles
from firnline_worker.rewrite import outputs

ORDER = RewriteFiles(
    "abcdef0123456789abcdef0123456789", TableName("u", ("d",), "t"), "main", Scope(0, "[]"),
    "compact", "r", 1, 2, 0, 0,
)  # fmt: skip


def test_each_run_of_a_task_has_names_of_its_own():
    run, other = outputs.new_run(ORDER), outputs.new_run(ORDER)
    assert run.output_name(1, 2).startswith("firnline-abcdef0123456789-")
    assert run.output_name(1, 2).endswith(f"-2-{run.run}-00001-00002.parquet")
    assert run.output_name(0, 0) != other.output_name(0, 0)
    files = outputs.files_of(run, "s3://b/t/metadata/00001-x.metadata.json")
    stem = f"s3://b/t/metadata/{run.stem}"
    assert (files.list, files.row_map) == (f"{stem}.json", f"{stem}.rows.puffin")


def test_an_order_whose_id_is_a_path_names_no_file():
    with pytest.raises(ValueError, match="no file can be named"):
        outputs.new_run(replace(ORDER, task_id="../../other/table"))
