"""Reads along what other planners keep, so that their buckets are at hand when one of them dies.

A planner that takes a bucket over reads what its own disk lacks of the changelog: all of it where
it has never had the bucket, next to nothing where it stood by (measured: bench/results).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import TopicPartition
from firnline_adapters.observability.logs import Log
from rocksdict import Cache

from firnline_planner.drivers.kafka.changelog import Changelog
from firnline_planner.drivers.kafka.local_store import FRESH_MS, LocalStore, open_stores

AGAIN_S = 5.0  # after a broker that does not answer


class Standby(Protocol):
    """Who keeps the stores of buckets that this planner does not own."""

    def follow(self, partitions: Iterable[int]) -> None:
        """These are nobody's here now: read them along. Never blocks."""

    def release(self, partitions: Iterable[int]) -> None:
        """These are to be owned: their stores are closed when this returns."""

    def stop(self) -> None:
        """Follow nothing more: the planner ends."""

    def end(self) -> None:
        """Close everything."""


class NoStandby:
    """Reads nothing along."""

    def follow(self, partitions: Iterable[int]) -> None:
        """See `Standby.follow`."""

    def release(self, partitions: Iterable[int]) -> None:
        """See `Standby.release`."""

    def stop(self) -> None:
        """See `Standby.stop`."""

    def end(self) -> None:
        """See `Standby.end`."""


@dataclass
class Followed:
    """A bucket's store, the next offset that it lacks, and when its changelog was heard of last."""

    store: LocalStore
    place: int
    heard_ms: int


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
        self._followed: dict[int, Followed] = {}
        self._refused: dict[int, int] = {}  # buckets that could not be opened: when to try again
        self._assigned = True  # the reader goes on where the stores end
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standby", daemon=True)

    def start(self) -> None:
        """Begin with what `follow` has asked for."""
        self._thread.start()

    def stop(self) -> None:
        """See `Standby.stop`."""
        self._ending.set()

    def end(self) -> None:
        """See `Standby.end`."""
        self.stop()
        self._thread.join()
        self.release(self._wanted)
        self._reader.close()

    def follow(self, partitions: Iterable[int]) -> None:
        """See `Standby.follow`."""
        if not self._ending.is_set():
            self._wanted |= frozenset(partitions)

    def release(self, partitions: Iterable[int]) -> None:
        """See `Standby.release`."""
        owned = frozenset(partitions)
        self._wanted -= owned
        with self._lock:
            self._close(owned)

    def _close(self, partitions: Iterable[int]) -> None:
        for one in partitions:
            if followed := self._followed.pop(one, None):
                self._assigned = False
                followed.store.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._lock:
                    self._turn()
                self._ending.wait(0.01 if self._followed else 0.2)  # `release` gets its turn
            except Exception as error:  # the planner's own buckets have to go on
                # What was read of this turn is kept by some stores and not by others.
                self._assigned = False
                self._log.warning("standby_failed", why=error)
                self._ending.wait(AGAIN_S)

    def _turn(self) -> None:
        now_ms = self._now()
        # Deletions may be gone from the topic (`FRESH_MS`): such a store is read anew.
        deaf = [n for n, one in self._followed.items() if now_ms - one.heard_ms >= FRESH_MS]
        self._close(deaf)
        later = {one for one, again_ms in self._refused.items() if now_ms < again_ms}
        if missing := self._wanted - self._followed.keys() - later:
            self._open(missing, now_ms)
        if not self._assigned:
            topic = self._changelog.topic
            places = [TopicPartition(topic, n, one.place) for n, one in self._followed.items()]
            self._reader.assign(places)
            self._assigned = True
        if self._followed:
            self._read(now_ms)

    def _open(self, partitions: frozenset[int], now_ms: int) -> None:
        ends = self._changelog.ends(sorted(partitions))
        for one in sorted(partitions):
            try:
                self._followed[one] = self._opened(one, ends[one], now_ms)
                self._assigned = False
            except Exception as error:  # the others are to be followed all the same
                self._refused[one] = now_ms + int(AGAIN_S * 1000)
                self._log.warning("standby_failed", bucket=one, why=error)
        self._log.info("standing_by", buckets=len(self._followed))

    def _opened(self, partition: int, end: int, now_ms: int) -> Followed:
        store = open_stores({partition: self._directory / str(partition)}, self._cache)[partition]
        try:
            place = store.position(self._changelog.topic_id, end, now_ms)
        except BaseException:
            store.close()
            raise
        return Followed(store, place, now_ms)

    def _read(self, now_ms: int) -> None:
        stores = {number: one.store for number, one in self._followed.items()}
        for number, place in self._changelog.read_on(self._reader, stores, now_ms).items():
            self._followed[number].place = place
            self._followed[number].heard_ms = now_ms
