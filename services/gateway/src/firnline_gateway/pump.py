"""Events from the outbox to the broker, in order; each is forgotten when the broker has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from firnline_adapters import metrics
from firnline_adapters.dead_letters import send_to_dead_letters
from firnline_adapters.logs import Log
from firnline_adapters.records import RecordCodec
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.ports import Publisher
from firnline_domain.records.events import DeadLettered
from firnline_domain.records.shrinking import MAX_TEXT

from firnline_gateway.journal import Journal

TOPIC = "table-commits"
BATCH = 500
IDLE_S = 1.0  # how often the gauges are set where nothing happens
BACK_OFF_S = 2.0
# A batch that the broker has not confirmed by then is handed over again, so a longer time means
# fewer copies after an outage; the client itself retries all the while.
FLUSH_S = 30.0


class Pump:
    """A daemon thread: a broker that is away must not hold up the end of the process."""

    def __init__(
        self, journal: Journal, publisher: Publisher, log: Log, now_ms: Callable[[], int]
    ) -> None:
        self._journal = journal
        self._publisher = publisher
        self._log = log
        self._now_ms = now_ms
        self._codec = RecordCodec()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Send what waits, for at most `timeout_s`. False if the broker did not take it all."""
        self._stopping.set()
        self._journal.changed.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def drain(self) -> int:
        """Send all that waits and count it. Raises RetryLater where the broker does not confirm."""
        total = 0
        while payloads := (batch := self._journal.waiting(BATCH).result()).payloads:
            for payload in payloads:
                self._send_safely(payload)
            self._publisher.flush(FLUSH_S)
            self._journal.sent(batch).result()
            total += len(payloads)
        return total

    def _send_safely(self, payload: Any) -> None:
        """One row that cannot be sent, whatever is wrong with it, is put aside: the rows behind it,
        of other tables, wait for nothing. One that is too large the publisher puts aside."""
        try:
            event = self._codec.decode(payload)
            sent = self._publisher.publish(TOPIC, event.table.uuid, event)
        except RetryLater:
            raise
        except Exception as error:  # written by another version of this code, or damaged
            self._log.error("event_unreadable", error)
            send_to_dead_letters(self._publisher, self._letter(payload, error))
            return
        if not sent:
            self._log.error("event_too_large", table=event.table.dotted[:200])

    def _letter(self, payload: Any, error: Exception) -> DeadLettered:
        reason = error.reason if isinstance(error, PoisonousRecord) else "unusable"
        return DeadLettered(
            topic=TOPIC,
            partition=-1,  # nobody could read whose it is
            offset=-1,
            key=None,
            value=payload if isinstance(payload, bytes) else repr(payload).encode(),
            reason=reason,
            message=str(error)[:MAX_TEXT],
            service="gateway",
            at_ms=self._now_ms(),
        )

    def _run(self) -> None:
        while True:
            ending = self._stopping.is_set()
            self._journal.changed.clear()
            quiet = self._try()
            self._show()
            if ending and quiet:
                return
            if quiet:
                self._journal.changed.wait(IDLE_S)
            else:
                self._stopping.wait(BACK_OFF_S)

    def _try(self) -> bool:
        try:
            self.drain()
        except RetryLater as error:
            self._log.warning("broker_away", why=error)
            return False
        except Exception as error:  # the thread must outlive a client's surprises
            self._log.error("send_failed", error)
            return False
        return True

    def _show(self) -> None:
        depth, since_ms = self._journal.depth().result()
        metrics.gauge("gateway_outbox_depth", depth)
        age_ms = 0 if since_ms is None else self._now_ms() - since_ms
        metrics.gauge("gateway_outbox_age_seconds", age_ms / 1000)
