"""Medians, intervals and bars."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A median with its lowest and highest; of five values, these hold the true median with
    94 % (1 - 2/2^5)."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.low:.3g}-{self.high:.3g}]"


def figure(values: Sequence[float]) -> Figure:
    """Raises statistics.StatisticsError for nothing."""
    return Figure(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Bar:
    """What was found, and what it is not to exceed; None = it is only shown."""

    what: str
    limit: float | None
    found: Figure

    @property
    def met(self) -> bool | None:
        return None if self.limit is None else self.found.median <= self.limit

    def __str__(self) -> str:
        if self.limit is None:
            return f"      {self.what}: {self.found}"
        sign = "pass" if self.met else "FAIL"
        return f"{sign}  {self.what}: {self.found}, bar {self.limit:.3g}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def ratio_bar(
    what: str, limit: float | None, ours: Sequence[float], theirs: Sequence[float]
) -> Bar:
    """By pairs: ours and theirs of the same round."""
    return Bar(what, limit, figure([a / b for a, b in zip(ours, theirs, strict=True)]))
