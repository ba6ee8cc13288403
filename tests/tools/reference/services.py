"""Settings and metrics of the services."""

from __future__ import annotations

from firnline_adapters.config.settings import Setting, all_settings
from firnline_adapters.observability.metric_list import ALL, LONG, METRICS, Metric
from firnline_adapters.observability.metrics import BUCKETS_S, LONG_BUCKETS_S, known_series

from tests.tools.reference.markdown import cell, quoted, table


def settings() -> str:
    """Return the table of all environment variables."""
    return table("variable | default | read by | meaning", map(_row_of_setting, all_settings()))


def _row_of_setting(setting: Setting) -> str:
    default = "unset" if setting.default in ("", None) else f"`{setting.default}`"
    default = "required" if setting.is_required else default
    services = ", ".join(setting.services)
    return f"`{setting.variable}` | {default} | {services} | {cell(setting.about)}"


def series() -> str:
    """Return the table of the numbers of series at the start of a service."""
    return table("service | series", (f"{name} | {_count_series(name)}" for name in ALL))


def _count_series(service: str) -> int:
    total = 1  # `build_info`
    for metric, known in known_series(service):
        buckets = LONG_BUCKETS_S if metric.name in LONG else BUCKETS_S
        each = len(buckets) + 3 if metric.kind == "histogram" else 1  # +Inf, sum and count
        total += each * len(known)
    return total


def metrics() -> str:
    """Return the table of all metrics."""
    head = "metric | type | labels | services | meaning"
    return table(head, map(_row_of_metric, METRICS.values()))


def _row_of_metric(metric: Metric) -> str:
    services = "all" if metric.services == ALL else ", ".join(metric.services)
    return (
        f"`{metric.prometheus_name}` | {metric.kind} | {quoted(metric.labels)} | {services} | "
        f"{cell(metric.meaning)}"
    )
