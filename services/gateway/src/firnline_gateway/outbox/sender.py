"""Records from the outbox to the broker, in order; each is forgotten when the broker has it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Publisher

from firnline_gateway.outbox.journal import OutboxJournal

BATCH = 500
IDLE_S = 1.0  # how often the gauges are set where nothing happens
BACK_OFF_S = 2.0
# A batch that the broker has not confirmed by then is handed over again, so a longer time means
# fewer copies after an outage; the client itself retries all the while.
FLUSH_S = 30.0


class OutboxSender:
    """A daemon thread: a broker that is away must not hold up the end of the process."""

    def __init__(
        self, journal: OutboxJournal, publisher: Publisher, log: Log, now_ms: Callable[[], int]
    ) -> None:
        self._journal = journal
        self._publisher = publisher
        self._log = log
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="outbox-sender", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Send the waiting records for at most `timeout_s`. Return False if the broker did not take
        them all."""
        self._stopping.set()
        self._journal.changed.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def drain(self) -> int:
        """Send all waiting records and return their number. Raises RetryLater if the broker does
        not confirm. The bytes are sent as they were stored; the consumer puts a damaged row
        aside."""
        total = 0
        while records := (batch := self._journal.read_waiting(BATCH).result()).records:
            for record in records:
                with following(record.trace):
                    self._publisher.publish_encoded(record.topic, record.key, record.payload)
            self._publisher.flush(FLUSH_S)
            self._journal.remove_sent(batch).result()
            total += len(records)
        return total

    def _run_loop(self) -> None:
        while True:
            ending = self._stopping.is_set()
            self._journal.changed.clear()
            drained = self._try_to_drain()
            self._set_gauges()
            if ending and drained:
                return
            if drained:
                self._journal.changed.wait(IDLE_S)
            else:
                self._stopping.wait(BACK_OFF_S)

    def _try_to_drain(self) -> bool:
        try:
            self.drain()
        except RetryLater as error:
            self._log.warning("broker_away", why=error)
            return False
        except Exception as error:  # the thread must outlive a client's surprises
            self._log.error("send_failed", error)
            return False
        return True

    def _set_gauges(self) -> None:
        depth, since_ms = self._journal.depth().result()
        metrics.gauge("gateway_outbox_depth", depth)
        age_ms = 0 if since_ms is None else self._now_ms() - since_ms
        metrics.gauge("gateway_outbox_age_seconds", age_ms / 1000)
