"""A bucket's state on disk: what it may be gone on from, and what a kill leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from firnline_planner.drivers.kafka.local_store import (
    FRESH_MS,
    LocalStore,
    StorePosition,
    shared_cache,
)
from firnline_planner.state.stores import WriteBuffer

NOW = 1_800_000_000_000
MARK = StorePosition("topic-1", 5, NOW)
WRITER = """
import os, signal, sys
from pathlib import Path
from firnline_planner.drivers.kafka.local_store import LocalStore, StorePosition, shared_cache

class Deadly(dict):
    def items(self):
        yield from super().items()
        os.kill(os.getpid(), signal.SIGKILL)

store = LocalStore(Path(sys.argv[1]), shared_cache())
store.write_changes({b"1a": b"1", b"1b": b"1"}, StorePosition("topic-1", 1, 0))
store.write_changes(Deadly({b"1a": b"2", b"1b": b"2"}), StorePosition("topic-1", 2, 0))
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    made = LocalStore(tmp_path / "0", shared_cache())
    yield made
    made.close()


def test_a_fresh_store_begins_at_the_beginning(store: LocalStore) -> None:
    assert store.usable_position("topic-1", 10, NOW) == 0


def test_it_goes_on_behind_what_it_has(store: LocalStore) -> None:
    store.write_changes({b"1a": b"x", b"1b": b"y"}, MARK)
    store.write_changes({b"1a": None}, StorePosition("topic-1", 7, NOW))
    assert store.usable_position("topic-1", 10, NOW) == 7
    assert list(store.scan(b"1")) == [(b"1b", b"y")]


@pytest.mark.parametrize(
    ("topic_id", "end", "now_ms"),
    [
        ("topic-2", 10, NOW),  # the topic was made anew
        ("topic-1", 4, NOW),  # and again, under a name that somebody gave it
        ("topic-1", 10, NOW + FRESH_MS),  # deletions may be forgotten there by now
    ],
)
def test_what_cannot_be_gone_on_from_is_thrown_away(
    topic_id: str, end: int, now_ms: int, store: LocalStore
) -> None:
    store.write_changes({b"1a": b"x"}, MARK)
    assert store.usable_position(topic_id, end, now_ms) == 0
    assert store.get(b"1a") is None


def test_a_kill_leaves_values_and_place_of_the_same_moment(tmp_path: Path) -> None:
    """What a process has handed to the kernel outlives it; the second write is not whole."""
    killed = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path / "0")], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = LocalStore(tmp_path / "0", shared_cache())
    assert store.usable_position("topic-1", 10, 0) == 1
    assert list(store.scan(b"1")) == [(b"1a", b"1"), (b"1b", b"1")]
    store.close()


def test_changes_above_a_store_are_seen_in_their_order(store: LocalStore) -> None:
    under, other = b"1u\x1fmain\x1f", b"1v\x1fmain\x1f"
    store.write_changes({under + b"a": b"1", under + b"b": b"2", b"2u\x1fmain": b"t"}, MARK)
    overlay = WriteBuffer(store)
    overlay.put(under + b"c", b"3")
    overlay.put(other + b"a", b"4")
    overlay.delete(under + b"a")
    assert dict(overlay.scan(under)) == {under + b"b": b"2", under + b"c": b"3"}
    assert dict(overlay.scan(b"1")) == {**dict(overlay.scan(under)), other + b"a": b"4"}
    assert (overlay.get(under + b"a"), overlay.get(b"2u\x1fmain")) == (None, b"t")
    assert len(overlay.changes) == 3
    overlay.discard()
    assert overlay.get(under + b"a") == b"1"


def test_what_was_read_ahead_is_not_asked_for_again(store: LocalStore) -> None:
    store.write_changes({b"2u": b"1", b"2v": b"2"}, MARK)
    overlay = WriteBuffer(store)
    overlay.read_ahead([b"2u", b"2w"])
    store.write_changes({b"2u": b"new", b"2w": b"new"}, MARK)  # nobody does, between two batches
    assert (overlay.get(b"2u"), overlay.get(b"2v"), overlay.get(b"2w")) == (b"1", b"2", None)
    overlay.put(b"2u", b"changed")
    overlay.delete(b"2w")
    assert (overlay.get(b"2u"), overlay.get(b"2w")) == (b"changed", None)


@pytest.mark.parametrize("after", [WriteBuffer.discard, lambda overlay: overlay.read_ahead([])])
def test_what_was_read_ahead_is_for_the_batch_at_hand(
    after: Callable[[WriteBuffer], None], store: LocalStore
) -> None:
    store.write_changes({b"2u": b"1"}, MARK)
    overlay = WriteBuffer(store)
    overlay.read_ahead([b"2u"])
    store.write_changes({b"2u": b"new"}, MARK)
    after(overlay)
    assert overlay.get(b"2u") == b"new"
