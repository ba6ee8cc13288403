"""Reads along what other planners keep, so that their buckets are at hand when one of them dies.

A planner that takes a bucket over reads what its own disk lacks of the changelog: all of it where
it has never had the bucket, next to nothing where it stood by (measured: docs/planner.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from confluent_kafka import TopicPartition
from firnline_adapters.logs import Log
from rocksdict import Cache

from firnline_planner.changelog import Changelog
from firnline_planner.local_store import LocalStore, Mark

AGAIN_S = 5.0  # after a broker that does not answer


class Standby(Protocol):
    """Who keeps the stores of buckets that this planner does not own."""

    def follow(self, partitions: Iterable[int]) -> None:
        """These are nobody's here now: read them along. Never blocks."""

    def release(self, partitions: Iterable[int]) -> None:
        """These are to be owned: their stores are closed when this returns."""

    def end(self) -> None:
        """Close everything."""


class NoStandby:
    """Reads nothing along."""

    def follow(self, partitions: Iterable[int]) -> None:
        """See `Standby.follow`."""

    def release(self, partitions: Iterable[int]) -> None:
        """See `Standby.release`."""

    def end(self) -> None:
        """See `Standby.end`."""


class ChangelogFollower:
    """A thread with a reader of its own."""

    def __init__(
        self,
        directory: Path,
        changelog: Changelog,
        cache: Cache,
        log: Log,
        now: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._changelog = changelog
        self._cache = cache
        self._log = log
        self._now = now
        self._reader = changelog.clients.changelog_reader()
        self._lock = threading.Lock()  # held while stores are read into, opened or closed
        self._wanted: frozenset[int] = frozenset()
        self._stores: dict[int, LocalStore] = {}
        self._places: dict[int, int] = {}  # the next offset of each store
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standby", daemon=True)

    def start(self) -> None:
        """Begin with what `follow` has asked for."""
        self._thread.start()

    def end(self) -> None:
        """See `Standby.end`."""
        self._ending.set()
        self._thread.join()
        self.release(self._wanted)
        self._reader.close()

    def follow(self, partitions: Iterable[int]) -> None:
        """See `Standby.follow`."""
        self._wanted |= frozenset(partitions)

    def release(self, partitions: Iterable[int]) -> None:
        """See `Standby.release`."""
        owned = frozenset(partitions)
        self._wanted -= owned
        with self._lock:
            for one in owned:
                if store := self._stores.pop(one, None):
                    # It was here all the time, and knows of every deletion (`FRESH_MS`).
                    at = self._places.pop(one)
                    store.keep({}, Mark(self._changelog.topic_id, at, self._now()))
                    store.close()
            self._assign()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._lock:
                    self._open(self._wanted - self._stores.keys())
                    if self._stores:
                        reached = self._changelog.read_on(self._reader, self._stores, self._now())
                        self._places.update(reached)
                self._ending.wait(0.01 if self._stores else 0.2)  # `release` gets its turn
            except Exception as error:  # the planner's own buckets have to go on
                self._log.warning("standby_failed", why=error)
                self._ending.wait(AGAIN_S)

    def _open(self, partitions: frozenset[int]) -> None:
        if not partitions:
            return
        ends = self._changelog.ends(sorted(partitions))
        for one in partitions:
            store = LocalStore(self._directory / str(one), self._cache)
            self._stores[one] = store
            self._places[one] = store.position(self._changelog.topic_id, ends[one], self._now())
        self._assign()
        self._log.info("standing_by", buckets=len(self._stores))

    def _assign(self) -> None:
        topic = self._changelog.topic
        self._reader.assign([TopicPartition(topic, *place) for place in self._places.items()])
