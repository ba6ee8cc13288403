"""How every service begins: log, settings, metrics; and how it ends where a setting is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from firnline_domain.errors import Misconfigured

from firnline_adapters import metrics
from firnline_adapters.logs import Log, set_level, start_logging
from firnline_adapters.settings import Address, from_environment, setting, shown
from firnline_adapters.signing import SigningSettings


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(SigningSettings):
    """What every service is told; its own settings extend this."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, `host:port[,...]`.")
    buckets: int = setting(
        "FIRNLINE_BUCKETS",
        "Buckets that the fleet began with, the tables' homes: fixed when the topics are made, the "
        "same for the whole fleet. More are added without it (how-to/buckets.md).",
        8,
    )
    metrics_address: Address | None = setting(
        "FIRNLINE_METRICS_ADDRESS",
        "`host:port` for Prometheus; a port alone is on the loopback interface. Unset: none.",
        None,
    )
    log_level: str = setting(
        "FIRNLINE_LOG_LEVEL", "Least severe lines to log: DEBUG, INFO, WARNING or ERROR.", "INFO"
    )


S = TypeVar("S", bound=ServiceSettings)


@contextmanager
def starting(service: str, kind: type[S]) -> Iterator[tuple[S, Log]]:
    """The settings and the log of a service for as long as it runs. Where a setting is missing or
    wrong, a line for each says so and the process ends with exit code 2."""
    log = start_logging(service)
    try:
        settings = from_environment(kind, os.environ)
        set_level(settings.log_level)
        log.info("starting", **shown(settings))
        metrics.serve(service, settings.metrics_address)
        yield settings, log
    except Misconfigured as error:
        for line in str(error).splitlines():
            log.error("misconfigured", why=line.strip())
        sys.exit(2)
