"""The state directory: a record that survives, and one owner at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_local.stack.state import AlreadyRunning, PartRecord, StackRecord, StateDir


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    state = StateDir.from_path(tmp_path)
    record = StackRecord("ready", 7, 1.5, {"kafka": 1}, {"kafka": PartRecord("ready", 8)})
    state.write_record(record)
    assert state.read_record() == record


def test_an_empty_directory_reads_as_stopped(tmp_path: Path) -> None:
    assert StateDir.from_path(tmp_path).read_record() == StackRecord()


@pytest.mark.parametrize("text", ['{"phase": "ready"}', '{"parts": {}, "colour": 1}', "{"])
def test_a_record_of_another_version_reads_as_stopped(text: str, tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(text)
    assert StateDir.from_path(tmp_path).read_record() == StackRecord()


def test_only_one_owner_at_a_time(tmp_path: Path) -> None:
    state = StateDir.from_path(tmp_path)
    assert not state.is_running()
    with state.lock():
        assert state.is_running()
        with pytest.raises(AlreadyRunning), state.lock():
            pass
    assert not state.is_running()
