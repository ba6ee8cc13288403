"""Ring, look, publish: one thread decides and publishes, others ask the catalogs."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from firnline_adapters.consumer.threads import Pool
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following, new_trace
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import MAIN
from firnline_domain.ports import Publisher
from firnline_domain.records.events import TableCommitted
from firnline_iceberg.storage.paths import parse_address

from firnline_listener.core.call_budget import CallBudget
from firnline_listener.core.changes import drop_event, find_changes, rename_event
from firnline_listener.core.known_tables import KnownTable, KnownTables, Place, place_of
from firnline_listener.core.queue import OWN, LookQueue, PlaceLook
from firnline_listener.core.reader import (
    CatalogReader,
    Listed,
    NoTable,
    NothingNew,
    Seen,
    TableSeen,
)
from firnline_listener.core.settlements import Ring
from firnline_listener.port import Doorbell

TABLE_COMMITS = "table-commits"
GONE_S = 60.0  # a table has to be missing for so long: a rename may be seen from either end first
SLOW_S = 5.0  # a look that takes longer is no reason to wait for its doorbells
FIRST_WAIT_S, LAST_WAIT_S = 0.5, 8.0  # for a version that is written and not in the catalog
MAX_RESULTS = 200  # between two flushes


@dataclass(frozen=True)
class CatalogWork:
    """All that belongs to one catalog at one prefix. `pool`: its threads alone, so that a catalog
    that hangs holds up no other."""

    reader: CatalogReader
    budget: CallBudget
    pool: Pool
    queue: LookQueue


@dataclass(frozen=True)
class _Result:
    work: CatalogWork
    look: PlaceLook
    found: tuple[Place, Seen] | Exception


@dataclass
class _Expected:
    """A metadata file that the catalog may name soon."""

    location: str
    wait_s: float = FIRST_WAIT_S


class Listener:
    """Takes doorbells from any thread; `step` is called by one."""

    def __init__(
        self,
        catalogs: Mapping[str, CatalogWork],
        known: KnownTables,
        publisher: Publisher,
        log: Log,
        now: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        """Connect catalogs, by their path, with a publisher. `now`: seconds of a monotonic
        clock."""
        self._catalogs = dict(catalogs)
        self._known = known
        self._publisher = publisher
        self._log = log
        self._now, self._now_ms = now, now_ms
        self._rung: queue.SimpleQueue[tuple[str, Doorbell, Ring]] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._missing: dict[str, float] = {}  # keys of tables that were not there, and since when
        self._expected: dict[Place, _Expected] = {}
        self._copies: set[tuple[str, Place]] = set()  # names of a table that has another one

    def ring(self, source: str, doorbell: Doorbell, ring: Ring) -> None:
        """Take a doorbell of a source. `ring` is done when it is dealt with."""
        self._rung.put((source, doorbell, ring))

    def step(self, timeout_s: float) -> int:
        """Run one round and return the number of published events. Raises RetryLater if the broker
        does not take them: restart."""
        while not self._rung.empty():
            self._take_doorbell(*self._rung.get())
        self._start_looks()
        results = self._take_results(timeout_s)
        events = [event for one in results for event in self._handle_result(one)]
        events += self._drop_replaced()
        for event in events:
            self._publish(event)
        if events:
            self._publisher.flush()
        now = self._now()
        for one in results:  # what they led to is on the broker
            failed = isinstance(one.found, Exception)
            one.work.queue.end_look(one.look, now, failed)
            self._wait_for_version(one.work, one.look.place)
        self._start_looks()
        metrics.gauge("looks_waiting", sum(len(work.queue) for work in self._works()))
        return len(events)

    # ---- in

    def _take_doorbell(self, source: str, doorbell: Doorbell, ring: Ring) -> None:
        place = self._known.resolve(doorbell)
        work = self._catalogs.get(place.catalog)
        metrics.count("doorbells", source=source)
        if work is None or any(one in ("", ".", "..") for one in place.path if place.name):
            metrics.count("doorbells_dropped", source=source)
            ring.is_done = True
        elif self._known.is_published(doorbell, place):
            ring.is_done = True
        else:
            work.queue.ring(place, source, ring, self._now())
            if doorbell.is_early:
                self._expected[place] = _Expected(doorbell.metadata_location)

    def _start_looks(self) -> None:
        now = self._now()
        for work in self._works():
            running = work.queue.running
            for look in running:
                if now - look.begun_s > SLOW_S:
                    look.settle()
            free = work.pool.size - len(running)
            while free > 0 and work.budget.has_call(len(work.queue.running)):
                if (begun := work.queue.next_look(now)) is None:
                    break
                free -= 1
                work.pool.submit(partial(self._look, work, begun))

    def _works(self) -> list[CatalogWork]:
        return list({id(one): one for one in self._catalogs.values()}.values())

    def _look(self, work: CatalogWork, look: PlaceLook) -> None:
        """Look at a place, on a thread of the pool."""
        try:
            found: tuple[Place, Seen] | Exception = work.reader.look_at(look.place)
        except Exception as error:  # of that place: it rests, and nothing else waits for it
            found = error
        self._results.put(_Result(work, look, found))

    def _take_results(self, timeout_s: float) -> list[_Result]:
        found = list[_Result]()
        try:
            found.append(self._results.get(timeout=timeout_s))
            while len(found) < MAX_RESULTS:
                found.append(self._results.get_nowait())
        except queue.Empty:
            pass
        return found

    # ---- what was seen

    def _handle_result(self, result: _Result) -> list[TableCommitted]:
        try:
            if isinstance(result.found, Exception):
                raise result.found
            place, seen = result.found
            self._catalogs.setdefault(place.catalog, result.work)  # by its own path, too
            match seen:
                case TableSeen():
                    return self._on_table(result.work, place, seen)
                case NoTable():
                    return self._on_no_table(result.work, place)
                case Listed():
                    self._on_listing(result.work, place, seen)
                case NothingNew():
                    self._note_present(place)
        except Exception as error:
            self._note_failure(result.look.place, error)
        return []

    def _wait_for_version(self, work: CatalogWork, place: Place) -> None:
        """Order another look at a place whose expected version was not seen, for some seconds."""
        if (expected := self._expected.get(place)) is None:
            return
        known = self._known.at_place(place)
        is_seen = known is not None and (
            parse_address(known.location) == parse_address(expected.location)
        )
        if is_seen or expected.wait_s > LAST_WAIT_S:
            del self._expected[place]
            return
        work.queue.ring_later(place, self._now() + expected.wait_s)
        expected.wait_s *= 2

    def _note_failure(self, place: Place, error: Exception) -> None:
        if isinstance(error, RetryLater):
            metrics.count("dependency_errors", dependency=error.dependency)
        name = ".".join(place.path)
        self._log.warning("retry_later", catalog=place.catalog, place=name, why=error)

    def _on_table(self, work: CatalogWork, place: Place, seen: TableSeen) -> list[TableCommitted]:
        table, now_ms = seen.table, self._now_ms()
        if seen.elsewhere:
            return self._on_copy(place, seen)
        known = self._known.by_key.get(table.key)
        before = self._known.at_place(place)
        if before is not None and before.table.key != table.key:
            self._note_missing(work, before)  # another table has its name
        self._missing.pop(table.key, None)
        events = list[TableCommitted]()
        if known is not None and place_of(known.table) != place:
            events.append(rename_event(known.table, table, now_ms))
        found = find_changes(known, table, seen.stored, now_ms)
        self._known.keep_table(found.known)
        return [*events, *found.events]

    def _on_copy(self, place: Place, seen: TableSeen) -> list[TableCommitted]:
        """Publish once that a second table has the uuid of a known one: the planner refuses it."""
        if (seen.table.key, place) in self._copies:
            return []
        self._copies.add((seen.table.key, place))
        return list(find_changes(None, seen.table, seen.stored, self._now_ms()).events)

    def _on_no_table(self, work: CatalogWork, place: Place) -> list[TableCommitted]:
        known = self._known.at_place(place)
        if known is None:
            return []
        since = self._missing.get(known.table.key)
        if since is None:
            self._note_missing(work, known)
            return []
        if self._now() - since < GONE_S:
            return []
        return [self._drop_table(known)]

    def _note_missing(self, work: CatalogWork, known: KnownTable) -> None:
        self._missing.setdefault(known.table.key, self._now())
        work.queue.ring_later(place_of(known.table), self._now() + GONE_S)

    def _drop_table(self, known: KnownTable) -> TableCommitted:
        self._missing.pop(known.table.key, None)
        self._known.forget(known)
        return drop_event(known, self._now_ms())

    def _drop_replaced(self) -> list[TableCommitted]:
        """Drop the tables whose name another one has had for long."""
        over = [key for key, since in self._missing.items() if self._now() - since >= GONE_S]
        gone = (known for key in over if (known := self._known.by_key.get(key)) is not None)
        return [
            self._drop_table(known)
            for known in gone
            if (at := self._known.at_place(place_of(known.table))) is not None and at != known
        ]

    def _note_present(self, place: Place) -> None:
        if (known := self._known.at_place(place)) is not None:
            self._missing.pop(known.table.key, None)

    def _on_listing(self, work: CatalogWork, place: Place, listed: Listed) -> None:
        """Order looks at tables that are listed and not known, or known and not listed, and at
        namespaces that are not known."""
        now, known = self._now(), self._known
        names = {path[-1] for path in listed.tables}
        for name in names ^ known.names_in(place):
            work.queue.ring(replace(place, name=name), OWN, None, now)
        known.forget_namespaces(place, listed.namespaces)
        for namespace in listed.namespaces:
            below = Place(place.catalog, namespace)
            if below not in known.namespaces:
                known.namespaces.add(below)
                work.queue.ring(below, OWN, None, now)

    # ---- out

    def _publish(self, event: TableCommitted) -> None:
        with following(new_trace()):  # the request itself was not seen
            self._publisher.publish(TABLE_COMMITS, event.table.key, event)
            metrics.count("listener_commits")
            self._log.info(
                "committed",
                table=event.table,
                change=event.change,
                snapshots=[new.snapshot_id for new in event.snapshots],
                head=next((one.snapshot_id for one in event.refs if one.ref == MAIN), None),
            )
