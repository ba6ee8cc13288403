"""What an executor lacks is said in one line, with its remedy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from firnline_iceberg.storage.file_io import TableStorage
from firnline_worker.spark import executor_check
from firnline_worker.spark.executor_check import (
    ExecutorPackages,
    Sample,
    _failure_text,
    _try_read,
    find_flaws,
)

MINE = ExecutorPackages(
    "worker", "3.11.7", {"numpy": "2.1", "pyarrow": "26.0", "pyiceberg": "0.12"}
)
GOOD = replace(MINE, host="node-7", scratch="/tmp/x", free_bytes=10 << 30)


def test_an_executor_with_everything_lacks_nothing() -> None:
    assert list(find_flaws(GOOD, MINE)) == []
    assert list(find_flaws(replace(GOOD, python="3.11.9"), MINE)) == []


@pytest.mark.parametrize(
    ("found", "said", "remedy"),
    [
        (replace(GOOD, python="3.10.2"), "runs Python 3.10.2", "spark.pyspark.python"),
        (replace(GOOD, versions={}), "has no pyarrow", "firnline spark-archive"),
        (replace(GOOD, scratch=""), "no scratch folder", "SPARK_LOCAL_DIRS"),
        (replace(GOOD, free_bytes=5 << 20), "5 MiB free", "SPARK_LOCAL_DIRS"),
        (replace(GOOD, unread="s3://b: denied"), "cannot read", "endpoint"),
    ],
)
def test_what_it_lacks_is_said_with_its_remedy(
    found: ExecutorPackages, said: str, remedy: str
) -> None:
    lines = list(find_flaws(found, MINE))
    assert any(said in line and remedy in line and "node-7" in line for line in lines), lines


def test_a_storage_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(executor_check, "READ_S", 0.2)
    pipe = tmp_path / "m.json"
    os.mkfifo(pipe)  # opening it blocks until it is written to
    assert _try_read(Sample(pipe.as_uri(), TableStorage({}, tmp_path.as_uri()))).endswith("in 0 s")
    os.close(os.open(pipe, os.O_RDWR))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x\nCannot run program "/opt/p": error=2, No such file\n\tat', "spark.pyspark.python"),
        ("a\n  ModuleNotFoundError: No module named 'numpy'\n", "No module named 'numpy'"),
        ("python: /lib/libc.so.6: version `GLIBC_2.36' not found\n", "older glibc"),
        ("", "RuntimeError"),
    ],
)
def test_a_python_that_does_not_start_is_told_of_in_one_line(text: str, said: str) -> None:
    line = _failure_text(RuntimeError(text), False, "spark://m", 120.0)
    assert said in line
    assert "\n" not in line


def test_a_cluster_without_room_is_told_of() -> None:
    line = _failure_text(RuntimeError("cancelled"), True, "spark://m", 120.0)
    assert line.startswith("spark://m: no executor in 120 s")
    assert "spark.driver.host" in line
