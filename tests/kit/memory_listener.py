"""A listener in front of the flow in memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from firnline_adapters.consumer.threads import Inline
from firnline_adapters.observability.logs import Log
from firnline_domain.records.events import TableChange
from firnline_iceberg.table.catalog_client import Tables
from firnline_listener.core.call_budget import CallBudget
from firnline_listener.core.known_tables import STATES, KnownTables
from firnline_listener.core.queue import LookQueue
from firnline_listener.core.reader import CatalogReader, Names
from firnline_listener.core.settlements import Settlements
from firnline_listener.handlers import CatalogWork, Listener
from firnline_listener.port import Doorbell
from firnline_listener.sources.sweep import Sweep, SweepTimes

from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.memory_flow import Flow

T = TypeVar("T")


class NamespaceTables(Tables):
    """A real catalog that lists one namespace at its top: other tests' tables, broken ones too,
    are in the others."""

    def __init__(self, uri: str, namespace: str) -> None:
        super().__init__(uri)
        self._top = namespace

    def list_namespace(self, namespace: tuple[str, ...]) -> tuple[Names, Names]:
        tables, below = super().list_namespace(namespace)
        return tables, [one for one in below if one[0] == self._top]


class Capture(Flow):
    """The flow behind a listener that has one source and, for `second`, a sweep."""

    def __init__(
        self, catalog: MemoryCatalog | Tables, sweeps: bool = False, per_minute: float = 1e9
    ) -> None:
        self._sweeps, self._per_minute = sweeps, per_minute
        super().__init__(catalog)

    def restart(self) -> None:
        super().restart()
        self.known, self.looks = KnownTables(), LookQueue()
        self.states_read = Counter[tuple[str, int]]()
        self.read_states()
        self.budget = CallBudget(self._per_minute, self.now, self.sleep)
        self.tables.pace = self.budget.take_call
        reader = CatalogReader("lake", self.tables, self.known)
        work = CatalogWork(reader, self.budget, Inline(), self.looks)
        parts = (self.known, self.publisher, Log("listener"), self.now, lambda: self.now_ms)
        self.listener = Listener({"lake": work}, *parts)
        self.open = Settlements()
        dice = random.Random(1)
        times = SweepTimes(600, shortest_s=2.0, listing_s=5.0)
        clocks = (self.now, lambda: 0, lambda _: None, dice.random)  # all tables are busy
        self.sweep = Sweep("lake", (), self.known, times, lambda _: True, *clocks)

    def now(self) -> float:
        return self.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000) + 1

    def read_states(self) -> None:
        for place, log in self.broker.logs.items():
            if place[0] == STATES:
                for key, value in log[self.states_read[place] :]:
                    self.known.fold_state(key, self.codec.decode(value))
                self.states_read[place] = len(log)

    def ring(self, *doorbells: Doorbell, source: str = "test") -> None:
        """Doorbells of a source, dealt with before this returns, if there are calls left."""
        for one in doorbells:
            self.listener.ring(source, one, self.open.begin(None))
        self.work_off()

    def work_off(self) -> None:
        while self.listener.step(0) or (len(self.open) and self.budget.has_call()):
            self.open.take_settled()

    def second(self) -> None:
        super().second()
        self.read_states()
        if self._sweeps:
            for one in self.sweep.poll(0):
                self.listener.ring("sweep", one, self.open.begin(None))
            self.sweep.settle(1 << 60)
        self.work_off()

    def changes(self) -> list[TableChange]:
        return [one.change for one in self.broker.records("table-commits")]


def meddle(events: Sequence[T], dice: random.Random) -> list[T]:
    """A tenth is lost, a tenth comes twice, all of it out of order."""
    kept = [one for one in events for _ in range(dice.choices([0, 1, 2], [1, 8, 1])[0])]
    return dice.sample(kept, len(kept))
