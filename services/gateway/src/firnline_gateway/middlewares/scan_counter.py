"""Count scans by table: from the reports of clients, and from the loads of clients that report
nothing. No call waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from firnline_adapters.observability import metrics
from multidict import CIMultiDict

from firnline_gateway.middlewares.middleware import Middleware, Parts, background_tasks
from firnline_gateway.proxy.bodies import BodyCopy
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.reads.scan_counts import Identities, ScanCounts
from firnline_gateway.reads.scan_sender import ScanSender
from firnline_gateway.reads.table_loads import MAX_PATH, Load, TableLoads, client_of
from firnline_gateway.rest.call import Names
from firnline_gateway.rest.routes import CallKind, CatalogRoute, TableRoute
from firnline_gateway.rest.scan_report import MAX_REPORT_BYTES, Scan, UnreadableReport, scan_of

AT_ONCE = 8  # tables that are being read: a catalog with much to do is not to get it from us
MAX_ASKED = 1_000  # names that wait for that, each with a credential
# 404, 405 and 501 come from catalogs that have no use for reports. Whoever may not tell this one
# (401, 403) is not believed, and what is to be told again (429, 5xx) is counted then.
HEARD = frozenset({200, 201, 202, 204, 404, 405, 501})
SETTLE_S = 10.0  # between two looks at the loads whose time has passed
LAST_SCANS_S = 3.0  # for counts of scans: whoever waits for us to end may have 30 s in all
WRITES = frozenset({CallKind.COMMIT, CallKind.TRANSACTION})


Seen = Scan | Load


class ScanCounter(Middleware):
    """Counts what readers report or load, under the uuid of the table that they name."""

    def __init__(self, parts: Parts, counts: ScanCounts) -> None:
        self._upstream = parts.upstream
        self._counts = counts
        self._identities = Identities(catalog=parts.upstream.name)
        self._loads = TableLoads(parts.now_ms)
        self._log = parts.log
        self._now_ms = parts.now_ms
        self._asked: dict[Names, list[Seen]] = {}  # those that wait for the identity
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_vain = False  # the last table could not be read: said once, not for each

    @classmethod
    @asynccontextmanager
    async def open(cls, parts: Parts) -> AsyncIterator[ScanCounter | None]:
        """Yield None if scan reports are switched off."""
        if parts.settings.scan_report_s <= 0:
            yield None
            return
        counts = await parts.stack.enter_once(send_counts, parts)
        scans = cls(parts, counts)
        try:
            async with background_tasks(scans.run()):
                yield scans
        finally:
            await scans.finish_reading(LAST_SCANS_S)

    async def before(self, exchange: Exchange) -> None:
        if exchange.report is not None:
            exchange.body_copy = BodyCopy(MAX_REPORT_BYTES, exchange.reservation)

    def finish(self, exchange: Exchange) -> None:
        if exchange.change is not None:
            self._note_change(exchange, exchange.change)
        elif exchange.answer is None:
            return
        elif exchange.load is not None and exchange.is_loaded and not exchange.is_ours:
            self._note_load(exchange, exchange.load)
        elif exchange.report is not None and exchange.answer.status in HEARD:
            self._note_report(exchange, exchange.report)

    def _note_change(self, exchange: Exchange, change: CatalogRoute) -> None:
        if change.kind in WRITES and not exchange.is_ours:
            self._loads.note_commit(client_of(exchange.request), exchange.table)
        if change.kind is not CallKind.COMMIT and exchange.table is not None:
            self._identities.forget_names(exchange.table)

    def _note_load(self, exchange: Exchange, route: TableRoute) -> None:
        """Note a table that a client has loaded, and may be about to read."""
        if len(route.path) > MAX_PATH or exchange.table is None:
            return
        load = self._loads.note_load(client_of(exchange.request), exchange.table)
        if load is not None:
            self._count_when_identified(route, exchange.table, load, exchange.headers)

    def _note_report(self, exchange: Exchange, route: TableRoute) -> None:
        """Note a report that the catalog has accepted."""
        assert exchange.body_copy is not None
        assert exchange.table is not None
        body = exchange.body_copy.whole  # None if it was too long
        try:
            scan = None if body is None else scan_of(body, self._now_ms())
        except UnreadableReport:
            body = scan = None
        if body is None:
            self._count_dropped(1)
        elif scan is not None:
            self._loads.note_report(client_of(exchange.request))
            self._count_when_identified(route, exchange.table, scan, exchange.headers)

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

    async def finish_reading(self, timeout_s: float) -> None:
        """Wait for tables that are being read; then read no more."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()


@asynccontextmanager
async def send_counts(parts: Parts) -> AsyncIterator[ScanCounts]:
    """Yield counts of all catalogs, and send them while the block runs."""
    counts, every_s = ScanCounts(parts.now_ms()), parts.settings.scan_report_s
    sender = ScanSender(counts, parts.statistics, every_s, parts.log, parts.now_ms)
    sender.start()
    try:
        yield counts
    finally:
        await asyncio.to_thread(sender.stop, LAST_SCANS_S)
