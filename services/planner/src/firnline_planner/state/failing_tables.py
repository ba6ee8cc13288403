"""Failing tables of a bucket: which step fails, and when it is tried again."""

from __future__ import annotations

from firnline_domain.base.values import Value
from firnline_domain.records.pauses import HoldReason, TableHold

RETRY_MS = 10_000  # after the first failure; doubles with each
RETRY_MAX_MS = 600_000
MAX_ERROR_CHARS = 500
# Steps of a tick. The schedule repeats the first two; the others are asked for anew, or are not.
RECONCILE, PUBLISH, ORDER, FORGET, MOVE = "reconcile", "publish", "order", "forget", "move"


class Failure(Value):
    """A step that fails: since when, and how long it rests since the last try."""

    since_ms: int
    begun_ms: int
    pause_ms: int
    error: str

    @property
    def again_ms(self) -> int:
        """Return the time of the next attempt."""
        return self.begun_ms + self.pause_ms


class FailingTables:
    """Steps that fail, by table. In memory alone: after a start each is tried at once."""

    def __init__(self) -> None:
        self._failures: dict[bytes, dict[str, Failure]] = {}
        self._noted: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._failures)

    def failure(self, key: bytes, step: str) -> Failure | None:
        """Return how a step of a table fails, if it does."""
        return self._failures.get(key, {}).get(step)

    def note_failure(self, key: bytes, step: str, error: Exception, now_ms: int) -> Failure:
        """Note one more failure of a step; its pause doubles."""
        known, text = self.failure(key, step), f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        pause_ms = RETRY_MS if known is None else min(known.pause_ms * 2, RETRY_MAX_MS)
        since_ms = now_ms if known is None else min(known.since_ms, now_ms)
        failure = Failure(since_ms, now_ms, pause_ms, text)
        self._failures.setdefault(key, {})[step] = failure
        self._noted.add(key)
        return failure

    def clear_failure(self, key: bytes, step: str) -> None:
        """Note that a step is done."""
        steps = self._failures.get(key, {})
        if step in steps:
            del steps[step]
            if not steps:
                del self._failures[key]

    def drop_table(self, key: bytes) -> None:
        """Forget a removed table."""
        self._failures.pop(key, None)

    def drop_old(self, now_ms: int) -> None:
        """Forget steps that nothing has asked for again since they might have been tried."""
        for key, steps in list(self._failures.items()):
            for step, one in list(steps.items()):
                if now_ms > one.again_ms + RETRY_MAX_MS:
                    self.clear_failure(key, step)

    def take_noted(self) -> set[bytes]:
        """Return the tables that have failed since this was asked last."""
        noted, self._noted = self._noted, set()
        return noted

    def hold_of(self, key: bytes, doing: str = "") -> TableHold | None:
        """Return the hold that a published state contains for a failing table. `doing`: a step that
        is under way, and succeeds if its state is ever read."""
        steps = {name: one for name, one in self._failures.get(key, {}).items() if name != doing}
        if not steps:
            return None
        step, failure = min(steps.items(), key=lambda one: one[1].since_ms)
        detail = f"{step}: {failure.error}"
        return TableHold(HoldReason.FAILING, failure.again_ms, failure.since_ms, detail)
