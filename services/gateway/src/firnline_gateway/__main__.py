"""`python -m firnline_gateway`: serve until told to stop."""

from __future__ import annotations

import asyncio

from firnline_adapters.kafka.assignments import FollowedAssignments
from firnline_adapters.kafka.client import KafkaPublisher
from firnline_adapters.observability.health import HEALTH
from firnline_adapters.records.signing import signer_of
from firnline_adapters.service import run_service
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs

from firnline_gateway.bootstrap import serve
from firnline_gateway.settings import GatewaySettings


def main() -> None:
    """Run the gateway; exit with code 2 if a setting is missing or wrong."""
    with run_service("gateway", GatewaySettings, waits_for_kafka=False) as (settings, log):
        watch_catalogs(HEALTH, settings.upstreams, catalog_answers)
        signer = signer_of(settings)
        fleet = (settings.broker, settings.buckets)
        places = FollowedAssignments(*fleet, log, signer)
        publisher = KafkaPublisher(*fleet, "firnline-gateway", places, signer)
        statistics = KafkaPublisher(*fleet, "firnline-gateway-scans", signer=signer)
        asyncio.run(serve(settings, publisher, log, statistics))


if __name__ == "__main__":
    main()
