"""Define how long outputs are safe: one age, from which everything follows.

A sweep removes files that no snapshot has. A committer may be about to name them in one. No lock
spans both, so time keeps them apart: what is old enough to be swept is too old to be committed, by
a margin that clocks, pauses and slow catalogs do not use up."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_S
from firnline_domain.base.values import Value

SWEEP_AGE_S = 24 * HOUR_S
MAX_SEND_MS = 10 * 60_000


class Lifetimes(Value):
    """`sweep_age_s`: seconds from which a write-ahead list may be swept; the same everywhere."""

    sweep_age_s: float = SWEEP_AGE_S

    @property
    def sweep_ms(self) -> int:
        """Younger lists are left alone."""
        return int(self.sweep_age_s * 1000)

    @property
    def result_ms(self) -> int:
        """An older result is not committed any more, counted from the start of its task, which
        is before its list was written. Half of the age: the other half is the margin."""
        return self.sweep_ms // 2

    @property
    def send_ms(self) -> int:
        """A commit goes out within so long after its outputs were seen, or they are looked at
        again: a process may be stopped in between, and wake up days later."""
        return min(MAX_SEND_MS, self.sweep_ms // 8)
