"""Counts, gauges and times of a service, and the server that shows them to Prometheus.

A service declares its metrics when it starts, with every label value that is known beforehand: an
alarm on the first event needs a series that was 0 before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product

from firnline_domain.errors import Misconfigured
from firnline_domain.version import VERSION
from firnline_schemas.topics import all_topics
from prometheus_client import (
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability import health
from firnline_adapters.observability.metric_list import AT_SCRAPE, LONG, METRICS
from firnline_adapters.observability.metric_list import Metric as MetricInfo

BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
HOUR_S = 3_600.0
LONG_BUCKETS_S = (
    *(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800),
    *(HOUR_S, 4 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S, 7 * 24 * HOUR_S),
)
Family = Counter | Gauge | Histogram
Measure = Callable[[], Mapping[tuple[str, ...], float]]
"""The values of a gauge by the values of its labels, in their order."""
_made: dict[str, Family] = {}
_making = threading.Lock()  # the library refuses a second one of a name

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series


def count(name: str, amount: float = 1, **labels: str) -> None:
    """Add to a counter of `METRICS`, with all of its labels."""
    metric = _metric_family(name)
    assert isinstance(metric, Counter)
    (metric.labels(**labels) if labels else metric).inc(amount)


def gauge(name: str, value: float, **labels: str) -> None:
    """Set a gauge."""
    metric = _metric_family(name)
    assert isinstance(metric, Gauge)
    (metric.labels(**labels) if labels else metric).set(value)


def observe(name: str, value: float, **labels: str) -> None:
    """Put a value, in seconds, into a histogram."""
    metric = _metric_family(name)
    assert isinstance(metric, Histogram)
    (metric.labels(**labels) if labels else metric).observe(value)


class _AtScrape(Collector):
    """A gauge whose series are what its measures find at the moment: what is not found has none."""

    def __init__(self, name: str) -> None:
        self._metric = METRICS[name]
        self._measures = list[Measure]()
        self._measuring = threading.Lock()

    def add(self, measure: Measure) -> None:
        """Call the measure at each scrape from now on."""
        with self._measuring:
            self._measures.append(measure)

    def remove(self, measure: Measure) -> None:
        """Stop calling the measure. When this returns it is not running any more: what it reads may
        be closed then."""
        with self._measuring:
            self._measures.remove(measure)

    def describe(self) -> list[Metric]:
        """Return nothing: no measure is called before a scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; the library calls it."""
        family = GaugeMetricFamily(
            f"firnline_{self._metric.name}", self._metric.meaning, labels=list(self._metric.labels)
        )
        with self._measuring:
            for measure in self._measures:
                for labels, value in measure().items():
                    family.add_metric(labels, value)
        yield family


_at_scrape: dict[str, _AtScrape] = {}


@contextmanager
def measure_at_scrape(name: str, measure: Measure) -> Iterator[None]:
    """Set a gauge of AT_SCRAPE meanwhile to what `measure` returns, which is called on a thread of
    the server that shows the metrics, and raises nothing."""
    with _making:
        if name not in _at_scrape:
            _at_scrape[name] = _AtScrape(name)
            REGISTRY.register(_at_scrape[name])
    _at_scrape[name].add(measure)
    try:
        yield
    finally:
        _at_scrape[name].remove(measure)


def _metric_family(name: str) -> Family:
    if name not in _made:
        with _making:
            if name not in _made:
                _made[name] = _new_family(name)
    return _made[name]


def _new_family(name: str) -> Family:
    metric, full = METRICS[name], f"firnline_{name}"
    if metric.kind == "histogram":
        buckets = LONG_BUCKETS_S if name in LONG else BUCKETS_S
        return Histogram(full, metric.meaning, list(metric.labels), buckets=buckets)
    kind = Counter if metric.kind == "counter" else Gauge
    return kind(full, metric.meaning, list(metric.labels))


def known_series(service: str) -> Iterator[tuple[MetricInfo, list[tuple[str, ...]]]]:
    """Yield the metrics that a service keeps, each with the label values of the series that are
    known beforehand."""
    written = [one.name for one in all_topics() if service in one.written_by]
    topics = {
        "records_read": [one.name for one in all_topics() if service in one.read_by],
        "records_written": written,
        "records_shrunk": written,
    }
    for metric in METRICS.values():
        if service in metric.services and metric.name not in AT_SCRAPE:
            known = [topics.get(metric.name, values) for values in metric.labels.values()]
            yield metric, list(product(*known))


def declare(service: str) -> None:
    """Make every series of a service that is known beforehand, at 0."""
    for metric, known in known_series(service):
        family = _metric_family(metric.name)
        for values in known if metric.labels else ():
            family.labels(*values)
    gauge("build_info", 1, version=VERSION, service=service)


def serve_metrics(service: str, address: ListenAddress | None) -> None:
    """Declare a service's metrics and show them, with its health; None shows nothing. Raises
    Misconfigured."""
    if address is None:
        return
    declare(service)
    try:
        health.serve_health(address)
    except OSError as error:
        raise Misconfigured(f"FIRNLINE_METRICS_ADDRESS={address}: {error}") from error
