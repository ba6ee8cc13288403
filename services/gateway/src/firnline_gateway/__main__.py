"""`python -m firnline_gateway`: serve until told to stop."""

from __future__ import annotations

import asyncio
import os
import sys

from firnline_adapters import metrics
from firnline_adapters.assignments import places_of
from firnline_adapters.kafka import KafkaPublisher
from firnline_adapters.logs import start_logging
from firnline_adapters.settings import from_environment, shown
from firnline_adapters.signing import signer_of
from firnline_domain.errors import Misconfigured

from firnline_gateway.bootstrap import serve
from firnline_gateway.settings import Settings


def main() -> None:
    """Exit code 2 where a setting is missing or wrong."""
    log = start_logging("gateway")
    try:
        settings = from_environment(Settings, os.environ)
        log.info("starting", **shown(settings))
        metrics.serve(settings.metrics_port)
        signer = signer_of(settings)
        fleet = (settings.kafka, settings.buckets)
        places = places_of(settings.assign, *fleet, log, signer)
        publisher = KafkaPublisher(*fleet, "firnline-gateway", places, signer)
        statistics = KafkaPublisher(*fleet, "firnline-gateway-scans", signer=signer)
        asyncio.run(serve(settings, publisher, log, statistics))
    except Misconfigured as error:
        log.error("misconfigured", why=error)
        sys.exit(2)


if __name__ == "__main__":
    main()
