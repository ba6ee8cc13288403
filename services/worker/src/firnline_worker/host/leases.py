"""Leases that this worker holds while its tasks run. A lease saves work; without Redis all tasks
continue."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial

import redis
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Leases
from firnline_domain.records.orders import CompareRows, TableOrder, TaskOrder

FINISHED = "finished"  # owner of the marks of finished attempts
MAX_STARTS = 5  # of one attempt, whose worker died each time
FINISHED_S = 3600.0  # a redelivery comes within a session timeout; an hour is plenty


class Busy(Exception):
    """The lease is taken by another task; try again."""


class Progress(Enum):
    """What is known of an attempt when it is delivered, perhaps not for the first time."""

    NEW = "new"
    BEGUN = "begun"
    FINISHED = "finished"


def lease_of(order: TaskOrder) -> str:
    """Return the name of an order's lease: one task per table and scope, one of each action on a
    table, one comparison per task."""
    if isinstance(order, CompareRows):
        return f"compare:{order.table.key}:{order.task_id}"
    if isinstance(order, TableOrder):
        return f"{order.action}:{order.table.key}"
    where = f"{order.ref}\x1f{order.scope.spec_id}\x1f{order.scope.partition}"
    return f"rewrite:{order.table.key}:{hashlib.sha256(where.encode()).hexdigest()[:16]}"


def mark_of(order: TaskOrder, what: str = "finished") -> str:
    """Return the mark of one attempt of one task."""
    kind = f"{order.requested_by}:" if isinstance(order, CompareRows) else ""
    return f"{what}:{kind}{order.task_id}:{order.attempt}"


def _start_mark(order: TaskOrder, number: int) -> str:
    return f"{mark_of(order, 'begun')}:{number}"


@dataclass(frozen=True)
class _HeldLease:
    owner: str
    at: float  # when it was last prolonged


@dataclass
class TaskLeases:
    """The leases of this worker. Safe for many threads."""

    leases: Leases
    worker: str
    ttl_s: float
    log: Log
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._held: dict[str, _HeldLease] = {}
        self._started: dict[str, tuple[str, str]] = {}  # of running attempts: their last mark
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold a lease for the length of a block. Raises Busy if another task has it, be it of this
        worker."""
        owner = f"{self.worker}/{uuid.uuid4().hex[:8]}"
        if not self._call_redis(lambda: self.leases.acquire(name, owner, self.ttl_s)):
            raise Busy(name)
        with self._lock:
            self._held[name] = _HeldLease(owner, self.now())
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(name, None)
            self._call_redis(lambda: self.leases.release(name, owner))

    def store_start(self, name: str, task_id: str, start_snapshot_id: int) -> None:
        """Store the task and its start snapshot with a held lease."""
        text = json.dumps(
            {"worker": self.worker, "task_id": task_id, "start_snapshot_id": start_snapshot_id}
        )
        owner = self._held[name].owner
        self._call_redis(lambda: self.leases.renew(name, owner, self.ttl_s, text))

    def renew(self) -> None:
        """Renew the leases that are due; called after every poll."""
        for name, owner in self._due_leases():
            kept = partial(self.leases.renew, name, owner, self.ttl_s)
            if not self._call_redis(kept):
                self.log.warning("lease_lost", lease=name)  # the work goes on; its commit decides

    def _due_leases(self) -> list[tuple[str, str]]:
        with self._lock:
            due = [n for n, held in self._held.items() if self.now() - held.at >= self.ttl_s / 3]
            for name in due:
                self._held[name] = _HeldLease(self._held[name].owner, self.now())
            return [(name, self._held[name].owner) for name in due]

    def started_from(self, table_key: str) -> set[int]:
        """Return the start snapshots of the table's running rewrites. Raises RetryLater if Redis is
        away."""
        try:
            notes = self.leases.read_notes(f"rewrite:{table_key}:")
        except redis.RedisError as error:
            raise RetryLater(f"leases: {error}") from error
        return {json.loads(note)["start_snapshot_id"] for note in notes.values() if note}

    def count_start(self, order: TaskOrder) -> int:
        """Count one more start of this attempt. Return how many there were in the last hour, or one
        more than is allowed; 1 if Redis is away."""
        mark, owner = mark_of(order, "begun"), uuid.uuid4().hex
        for number in range(1, MAX_STARTS + 1):
            name = _start_mark(order, number)
            if self._call_redis(partial(self.leases.acquire, name, owner, FINISHED_S)):
                with self._lock:
                    self._started[mark] = name, owner
                return number
        return MAX_STARTS + 1

    def take_back_start(self, order: TaskOrder) -> None:
        """Uncount the last start of this attempt: it had no effect, and did no harm."""
        with self._lock:
            taken = self._started.pop(mark_of(order, "begun"), None)
        if taken is not None:
            self._call_redis(partial(self.leases.release, *taken))

    def mark_finished(self, order: TaskOrder) -> None:
        """Store that this attempt's result is on its topic."""
        with self._lock:
            self._started.pop(mark_of(order, "begun"), None)
        self._call_redis(lambda: self.leases.acquire(mark_of(order), FINISHED, FINISHED_S))

    def is_finished(self, order: TaskOrder) -> bool:
        """Return True only if its result is known to be on the topic."""
        try:
            return self.leases.renew(mark_of(order), FINISHED, FINISHED_S)
        except redis.RedisError:
            return False

    def read_progress(self, orders: Sequence[TaskOrder]) -> list[Progress]:
        """Return what is known of each attempt, by one request; all are new if Redis is away."""
        finished = [mark_of(order) for order in orders]
        begun = [_start_mark(order, 1) for order in orders]
        try:
            live = self.leases.read_live(finished + begun)
        except redis.RedisError as error:
            self.log.warning("leases_away", why=error)
            live = set()
        return [
            Progress.FINISHED if end in live else Progress.BEGUN if start in live else Progress.NEW
            for end, start in zip(finished, begun, strict=True)
        ]

    def _call_redis(self, call: Callable[[], bool | None]) -> bool:
        try:
            return call() is not False
        except redis.RedisError as error:
            self.log.warning("leases_away", why=error)
            return True
