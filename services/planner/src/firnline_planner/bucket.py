"""One bucket: its state and its schedule. What every driver runs, record by record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firnline_domain.counters.work import Table
from firnline_domain.errors import Misconfigured
from firnline_domain.records.events import TickPassed
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner.effects import Step
from firnline_planner.handlers.dispatch import on_record, on_tick
from firnline_planner.placement.routing import Routing
from firnline_planner.reconcile.budget_queue import Auction, order_winners
from firnline_planner.reconcile.schedule import NOTHING, Agenda
from firnline_planner.reconcile.worker_memory import size_workers
from firnline_planner.state.bucket_state import State
from firnline_planner.state.stores import Pairs, keys_of


class Bucket:
    """Handles the records of one partition number, one at a time.

    `handle`, send the step's outputs, then `commit` (or `discard`): state is kept only when its
    orders are on the broker, so a crash in between repeats them under the same task ids, and an
    order is never lost.
    """

    def __init__(
        self,
        pairs: Pairs,
        defaults: Thresholds,
        most_looks: int | None = None,
        routing: Routing | None = None,
    ) -> None:
        """`most_looks`: tables that one tick may look at; the rest stays due. `routing`: None where
        each table is in the bucket of its hash; Misconfigured where some are not."""
        self._most_looks = most_looks
        self.most_shows: int | None = None  # tables that one tick may show
        self._state = State(pairs)
        self._defaults = defaults
        self._routing = routing
        self._files: dict[bytes, int] = {}  # of every table, where somebody asks for it
        self._begin()
        self._agenda = Agenda()
        self._visited = NOTHING
        self._auction = Auction()
        self._step = Step()
        self._now_ms = 0
        self._tables: set[bytes] = set()
        self._in_flight: dict[bytes, int] = {}  # of the tables that have any
        self._paused: set[bytes] = set()
        for key, head, paused in self._state.heads():
            self._agenda.plan_start(key, head.due_ms)
            self._tables.add(key)
            if head.in_flight:
                self._in_flight[key] = head.in_flight
            if paused:
                self._paused.add(key)
            if routing and routing.by_files:
                self._files[key] = _files_of(self._state.table_at(key))

    def _begin(self) -> None:
        if self._routing is None:
            if any(one.is_away for one in self._state.routes.kept()):
                raise Misconfigured(
                    "FIRNLINE_ASSIGN=hash, and tables are not where their hash says: bring them "
                    "back first, with `firnline move TABLE --home`"
                )
        elif self._state.cursors.are_none:
            self._routing.begin(self._state)
            self._state.commit()

    @property
    def tables(self) -> int:
        """Tables (by ref) with counters."""
        return len(self._tables)

    @property
    def paused(self) -> int:
        """Tables that people have paused."""
        return len(self._paused)

    @property
    def waiting(self) -> int:
        """Partitions whose rewrite waits for the budget."""
        return len(self._auction)

    @property
    def in_flight(self) -> int:
        """Partitions with an order out."""
        return sum(self._in_flight.values())

    def needs(self, records: Iterable[Any]) -> list[bytes]:
        """Keys that handling these would ask the store for, once each."""
        assigned = self._routing is not None
        return self._state.unknown(key for one in records for key in keys_of(one, assigned))

    def handle(self, record: Any, now_ms: int) -> Step:
        """What a record comes to. Raises PoisonousRecord; nothing is kept then."""
        self._now_ms = now_ms
        if isinstance(record, TickPassed):
            self._step = self._pass_time(now_ms)
            size_workers(record.bucket, self._state, now_ms, self._step)
            if self._routing:
                files = sum(self._files.values())
                self._routing.on_tick(self._step, self._state, self.tables, files, now_ms)
        elif self._routing:
            self._step = self._routing.on_record(record, self._state, self._defaults, now_ms)
        else:
            self._step = on_record(record, self._state, self._defaults, now_ms)
        return self._step

    def _pass_time(self, now_ms: int) -> Step:
        self._visited = self._agenda.due(now_ms, self._most_looks, self.most_shows)
        purses, budgets = self._state.share.purses, self._defaults.budgets
        rounds = self._auction.rounds(purses, budgets, now_ms)
        step = on_tick(self._visited, self._state, self._defaults, now_ms)
        for one in rounds:
            order_winners(one, self._state, self._defaults, now_ms, step)
        return step

    @property
    def is_behind(self) -> bool:
        """True if the last record was a tick that left something due."""
        looks, shows = len(self._visited.looks), len(self._visited.shows)
        return looks == self._most_looks or shows == self.most_shows

    def next_offset(self, topic: str) -> int:
        """The first offset of the topic that is not in the state."""
        return self._state.cursors.of(topic)

    def passed(self, topic: str, offset: int) -> None:
        """The record at that offset is dealt with, once this is committed."""
        self._state.cursors.put(topic, offset)

    def demand_small(self) -> None:
        """Raises PoisonousRecord where the last record has made a table or a partition larger than
        any that is kept. Time adds little; there is room for it."""
        self._state.demand_small()

    def commit(self) -> None:
        """Keep what the last record changed; its outputs are on the broker."""
        self._auction.follow(self._step)
        for key, table in self._state.commit().items():
            self._follow(key, table)
        self._visited = NOTHING

    def discard(self) -> None:
        """Forget what the last record changed; what was due stays due."""
        self._state.discard()
        self._step = Step()
        self._agenda.repeat(self._visited, self._now_ms)
        self._visited = NOTHING

    def _follow(self, key: bytes, table: Table | None) -> None:
        self._agenda.follow(key, table)
        (self._tables.discard if table is None else self._tables.add)(key)
        self._in_flight.pop(key, None)
        self._paused.discard(key)
        if self._routing and self._routing.by_files:
            self._files.pop(key, None)
            if table is not None:
                self._files[key] = _files_of(table)
        if table is None or table.counters.removed:
            self._auction.drop(key)
        if table is not None:
            if table.work.running:
                self._in_flight[key] = len(table.work.running)
            if table.pause is not None:
                self._paused.add(key)


def _files_of(table: Table | None) -> int:
    if table is None:
        return 0
    holds = table.counters.totals.holds
    return holds.data.files + holds.delete_files
