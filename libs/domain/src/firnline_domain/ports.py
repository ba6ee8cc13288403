"""Ports to the outside world. Each has an in-memory twin, held to the same contract tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from firnline_domain.base.values import Value
from firnline_domain.records.pauses import Pause

Place = tuple[str, int]  # a partition of a topic


class Delivery(Value):
    """One record as it came: where from, and what it is."""

    topic: str
    partition: int
    offset: int
    key: str | None
    record: Any  # a value of this package
    deaths: int = 0  # of processes that had begun it alone; from MAX_DEATHS on it is to go aside


class Publisher(Protocol):
    """Writes records to topics; the partition is `bucket_of(key)`, or every one, or where the key's
    table was assigned to (`assignments.ROUTED`)."""

    def publish(self, topic: str, key: str, record: Any) -> bool:
        """Hand a record over; returns at once. `key` is the table's. What its topic takes in
        no form (`shrinking`), or what does not fit its schema, goes to `dead-letters` instead,
        alone: False. Never raises for a record."""

    def publish_encoded(self, topic: str, key: str, value: bytes) -> None:
        """Publish a record's bytes, which its topic accepts (`record_sizes.encode_to_fit`)."""

    def broadcast(self, topic: str, key: str, record: Any) -> bool:
        """Publish a record to every partition: what is for all tables, known or not."""

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Block until everything published is on the broker; False if some of it was refused as too
        large, and is on `dead-letters` instead. Raises RetryLater if not."""


class Inbox(Protocol):
    """Reads topics through a consumer group; nothing is committed on its own."""

    def poll(self, timeout_s: float, full: Collection[Place] = ()) -> Sequence[Delivery]:
        """Wait up to `timeout_s` for records. Undecodable ones go to `dead-letters`. Those of the
        partitions in `full` stay where they are, until a poll without them."""

    def take_moved(self) -> Collection[Place]:
        """Return and forget the partitions that were taken from this process, if only for a moment,
        since the last call: what came from them before the last poll comes again, to the process
        that has them now."""

    def owns(self, topic: str, partition: int) -> bool:
        """Return whether this process has the partition now; any thread may ask."""

    def mark_done(self, delivery: Delivery) -> None:
        """Mark a delivery as done. Offsets commit at the low watermark of what is done."""

    def commit(self) -> None:
        """Commit every partition's low watermark now (blocks)."""

    def write_note(self, text: str) -> None:
        """Keep a text next to the offsets of every owned partition, for readers of the group
        (blocks if it is new); later commits keep it, too."""

    def close(self, died: bool = False) -> None:
        """Commit and leave the group. `died`: by an error that a record may have caused; nothing is
        committed then, and the next life begins its records one at a time."""


class Leases(Protocol):
    """Leases save work; correctness never rests on one."""

    def acquire(self, name: str, owner: str, ttl_s: float, note: str = "") -> bool:
        """Take the lease if it is free or the same owner's. `note` is kept next to it.

        An owner `slot#life/...` also takes it from another life of its slot, which is over: a slot
        has only one at a time."""

    def renew(self, name: str, owner: str, ttl_s: float, note: str | None = None) -> bool:
        """Prolong the lease; False if its owner is another by now. `note` None keeps the old
        one."""

    def release(self, name: str, owner: str) -> None:
        """Give it back; does nothing if it is not ours."""

    def read_notes(self, prefix: str) -> dict[str, str]:
        """Return the notes of all live leases whose name starts with `prefix`."""

    def read_live(self, names: Sequence[str]) -> set[str]:
        """Return which of these leases are live; one request for all of them."""


class PauseReader(Protocol):
    """Pauses that people set (`firnline pause`); asked from many threads at once."""

    def catch_up(self) -> None:
        """Read the orders that are there; do not wait for more."""

    def pause_of(self, table_key: str | None) -> Pause | None:
        """Return the pause of a table as of the last `catch_up`; of the deployment for None."""

    def close(self) -> None:
        """Stop reading."""
