"""Local files are used only where the planner before stopped in order."""

from __future__ import annotations

from pathlib import Path

from firnline_planner.drivers.faust.driver import LocalState
from rocksdict import Rdict


def test_a_fresh_directory_is_whole(tmp_path: Path) -> None:
    local = LocalState(str(tmp_path / "new"), "planner 8")
    assert local.open()
    assert local.directory.is_dir()


def test_files_of_a_killed_planner_are_thrown_away(tmp_path: Path) -> None:
    local = LocalState(str(tmp_path), "planner 8")
    local.open()
    (local.directory / "rocks.db").touch()
    assert not LocalState(str(tmp_path), "planner 8").open()
    assert list(local.directory.iterdir()) == []


def test_files_of_an_orderly_stop_are_kept_once(tmp_path: Path) -> None:
    local = LocalState(str(tmp_path), "planner 8")
    local.open()
    (local.directory / "rocks.db").touch()
    local.close()
    assert LocalState(str(tmp_path), "planner 8").open()
    assert (local.directory / "rocks.db").exists()
    assert not LocalState(str(tmp_path), "planner 8").open()  # that one was killed


def test_damaged_files_of_an_orderly_stop_are_thrown_away(tmp_path: Path) -> None:
    local = LocalState(str(tmp_path), "planner 8")
    local.open()
    rocks = Rdict(str(local.directory / "v1" / "state-0.db"))
    rocks["key"] = b"value"
    rocks.close()
    local.close()
    assert LocalState(str(tmp_path), "planner 8").open()
    local.close()
    [manifest] = local.directory.rglob("MANIFEST-*")
    manifest.write_bytes(bytes(100))
    assert not LocalState(str(tmp_path), "planner 8").open()
    assert list(local.directory.iterdir()) == []


def test_files_of_another_application_or_number_of_buckets_are_thrown_away(tmp_path: Path) -> None:
    local = LocalState(str(tmp_path), "planner 8")
    local.open()
    (local.directory / "rocks.db").touch()
    local.close()
    assert not LocalState(str(tmp_path), "planner 16").open()
    assert list(local.directory.iterdir()) == []
