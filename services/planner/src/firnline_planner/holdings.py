"""The buckets that this planner owns: opened, caught up with the changelog, and let go again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_adapters.logs import Log
from firnline_domain.thresholds import Thresholds
from rocksdict import Cache

from firnline_planner.bucket import Bucket
from firnline_planner.changelog import Changelog
from firnline_planner.local_store import Changes, LocalStore, Mark
from firnline_planner.overlay import Overlay
from firnline_planner.routing import Fleet
from firnline_planner.standby import Standby

# Of one bucket between two batches: 0.2 s or so. A start after a long pause finds every table due,
# and events must not wait until all are looked at.
MOST_LOOKS = 200


@dataclass
class Holding:
    """One bucket: what is on disk, what the batch at hand changed, and the bucket over both."""

    store: LocalStore
    pairs: Overlay
    bucket: Bucket

    def read_ahead(self, records: Iterable[Any]) -> None:
        """Have at hand what the bucket will ask for when it handles these."""
        self.pairs.read_ahead(self.bucket.needs(records))


class Holdings:
    """By partition number."""

    def __init__(
        self,
        directory: Path,
        changelog: Changelog,
        defaults: Thresholds,
        log: Log,
        now: Callable[[], int],
        cache: Cache,
        standby: Standby,
        fleet: Fleet | None = None,
    ) -> None:
        """`fleet`: where tables may be in another bucket than that of their hash."""
        self._directory = directory
        self._changelog = changelog
        self._defaults = defaults
        self._log = log
        self._now = now
        self._cache = cache
        self._standby = standby
        self._fleet = fleet
        self._held: dict[int, Holding] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._held

    def __getitem__(self, partition: int) -> Holding:
        return self._held[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self._held)

    @property
    def buckets(self) -> list[Bucket]:
        """All of them."""
        return [one.bucket for one in self._held.values()]

    def open(self, partitions: Iterable[int]) -> None:
        """Own these from now on; returns when their state is whole. May take as long as reading
        the changelog takes. Raises ChangelogStuck, KafkaException, Misconfigured."""
        new = [one for one in partitions if one not in self._held]
        self._standby.release(new)
        stores = {one: LocalStore(self._directory / str(one), self._cache) for one in new}
        read = self._changelog.catch_up(stores, self._now())
        for one, store in stores.items():
            pairs = Overlay(store)
            self._held[one] = Holding(store, pairs, self._bucket(one, pairs))
        if new:
            self._log.info("restored", buckets=len(new), records=read)

    def close(self, partitions: Iterable[int]) -> None:
        """Own these no more; their files stay, and serve if they come back."""
        for one in partitions:
            if held := self._held.pop(one, None):
                held.store.close()
                self._standby.follow([one])

    def reopen(self) -> None:
        """Forget what is not committed: the buckets as they are on disk."""
        for one, held in self._held.items():
            held.pairs.discard()
            held.bucket = self._bucket(one, held.pairs)

    def _bucket(self, number: int, pairs: Overlay) -> Bucket:
        routing = self._fleet.routing(number) if self._fleet else None
        bucket = Bucket(pairs, self._defaults, MOST_LOOKS, routing)
        # A full collection goes through the keys and moments of every table, 0.1 s for a million of
        # them, and finds no garbage there.
        gc.freeze()
        return bucket

    def keep(self, partition: int, changes: Changes | None, position: int | None) -> None:
        """What the batch changed is in the changelog, up to `position`."""
        held = self._held[partition]
        if changes:
            assert position is not None, "the broker has not told where the changes are"
            held.store.keep(changes, Mark(self._changelog.topic_id, position, self._now()))
        held.pairs.discard()
