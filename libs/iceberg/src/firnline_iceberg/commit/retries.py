"""Commits that are planned anew when another writer's commit came first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from firnline_domain.errors import CatalogUnreachable

T = TypeVar("T")
TRIES = 6  # a writer that commits every second is between two of them by then
WAIT_S = 0.5  # at the most before the second attempt, twice as long before each further one


@dataclass(frozen=True)
class CommitLost:
    """The table has changed since it was read."""

    why: str = "writers were faster"


def commit_with_retries(commit: Callable[[], T | CommitLost]) -> T:
    """Call `commit`, which reads the table, plans and commits, until it does not lose. Raises
    CatalogUnreachable after TRIES attempts."""
    lost = CommitLost()
    for attempt in range(TRIES):
        if attempt:
            time.sleep(random.uniform(0, WAIT_S * 2 ** (attempt - 1)))
        outcome = commit()
        if not isinstance(outcome, CommitLost):
            return outcome
        lost = outcome
    raise CatalogUnreachable(f"{TRIES} attempts to commit failed: {lost.why}")
