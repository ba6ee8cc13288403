"""The archive that executors run: it needs nothing of the host but glibc."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
from firnline_worker.spark import python_archive


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    path = python_archive.ensure_archive(folder / "state")
    with tarfile.open(path) as tar:
        tar.extractall(folder / "elsewhere", filter="fully_trusted")
    return folder / "elsewhere"


def ran(unpacked: Path, code: str) -> str:
    told = subprocess.run(
        [unpacked / "bin" / "python", "-c", code],
        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_it_runs_what_a_group_runs_and_all_of_it_is_its_own(unpacked: Path) -> None:
    code = (
        "import sys, firnline_worker.spark.daemon, firnline_worker.spark.executor_check\n"
        "import pyarrow.fs, ssl\n"
        "import firnline_iceberg.table.catalog_client, firnline_iceberg.connection.auth\n"
        "pyarrow.fs.S3FileSystem(endpoint_override='http://127.0.0.1:1')\n"
        "files = (getattr(one, '__file__', None) for one in sys.modules.values())\n"
        "print(*filter(None, files), sep='\\n')"
    )
    outside = [line for line in ran(unpacked, code).split() if str(unpacked) not in line]
    assert outside == []


def test_it_is_made_once_and_anew_for_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = python_archive.list_members()[:20]
    monkeypatch.setattr(python_archive, "list_members", lambda: some)
    first = python_archive.ensure_archive(tmp_path)
    made = first.stat().st_mtime_ns
    assert python_archive.ensure_archive(tmp_path) == first
    assert first.stat().st_mtime_ns == made
    monkeypatch.setattr(python_archive, "list_members", lambda: some[:10])
    second = python_archive.ensure_archive(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [second.name]
    assert second != first
