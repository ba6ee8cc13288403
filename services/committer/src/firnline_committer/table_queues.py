"""Results that wait for a commit: a queue for each table and ref, in round-robin order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from firnline_adapters.consumer.retry_queue import RetryQueue
from firnline_domain.ports import Delivery
from firnline_domain.ports import Place as Partition
from firnline_domain.records.results import RewriteFinished

MAX_AT_ONCE = 128  # results of one table in a commit: small ones that are ordered at once
MAX_WAITING = 200_000  # files that waiting results name, 0.4 kB each; beyond, less is read
MAX_OF_A_TABLE = MAX_WAITING // 8  # that does not move
LEAST = 10  # files that a result counts as

Place = tuple[str | None, str | None]  # table key, ref


@dataclass
class TableQueue(RetryQueue):
    """A queue of deliveries that wait for one table and ref, in order."""

    place: Place = (None, None)
    since: float = 0.0  # when the first one came that was in no attempt yet
    running: bool = False  # a commit of it is under way
    behind: bool = False  # its last attempts left a result open
    unfinished: bool = False  # and what that has left is kept for the next one
    alone: bool = False  # memory did not suffice: its next commit has one result, and no neighbour

    @property
    def table(self) -> str | None:
        """Return the table's key."""
        return self.place[0]

    @property
    def next_batch(self) -> list[Delivery]:
        """Return the deliveries that may share a commit now."""
        return list(islice(self.waiting, 1 if self.alone else MAX_AT_ONCE))

    def is_gathering(self, batch: list[Delivery], max_s: float, now: float) -> bool:
        """Return whether results that were ordered with these may still arrive. A worker needs as
        long for them as for these: if none has arrived for twice that, they are done elsewhere, or
        failed. No result waits longer than `max_s`."""
        results = [one.record for one in batch if isinstance(one.record, RewriteFinished)]
        together = max((result.batch_size for result in results), default=1)
        if len(batch) >= min(together, MAX_AT_ONCE):
            return False
        took_s = max(result.finished_at_ms - result.started_at_ms for result in results) / 1000
        return now < min(self.newest + 2 * took_s, self.since + max_s)

    def append(self, delivery: Delivery, now: float) -> None:
        """Append one delivery."""
        if not self.waiting:
            self.since = now
        super().append(delivery, now)


class TableQueues:
    """Queues of all tables; those that were served least lately come first."""

    def __init__(self) -> None:
        self._queues: dict[Place, TableQueue] = {}
        self._weights: Counter[Partition] = Counter()
        self._full: set[Partition] = set()

    def __iter__(self) -> Iterator[TableQueue]:
        return iter(list(self._queues.values()))

    def append(self, delivery: Delivery, now: float) -> None:
        """Append one delivery to the queue of its table and ref."""
        place = place_of(delivery.record)
        self._queues.setdefault(place, TableQueue(place=place)).append(delivery, now)
        self._weights[partition_of(delivery)] += file_weight(delivery.record)

    def move_to_end(self, queue: TableQueue) -> None:
        """Move a queue behind all others."""
        self._queues[queue.place] = self._queues.pop(queue.place)

    def remove(self, queue: TableQueue, deliveries: Collection[Delivery]) -> None:
        """Remove deliveries that do not wait any more."""
        gone = {id(delivery) for delivery in deliveries}
        for one in queue.waiting:
            if id(one) in gone:
                self._weights[partition_of(one)] -= file_weight(one.record)
        queue.waiting = deque(one for one in queue.waiting if id(one) not in gone)

    def drop_partitions(self, partitions: Collection[Partition]) -> None:
        """Drop the deliveries of these partitions: their new owner reads them."""
        if partitions:
            for queue in self:
                self.remove(
                    queue, [one for one in queue.waiting if partition_of(one) in partitions]
                )

    def remove_idle(self) -> None:
        """Remove the queues in which nothing waits, and of which nothing was left."""
        idle = [one for one in self if not (one.waiting or one.running or one.unfinished)]
        for queue in idle:
            del self._queues[queue.place]

    def full_partitions(self) -> Collection[Partition]:
        """Return partitions that hold more than their share of what may wait, until half of it is
        handled. Those are read no further: others do not wait for them, and memory does not run
        out."""
        held = +self._weights
        most = MAX_WAITING / max(len(held), 1)
        if held.total() > MAX_WAITING:
            self._full |= {partition for partition, one in held.items() if one > most}
        self._full = {partition for partition in self._full if held[partition] > most / 2}
        return self._full

    def excess_deliveries(self, queue: TableQueue) -> list[Delivery]:
        """Return the newest deliveries beyond the limit of a queue that does not move: all other
        tables of their partition wait behind them."""
        found, left = list[Delivery](), sum(file_weight(one.record) for one in queue.waiting)
        for one in islice(reversed(queue.waiting), max(len(queue.waiting) - 1, 0)):
            if left <= MAX_OF_A_TABLE:
                break
            left -= file_weight(one.record)
            found.append(one)
        return found


def place_of(record: Any) -> Place:
    """Return the table key and ref of a record. Records that do not belong on the topic may have no
    table either."""
    table = getattr(record, "table", None)
    return getattr(table, "key", None), getattr(record, "ref", None)


def file_weight(record: Any) -> int:
    """Return how many files a record names, at least."""
    if not isinstance(record, RewriteFinished):
        return LEAST
    files = sum(len(group.inputs) + len(group.outputs) for group in record.groups)
    return LEAST + files + len(record.applied_deletes)


def partition_of(delivery: Delivery) -> Partition:
    """Return the partition that a delivery came from."""
    return delivery.topic, delivery.partition
