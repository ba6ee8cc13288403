"""A catalog, a planner and a broker in memory, that `firnline adopt` works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_cli.adoption.catalog_tables import Gone, Name, Outage, Unreadable
from firnline_cli.adoption.counted_tables import CountedTables
from firnline_cli.adoption.newcomers import FirstExpiry, Newcomer
from firnline_cli.adoption.requests import (
    REFRESH_S,
    RequestClock,
    Requests,
)
from firnline_cli.adoption.run import Adoption
from firnline_cli.shared.topic_reader_memory import MemoryTopics
from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN, Scope, TableName, bucket_of
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import PartitionState, TableState

REQUESTS = "resync-requests"


def named(name: Name) -> TableName:
    return TableName(f"uuid-{'.'.join(name)}", name[:-1], name[-1])


def state(table: TableName, removed: bool = False, status: str = "idle") -> TableState:
    holds = FileTally(fragments=Tally(1, 1, 1000))
    return TableState(
        table=table,
        ref=MAIN,
        head_snapshot_id=1,
        sequence_number=1,
        epoch=1,
        ordinal=0,
        format_version=2,
        holds=holds,
        partition_count=1,
        partitions=(PartitionState(Scope(0, "[]"), holds, status, "accumulating"),),
        snapshot_count=1,
        oldest_snapshot_ms=1,
        waiting_for_resync=False,
        settings={},
        expiry_reason="",
        removed=removed,
        updated_at_ms=1,
    )


@dataclass
class FakeLake:
    """Tables by name; `exact`: what their manifests say, where that is something else."""

    tables: dict[Name, Newcomer] = field(default_factory=dict)
    exact: dict[Name, float] = field(default_factory=dict)
    broken: set[Name] = field(default_factory=set)
    odd: set[Name] = field(default_factory=set)
    away: set[Name] = field(default_factory=set)
    loaded: list[Name] = field(default_factory=list)
    catalog_path: str = "lake"

    def put(self, dotted: str, weight: float, **more: object) -> None:
        name = tuple(dotted.split("."))
        self.tables[name] = Newcomer(named(name), 9, 1000, 0, 0, weight, **more)  # type: ignore[arg-type]

    def table_names(self, below: Name, unlisted: dict[str, str]) -> Iterator[Name]:
        return (name for name in list(self.tables) if name[: len(below)] == below)

    def weigh_by_summary(self, name: Name) -> Newcomer:
        self.loaded.append(name)
        if name in self.broken:
            raise Unreadable("of format version 4")
        if name in self.away:
            raise Outage("storage is away")
        if name in self.odd:
            raise OverflowError("date value out of range")
        if name not in self.tables:
            raise Gone("does not exist")
        return self.tables[name]

    def weigh_by_manifests(self, newcomer: Newcomer) -> Newcomer:
        name = (*newcomer.table.namespace, newcomer.table.name)
        return replace(newcomer, weight=self.exact[name], exact=True)

    def first_expiry(self, table: TableName) -> FirstExpiry:
        self.weigh_by_summary((*table.namespace, table.name))
        return FirstExpiry(1)


@dataclass
class Told:
    """A report that remembers."""

    adopted: list[str] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)
    left: list[tuple[int, int, float]] = field(default_factory=list)
    count: int = 0

    def report_listed(self, count: int) -> None:
        self.count = count

    def report_adoption(self, table: Newcomer, expiry: FirstExpiry) -> None:
        self.adopted.append(table.table.name)

    def report_left_out(self, name: str, why: str) -> None:
        self.others.append(("left_out", name))

    def report_unread(self, name: str, why: str) -> None:
        self.others.append(("unread", name))

    def waiting(self, why: str) -> None:
        self.others.append(("waiting", why))

    def report_progress(self, done: int, left: int, left_s: float) -> None:
        self.left.append((done, left, left_s))


class World:
    """A broker whose enricher and planner deal with what is asked while the command sleeps."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(4)
        self.lake = FakeLake()
        self.now_s = 1_000.0
        self.told = Told()
        self.dealt = 0
        self.most = 0  # requests that waited at once
        self._reader = MemoryTopics(self.broker)
        self._requests: list[ResyncTable] = []
        self.at_once = 1_000_000  # requests that are dealt with in a second
        self.unanswerable: set[str] = set()
        self.answered: list[TableName] = []  # by the enricher, and not yet shown
        self.shows: Callable[[], bool] = lambda: True
        self.then: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if seconds >= REFRESH_S:
            self.deal()
        self.then()

    @property
    def requests(self) -> list[ResyncTable]:
        self._requests += [
            record for _, record in self._reader.new_records(REQUESTS, lambda key: True)
        ]
        return sorted(self._requests, key=lambda one: one.requested_at_ms)

    def deal(self) -> None:
        self.most = max(self.most, len(self.requests) - self.dealt)
        for request in self.requests[self.dealt :][: self.at_once]:
            self.dealt += 1
            partition = self.partition(request.table)
            place = ("enricher", REQUESTS, partition)
            self.broker.committed[place] = self.broker.committed.get(place, 0) + 1
            if request.table.name not in self.unanswerable:
                self.answered.append(request.table)
        while self.answered and self.shows():
            self.show(self.answered.pop(0))

    def partition(self, table: TableName) -> int:
        return bucket_of(table.uuid, self.broker.buckets)

    def show(self, table: TableName, **more: object) -> None:
        record = state(table, **more)  # type: ignore[arg-type]
        publisher = MemoryPublisher(self.broker)
        partition = self.partition(table)
        publisher.publish("table-states", table.uuid, record)
        log = self.broker.logs["table-states", partition]
        log[-1] = (f"{table.uuid}/{MAIN}", log[-1][1])

    def adoption(self, interval_s: float = 1.0, waiting: int = 100, **more: object) -> Adoption:
        topics = MemoryTopics(self.broker)
        known = CountedTables(topics)
        known.catch_up()
        clock = RequestClock(lambda: self.now_s, self.sleep)
        requests = Requests(topics, known, clock, interval_s, waiting, self.told.waiting)
        return Adoption(self.lake, known, requests, self.told, clock.now, **more)  # type: ignore[arg-type]

    def adopt(self, interval_s: float = 1.0, waiting: int = 100, **more: object) -> Adoption:
        adoption = self.adoption(interval_s, waiting, **more)
        adoption.adopt_all(adoption.find_newcomers([()], []))
        return adoption
