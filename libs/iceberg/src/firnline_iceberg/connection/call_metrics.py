"""Measure a catalog's answers beside their content: counts for the metrics, and the time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime

from firnline_adapters.observability import metrics
from firnline_adapters.observability.metric_list import CATALOG_ERRORS

NO_ANSWER = "none"
REFUSALS = (401, 403, 429)
_dates: dict[str, tuple[float, float]] = {}  # catalog -> its clock, and ours that nobody sets


def count_call(catalog: str, method: str, seconds: float, status: int | None) -> None:
    """Add a call. `status`: of the answer, None if there was none. A conflict (409) and what is
    not there (404) are answers like others."""
    metrics.observe("catalog_seconds", seconds, catalog=catalog, method=method)
    if status is None:
        metrics.count("catalog_errors", catalog=catalog, status=NO_ANSWER)
    elif status >= 500 or status in REFUSALS:
        metrics.count("catalog_errors", catalog=catalog, status=str(status))


def declare_catalogs(names: Iterable[str]) -> None:
    """Show the errors of these at 0 before their first."""
    for name in names:
        for status in CATALOG_ERRORS:
            metrics.count("catalog_errors", 0, catalog=name, status=status)


def note_date(catalog: str, headers: Mapping[str, str]) -> None:
    """Keep what time it is by an answer of a catalog."""
    if (now_s := parse_date(headers)) is not None:
        _dates[catalog] = (now_s, time.monotonic())


def catalog_now_ms(catalog: str) -> int | None:
    """Return a catalog's clock, in milliseconds since 1970, by its newest answer and the time since
    then; None if it dates none. Answers are dated in whole seconds: the last moment of it."""
    if (known := _dates.get(catalog)) is None:
        return None
    now_s, at_s = known
    return int((now_s + time.monotonic() - at_s) * 1000) + 999


def parse_date(headers: Mapping[str, str]) -> float | None:
    """Parse HTTP's `Date` into seconds since 1970; None if there is none, or it cannot be
    parsed."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None
