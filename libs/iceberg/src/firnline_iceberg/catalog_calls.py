"""What a catalog's answers count for, in the metrics."""

from __future__ import annotations

from collections.abc import Iterable

from firnline_adapters import metrics
from firnline_adapters.metric_list import CATALOG_ERRORS

NO_ANSWER = "none"
REFUSALS = (401, 403, 429)


def count_call(catalog: str, method: str, seconds: float, status: int | None) -> None:
    """Add a call. `status`: of the answer, None where there was none. A conflict (409) and what is
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
