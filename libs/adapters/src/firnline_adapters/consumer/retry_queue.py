"""Deliveries that are handled in order, with longer and longer pauses while the first one fails."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from firnline_domain.errors import AccessDenied, RetryLater
from firnline_domain.identity import TableName
from firnline_domain.ports import Delivery

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log

FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
PATIENCE_S = 600.0  # a catalog's or a store's usual outage is over by then
REFUSED_PATIENCE_S = 4 * 3600.0  # a right that is missing waits for a person
SAY_AGAIN_S = 900.0


@dataclass
class RetryQueue:
    """Deliveries of one topic partition, or of one table; other queues go on while it pauses."""

    waiting: deque[Delivery] = field(default_factory=deque)
    not_before: float = 0.0
    newest: float = 0.0  # when the last one came
    _pause: float = FIRST_PAUSE_S
    _failing_since: float | None = None

    def append(self, delivery: Delivery, now: float) -> None:
        """Add a delivery behind the others."""
        self.waiting.append(delivery)
        self.newest = now

    @property
    def is_failing(self) -> bool:
        """True if the last try came to nothing."""
        return self._failing_since is not None

    def back_off(
        self, now: float, error: RetryLater | None = None, patience_s: float | None = None
    ) -> bool:
        """Pause, twice as long each time; True when patience is at its end. `patience_s`: seconds
        from the first failure, None = what the error deserves."""
        metrics.count("retries")
        self._failing_since = now if self._failing_since is None else self._failing_since
        self.not_before, self._pause = now + self._pause, min(self._pause * 2, MAX_PAUSE_S)
        if patience_s is None:
            patience_s = REFUSED_PATIENCE_S if isinstance(error, AccessDenied) else PATIENCE_S
        return now - self._failing_since > patience_s

    def reset_back_off(self) -> None:
        """Note that one was handled: the next failure pauses for the shortest time again."""
        self.not_before, self._pause, self._failing_since = 0.0, FIRST_PAUSE_S, None


@dataclass
class FailureLog:
    """Says why something is tried again: an outage each time, a refusal once for each who is
    refused, and again after `SAY_AGAIN_S`: it does not go away by itself."""

    log: Log
    waits_s: float = REFUSED_PATIENCE_S  # for a person
    _said: dict[str, float] = field(default_factory=dict)

    def log_retry(self, table: TableName | None, error: RetryLater, now: float) -> None:
        """Log that the table is tried again later."""
        if not isinstance(error, AccessDenied):
            self.log.warning("retry_later", table=table, why=error)
            return
        whose = error.of or (table.key if table else "")
        if now - self._said.get(whose, float("-inf")) >= SAY_AGAIN_S:
            self._said[whose] = now
            self.log.error("refused", table=table, why=error, waits=f"{self.waits_s:.0f} s")
