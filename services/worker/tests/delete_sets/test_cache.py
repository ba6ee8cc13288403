from __future__ import annotations

import threading

import pytest
from firnline_adapters.observability import metrics
from firnline_worker.delete_sets.cache import DeleteSetCache


def test_a_set_is_built_once_for_all_who_want_it_and_goes_with_the_last(tmp_path):
    cache = DeleteSetCache(tmp_path)
    built, inside, release = [], threading.Barrier(4), threading.Event()

    def write(path):
        built.append(path)
        (path / "part").write_text("set")

    def use():
        with cache.hold("a", write) as path:
            assert (path / "part").read_text() == "set"
            inside.wait(30)
            release.wait(30)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    inside.wait(30)  # three hold it at once
    assert len(built) == 1
    assert list(cache.root.iterdir()) == built
    release.set()
    for thread in threads:
        thread.join()
    assert list(cache.root.iterdir()) == []


def test_who_leaves_first_takes_nothing_from_the_others(tmp_path):
    cache = DeleteSetCache(tmp_path)

    def write(path):
        (path / "part").write_text("set")

    with cache.hold("a", write) as path:
        with cache.hold("a", write):
            pass
        assert path.exists()
    assert not path.exists()


def test_a_failed_build_is_tried_again_by_the_next(tmp_path):
    cache = DeleteSetCache(tmp_path)

    def fail(path):
        (path / "half").write_text("x")
        raise OSError("storage")

    with pytest.raises(OSError, match="storage"), cache.hold("a", fail):
        pass
    with cache.hold("a", lambda path: (path / "whole").write_text("x")) as path:
        assert [file.name for file in path.iterdir()] == ["whole"]


def test_leftovers_of_a_dead_process_go(tmp_path):
    old = DeleteSetCache(tmp_path)
    (old.root / "x.arrow").write_text("x")
    (tmp_path / "else").write_text("not ours")
    old._folder.lock.close()  # as the kernel does
    new = DeleteSetCache(tmp_path)
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"else", new.root.name}
    new.close()
    assert [path.name for path in tmp_path.iterdir()] == ["else"]


def test_the_sets_of_a_live_worker_in_the_same_directory_stay(tmp_path):
    first = DeleteSetCache(tmp_path)
    with first.hold("a", lambda path: (path / "set").write_text("x")) as path:
        second = DeleteSetCache(tmp_path)
        assert (path / "set").read_text() == "x"
        assert second.root != first.root
        second.close()
        assert (path / "set").read_text() == "x"
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_built_shared_and_built_again_is_counted(tmp_path, monkeypatch):
    had = []
    monkeypatch.setattr(metrics, "count", lambda name, had_by=had, **labels: had_by.append(labels))
    cache = DeleteSetCache(tmp_path)
    with cache.hold("a", lambda path: None), cache.hold("a", lambda path: None):
        pass
    with cache.hold("a", lambda path: None), cache.hold("b", lambda path: None):
        pass
    assert [labels["had"] for labels in had] == ["built", "shared", "rebuilt", "built"]


def test_no_more_sets_are_built_at_once_than_half_the_cores(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    cache, max_running, most = DeleteSetCache(tmp_path), 0, 0
    lock = threading.Lock()

    def write(path):
        nonlocal max_running, most
        with lock:
            max_running += 1
            most = max(most, max_running)
        threading.Event().wait(0.05)
        with lock:
            max_running -= 1

    def use(name):
        with cache.hold(name, write):
            pass

    threads = [threading.Thread(target=use, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2
