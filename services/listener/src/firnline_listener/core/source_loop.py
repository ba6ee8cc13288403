"""One source on a thread of its own: poll, ring, settle, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater

from firnline_listener.core.settlements import Ring, Settlements
from firnline_listener.port import Doorbell, DoorbellSource

POLL_S = 0.5
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
MAX_OPEN = 10_000  # doorbells of one source that are not dealt with; beyond, it is not polled
OnRing = Callable[[str, Doorbell, Ring], None]


class SourceLoop:
    """Carries the doorbells of one source to the core, and their end back to it."""

    def __init__(self, name: str, source: DoorbellSource, on_ring: OnRing, log: Log) -> None:
        self._name, self._source, self._on_ring, self._log = name, source, on_ring, log
        self._settlements = Settlements()
        for counter in ("doorbells", "doorbells_dropped", "source_failures"):
            metrics.count(counter, 0, source=name)
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Settle what is dealt with, and end."""
        self._stop.set()
        self._thread.join(timeout_s)

    def check_health(self) -> None:
        """Raise the error of the last try."""
        if self._failure is not None:
            raise self._failure

    def run_once(self, timeout_s: float) -> int:
        """Settle, then poll once; return the number of doorbells. Raises what the source raises."""
        if (ring := self._settlements.take_settled()) is not None:
            self._source.settle(ring.position)
        if len(self._settlements) >= MAX_OPEN:
            self._stop.wait(timeout_s)
            return 0
        doorbells = self._source.poll(timeout_s)
        for one in doorbells:
            self._on_ring(self._name, one, self._settlements.begin(one.position))
        return len(doorbells)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                self.run_once(POLL_S)
                self._failure, pause_s = None, FIRST_PAUSE_S
            except Exception as error:  # the other sources go on, and the sweep stands behind it
                self._note_failure(error)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
        self._end()

    def _note_failure(self, error: Exception) -> None:
        self._failure = error
        metrics.count("source_failures", source=self._name)
        if isinstance(error, RetryLater):
            self._log.warning("source_away", source=self._name, why=error)
        else:
            self._log.error("source_failed", error, source=self._name)

    def _end(self) -> None:
        try:
            if (ring := self._settlements.take_settled()) is not None:
                self._source.settle(ring.position)
            self._source.close()
        except Exception as error:
            self._note_failure(error)
