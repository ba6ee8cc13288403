"""Delete sets on hosts that do not see the driver's disk."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.spark import executor_delete_sets
from firnline_worker.spark.executor_delete_sets import LiveSets, SetFile, name_of
from pyiceberg.io.pyarrow import PyArrowFileIO


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", f"{tmp_path}/app:{tmp_path}/other")
    return tmp_path / "app" / executor_delete_sets.FOLDER


def stored(folder: Path, number: int = 1, text: bytes = b"set" * 1000) -> SetFile:
    place = folder / f"stored-{number}"
    place.write_bytes(text)
    path = f"/nowhere/{name_of(number, 'identity')}/0.arrow"
    return SetFile(path, stored_at=str(place), bytes=len(text))


def fetch(file: SetFile, fetched: Any) -> None:
    class Counted(PyArrowFileIO):  # type: ignore[misc]
        def new_input(self, location: str) -> Any:
            with fetched.get_lock():
                fetched.value += 1
            time.sleep(0.5)  # the others come meanwhile
            return super().new_input(location)

    executor_delete_sets.on_this_host(Counted({}), file)


def test_all_processes_of_a_host_fetch_a_set_once(tmp_path: Path) -> None:
    context = get_context("fork")
    fetched, file = context.Value("i", 0), stored(tmp_path)
    processes = [context.Process(target=fetch, args=(file, fetched)) for _ in range(4)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert [one.exitcode for one in processes] == [0] * 4
    assert fetched.value == 1
    assert executor_delete_sets.on_this_host(PyArrowFileIO(), file).read_bytes() == b"set" * 1000


def test_half_a_set_is_never_mapped(tmp_path: Path, host: Path) -> None:
    file = stored(tmp_path)
    Path(file.stored_at or "").write_bytes(b"half")
    with pytest.raises(OSError, match=f"4 bytes of a delete set of {file.bytes}"):
        executor_delete_sets.on_this_host(PyArrowFileIO(), file)
    assert not (host / file.host_name).exists()


def test_what_no_task_holds_goes_and_what_came_later_stays(tmp_path: Path) -> None:
    files = {number: stored(tmp_path, number) for number in (1, 2, 3)}
    paths = {n: executor_delete_sets.on_this_host(PyArrowFileIO(), one) for n, one in files.items()}
    executor_delete_sets.remove_unused_sets(LiveSets(frozenset({files[1].set_name}), newest=2))
    assert [number for number, path in paths.items() if path.exists()] == [1, 3]


def test_the_cache_says_which_sets_are_held(tmp_path: Path) -> None:
    cache = DeleteSetCache(tmp_path / "cache")
    with cache.hold("a", lambda _: None) as first:
        with cache.hold("b", lambda _: None) as second:
            assert cache.live_sets() == LiveSets(frozenset({first.name, second.name}), 2)
        assert cache.live_sets() == LiveSets(frozenset({first.name}), 2)
    with cache.hold("a", lambda _: None) as again:  # another set, for whoever has fetched it
        assert again.name != first.name


def test_an_executor_without_scratch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.endswith(("_DIRS", "LOCAL_DIRS"))]:
        monkeypatch.delenv(name)
    with pytest.raises(OSError, match="no scratch folder"):
        executor_delete_sets.scratch_folder()
