"""Start every service: log, settings, metrics; and end it where a setting is wrong."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from firnline_domain.errors import Misconfigured, RetryLater

from firnline_adapters.config.config_file import CONFIG, ConfigFile, read_config, with_config
from firnline_adapters.config.settings import (
    ListenAddress,
    declare_setting,
    from_environment,
    shared_setting,
    shown_settings,
)
from firnline_adapters.kafka.connection import KAFKA, KAFKA_CONFIG, KafkaConnection, with_file
from firnline_adapters.observability import metrics
from firnline_adapters.observability.health import HEALTH
from firnline_adapters.observability.logs import Log, set_format, set_level, start_logging
from firnline_adapters.records.signing import SigningSettings


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(SigningSettings):
    """Settings of every service; its own settings extend this."""

    kafka: str = shared_setting(KAFKA)
    kafka_config: str | None = shared_setting(KAFKA_CONFIG)
    config: str | None = shared_setting(CONFIG)
    buckets: int = declare_setting(
        "FIRNLINE_BUCKETS",
        "Number of buckets when the topics were created. It cannot change afterwards, and must "
        "be the same for all services. Add buckets with `firnline topics --buckets`.",
        8,
    )
    metrics_address: ListenAddress | None = declare_setting(
        "FIRNLINE_METRICS_ADDRESS",
        "`host:port` of `/metrics`, `/healthz` and `/readyz`. A port without a host listens on "
        "loopback, `0.0.0.0:9100` on all interfaces. Unset: disabled.",
        None,
    )
    log_level: str = declare_setting(
        "FIRNLINE_LOG_LEVEL", "Lowest level to log: `DEBUG`, `INFO`, `WARNING` or `ERROR`.", "INFO"
    )

    log_format: str = declare_setting(
        "FIRNLINE_LOG_FORMAT",
        "Log format: `text` (logfmt) or `json` (one object per line).",
        "text",
    )

    @cached_property
    def broker(self) -> KafkaConnection:
        """Return how this service reaches Kafka; its file is read once. Raises Misconfigured."""
        return with_file(self.kafka, self.kafka_config, file=self.file)

    @cached_property
    def file(self) -> ConfigFile | None:
        """Return the content of FIRNLINE_CONFIG, read once. Raises Misconfigured."""
        return read_config(self.config)


S = TypeVar("S", bound=ServiceSettings)
AGAIN = 75  # EX_TEMPFAIL: start me again


def _end_at_sigterm(log: Log) -> None:
    """Exit at SIGTERM until the service installs handlers of its own: the first process of a
    container has no default ones, so a service that waits for Kafka or Spark would ignore the
    signal."""

    def raise_stop(*_: object) -> None:
        log.info("stopped", why="signal received during startup")
        sys.exit(0)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, raise_stop)


@contextmanager
def run_service(
    service: str, kind: type[S], waits_for_kafka: bool = True
) -> Iterator[tuple[S, Log]]:
    """Yield the settings and the log of a service for as long as it runs, once Kafka has answered.
    If a setting is missing or wrong, or Kafka refuses the service, it logs a line for each and
    exits with code 2; with AGAIN if a restart is the remedy. `waits_for_kafka` False: for one that
    serves while Kafka is unreachable."""
    log = start_logging(service)
    _end_at_sigterm(log)
    try:
        settings = from_environment(kind, with_config(os.environ))
        set_level(settings.log_level)
        set_format(service, settings.log_format)
        log.info("starting", **shown_settings(settings))
        metrics.serve_metrics(service, settings.metrics_address)
        from firnline_adapters.kafka.startup import require_kafka  # who lists settings needs none

        probe = require_kafka(service, settings.broker, log, waits_for_kafka)
        (HEALTH.add_requirement if waits_for_kafka else HEALTH.add_optional)(
            "kafka", probe.wait_for_broker
        )
        try:
            yield settings, log
        finally:
            HEALTH.set_ended()
    except Misconfigured as error:
        for line in str(error).splitlines():
            log.error("misconfigured", why=line.strip())
        sys.exit(2)
    except RetryLater as error:
        log.error("starting_anew", why=error)
        sys.exit(AGAIN)
