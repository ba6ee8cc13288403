"""Counts of scans to the broker. What is lost on the way was a statistic."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Publisher

from firnline_gateway.reads.scan_counts import ScanCounts

TOPIC = "table-scans"
BATCH = 500  # tables; so many are lost at the most where the broker stays away
FLUSH_S = 10.0


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
        """Send one event for each table that was scanned since the last call. Raises RetryLater if
        the broker does not confirm; then the counts of at most BATCH tables are lost, and those of
        all others are kept for the next call."""
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
