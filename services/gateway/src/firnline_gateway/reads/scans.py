"""Reports of scans, and loads that nobody reports of, to counts by table; and the counts to the
broker. No call waits for that; what is lost on the way was a statistic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Publisher
from multidict import CIMultiDict

from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.reads.scan_counts import Identities, ScanCounts
from firnline_gateway.reads.table_loads import MAX_PATH, Client, Load, TableLoads
from firnline_gateway.rest.call import Names
from firnline_gateway.rest.routes import TableRoute
from firnline_gateway.rest.scan_report import Scan, UnreadableReport, scan_of

AT_ONCE = 8  # tables that are being read: a catalog with much to do is not to get it from us
MAX_ASKED = 1_000  # names that wait for that, each with a credential
# 404, 405 and 501 come from catalogs that have no use for reports. Whoever may not tell this one
# (401, 403) is not believed, and what is to be told again (429, 5xx) is counted then.
HEARD = frozenset({200, 201, 202, 204, 404, 405, 501})
TOPIC = "table-scans"
BATCH = 500  # tables; so many are lost at the most where the broker stays away
FLUSH_S = 10.0
SETTLE_S = 10.0  # between two looks at the loads whose time has passed


Seen = Scan | Load


class Scans:
    """Counts what readers report or load, under the uuid of the table that they name."""

    def __init__(
        self,
        upstream: Upstream,
        counts: ScanCounts,
        identities: Identities,
        loads: TableLoads,
        log: Log,
        now_ms: Callable[[], int],
    ) -> None:
        self._upstream = upstream
        self._counts = counts
        self._identities = identities
        self._loads = loads
        self._log = log
        self._now_ms = now_ms
        self._asked: dict[Names, list[Seen]] = {}  # those that wait for the identity
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_vain = False  # the last table could not be read: said once, not for each

    def note_load(
        self, route: TableRoute, separator: str, client: Client, headers: CIMultiDict[str]
    ) -> None:
        """Note a table that a client has loaded, and may be about to read."""
        if len(route.path) > MAX_PATH:
            return
        names = route.names(separator)
        if (load := self._loads.note_load(client, names)) is not None:
            self._count_when_identified(route, names, load, headers)

    def note_commit(self, client: Client, names: Names | None) -> None:
        """Note that a client has written a table; None = several, in one transaction."""
        self._loads.note_commit(client, names)

    async def run(self) -> None:
        """Count loads as soon as they can only be reads."""
        while True:
            await asyncio.sleep(SETTLE_S)
            self.settle_loads()

    def settle_loads(self) -> None:
        """Count the loads that were reads."""
        for identity in self._loads.take_reads():
            counted = identity is not None and self._counts.add_load(identity)
            metrics.count("gateway_reads_by_load", outcome="counted" if counted else "dropped")

    def note_report(
        self,
        route: TableRoute,
        separator: str,
        body: bytes | None,
        client: Client,
        headers: CIMultiDict[str],
    ) -> None:
        """Note a report that the catalog has accepted. `body`: None if it cannot be read."""
        try:
            scan = None if body is None else scan_of(body, self._now_ms())
        except UnreadableReport:
            body = scan = None
        if body is None:
            self._count_dropped(1)
        elif scan is not None:
            self._loads.note_report(client)
            self._count_when_identified(route, route.names(separator), scan, headers)

    def _count_when_identified(
        self, route: TableRoute, names: Names, seen: Seen, headers: CIMultiDict[str]
    ) -> None:
        if names in self._asked:
            self._asked[names].append(seen)
        elif names in self._identities:
            self._count_seen(names, [seen])
        elif len(self._asked) < MAX_ASKED:
            self._asked[names] = [seen]
            task = asyncio.create_task(self._identify_table(route, names, headers))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif isinstance(seen, Scan):
            self._count_dropped(1)

    async def _identify_table(
        self, route: TableRoute, names: Names, headers: CIMultiDict[str]
    ) -> None:
        loaded = None
        try:
            async with self._reading:
                loaded = await self._upstream.load_as_client(
                    f"{route.path}?snapshots=refs", headers
                )
            self._in_vain = False
        except Exception as error:  # whatever it is: nobody waits for this
            if not self._in_vain:
                self._log.warning("scans_of_unknown", path=route.path, why=error)
            self._in_vain = True
        finally:
            self._identities.set_identity(names, loaded)
            self._count_seen(names, self._asked.pop(names))

    def _count_seen(self, names: Names, seen: list[Seen]) -> None:
        """Count scans of the table with these names in memory; give loads its identity."""
        identity = self._identities[names]
        scans = [one for one in seen if isinstance(one, Scan)]
        for one in seen:
            if isinstance(one, Load):
                one.identity = identity  # counted when it has waited
        if not scans:
            return
        if identity is not None and self._counts.add_scans(identity, scans, self._now_ms()):
            metrics.count("gateway_scan_reports", len(scans), outcome="counted")
        else:
            self._count_dropped(len(scans))

    def _count_dropped(self, reports: int) -> None:
        metrics.count("gateway_scan_reports", reports, outcome="dropped")

    def forget_table(self, names: Names) -> None:
        """Forget a table that was dropped, by its names."""
        self._identities.forget_names(names)

    async def finish(self, timeout_s: float) -> None:
        """Wait for tables that are being read; then read no more."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()


class ScanSender:
    """A daemon thread with a publisher of its own: commits wait for none of this."""

    def __init__(
        self,
        counts: ScanCounts,
        publisher: Publisher,
        every_s: float,
        log: Log,
        now_ms: Callable[[], int],
    ) -> None:
        self._counts = counts
        self._publisher = publisher
        self._every_s = every_s
        self._log = log
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="scans", daemon=True)

    def start(self) -> None:
        """Start to send."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send the remaining counts, for at most `timeout_s`."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def send_counts(self) -> None:
        """Send one event for each table that was scanned since. Raises RetryLater if the broker
        does not confirm; the remaining tables stay counted."""
        while events := self._counts.take_events(BATCH, self._now_ms()):
            for event in events:
                self._publisher.publish(TOPIC, event.table.key, event)
            self._publisher.flush(FLUSH_S)

    def _run_loop(self) -> None:
        ending = False
        while not ending:
            ending = self._stopping.wait(self._every_s)
            try:
                self.send_counts()
            except RetryLater as error:
                self._log.warning("scans_not_sent", why=error)
            except Exception as error:  # the thread must outlive a client's surprises
                self._log.error("scans_not_sent", error)
