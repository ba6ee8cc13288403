"""The buckets that this planner owns: opened, caught up with the changelog, and closed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from firnline_adapters.kafka.poison_records import StartMarks
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.observability.logs import Log
from firnline_domain.ports import Place
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.thresholds import Thresholds
from rocksdict import Cache

from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import BY_BUCKET, FILE_CHANGES, WITH_HANDOVERS
from firnline_planner.drivers.kafka.changelog import Changelog
from firnline_planner.drivers.kafka.clients import TIMEOUT_S
from firnline_planner.drivers.kafka.local_store import (
    Changes,
    DamagedStore,
    LocalStore,
    StorePosition,
    open_stores,
)
from firnline_planner.placement.routing import BucketFleet
from firnline_planner.state.stores import WriteBuffer

# Of one bucket between two batches: 0.2 s or so. A start after a long pause finds every table due,
# and events must not wait until all are reconciled.
MAX_RECONCILES = 200


@dataclass
class OwnedBucket:
    """One bucket: what is on disk, what the batch at hand changed, and the bucket over both."""

    store: LocalStore
    buffer: WriteBuffer
    bucket: PlannerBucket

    def read_ahead(self, records: Iterable[Any]) -> None:
        """Have at hand what the bucket will ask for when it handles these."""
        self.buffer.read_ahead(self.bucket.uncached_keys(records))


class OwnedBuckets:
    """Buckets that this process owns, by partition number."""

    def __init__(
        self,
        directory: Path,
        changelog: Changelog,
        defaults: Thresholds,
        read_policies: Callable[[], TablePolicies],
        log: Log,
        now: Callable[[], int],
        cache: Cache,
        fleet: BucketFleet,
    ) -> None:
        self._directory = directory
        self._changelog = changelog
        self._defaults = defaults
        self._read_policies = read_policies
        self._log = log
        self._now = now
        self._cache = cache
        self._fleet = fleet
        self._owned: dict[int, OwnedBucket] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._owned

    def __getitem__(self, partition: int) -> OwnedBucket:
        return self._owned[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self._owned)

    @property
    def buckets(self) -> list[PlannerBucket]:
        """Return all owned buckets."""
        return [one.bucket for one in self._owned.values()]

    def open(self, partitions: Iterable[int]) -> None:
        """Own these buckets from now on. Return when their state is complete, which may take as
        long as reading the changelog. Raises ChangelogStuck, KafkaException, Misconfigured."""
        new = [one for one in partitions if one not in self._owned]
        self._changelog.add_partitions(max(new, default=-1) + 1)
        stores = open_stores({one: self._directory / str(one) for one in new}, self._cache)
        read = self._changelog.catch_up(stores, self._now())
        for one, store in stores.items():
            self._owned[one] = self._open_bucket(one, store)
        if new:
            self._log.info("restored", buckets=len(new), records=read)

    def input_topics(self, partition: int) -> Sequence[str]:
        """Return the topics that a bucket reads. Only default buckets read operator commands and
        task results."""
        return WITH_HANDOVERS if partition < self._fleet.board.homes else BY_BUCKET

    def close(self, partitions: Iterable[int]) -> None:
        """Stop owning these buckets; their files stay and are used if they are assigned again."""
        for one in partitions:
            if owned := self._owned.pop(one, None):
                owned.store.close()

    def reopen(self) -> None:
        """Discard what is not committed and open the buckets as they are on disk."""
        for one, owned in self._owned.items():
            owned.buffer.discard()
            owned.bucket = self._build_bucket(one, owned.buffer)

    def _open_bucket(self, number: int, store: LocalStore) -> OwnedBucket:
        """Open the bucket over its store; restore the store from the changelog if it is damaged."""
        buffer = WriteBuffer(store)
        try:
            return OwnedBucket(store, buffer, self._build_bucket(number, buffer))
        except DamagedStore as error:
            why = str(error)
        # Behind the `except`: the error's traceback holds iterators, and these hold the files.
        store.start_anew(why)
        self._changelog.catch_up({number: store}, self._now())
        return OwnedBucket(store, buffer, self._build_bucket(number, buffer))

    def _build_bucket(self, number: int, buffer: WriteBuffer) -> PlannerBucket:
        bucket = PlannerBucket(
            buffer,
            self._defaults,
            MAX_RECONCILES,
            self._fleet.create_routing(number),
            self._read_policies,
        )
        # A full collection goes through the keys and moments of every table, 0.1 s for a million of
        # them, and finds no garbage there.
        gc.freeze()
        return bucket

    def write_changes(self, partition: int, changes: Changes | None, position: int | None) -> None:
        """Apply a batch's changes, which are in the changelog up to `position`, to the local
        store."""
        owned = self._owned[partition]
        if changes:
            assert position is not None, "the broker did not say where the changes are"
            owned.store.write_changes(
                changes, StorePosition(self._changelog.topic_id, position, self._now())
            )
        owned.buffer.discard()


class Membership:
    """Opens the bucket of each partition of `file-changes` that the consumer is given.

    Only that topic is subscribed to: no assignor of librdkafka's moves partition n of several
    topics together and stickily, so those of the other topics follow by hand.
    """

    def __init__(self, consumer: Consumer, buckets: OwnedBuckets, starts: StartMarks) -> None:
        self._consumer = consumer
        self._buckets = buckets
        self._starts = starts
        self.is_new = False  # given partitions since it was last asked

    def join(self) -> None:
        """Subscribe: from now on `consume` assigns and revokes buckets. Raises KafkaException."""
        self._consumer.subscribe(
            [FILE_CHANGES],
            on_assign=self._on_assigned,
            on_revoke=self._on_revoked,
            on_lost=self._on_revoked,
        )

    def leave_in_order(self) -> None:
        """Release the partitions' start marks: this process ends in order, not by a record."""
        self._starts.give_back(_to_places(self._next_positions(self._buckets)))

    def read_again(self) -> None:
        """Go back to where the state of each bucket is."""
        owned = {(place.topic, place.partition) for place in self._consumer.assignment()}
        for place in self._next_positions(self._buckets):
            if (place.topic, place.partition) in owned:
                self._consumer.seek(place)

    def _on_assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        partitions = [one.partition for one in given]
        if partitions:
            wanted = [
                TopicPartition(topic, one)
                for one in partitions
                for topic in self._buckets.input_topics(one)
            ]
            await_stable(consumer, wanted)
            self._buckets.open(partitions)
        places = self._next_positions(partitions)
        self._starts.take_over(_to_places(places))
        consumer.incremental_assign(places)
        self.is_new = True

    def _on_revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        partitions = [one.partition for one in taken if one.partition in self._buckets]
        places = self._next_positions(partitions)
        self._buckets.close(partitions)
        self._starts.give_back(_to_places(places))
        consumer.incremental_unassign(places)

    def _next_positions(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return the position to read from in each topic, from the state. If the changelog is lost,
        it is the first record that there is."""
        return [
            TopicPartition(topic, one, self._buckets[one].bucket.next_offset(topic))
            for one in partitions
            for topic in self._buckets.input_topics(one)
        ]


def _to_places(places: Iterable[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in places]


def await_stable(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Return when no former owner's transaction is pending on the places (`KafkaDriver` commits
    offsets with every change); a dead one's ends by itself (`TRANSACTION_MS`). Raises
    KafkaException."""
    deadline_s = time.monotonic() + 2 * TIMEOUT_S
    while True:
        found = ask_broker(lambda: consumer.committed(places, timeout=TIMEOUT_S))
        errors = [one.error for one in found if one.error]
        if not errors:
            return
        if time.monotonic() > deadline_s:
            raise KafkaException(errors[0])
