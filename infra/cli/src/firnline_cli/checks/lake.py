"""Checks all catalogs that are named, with their storage, clocks and events."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_cli.checks.catalog import CatalogChecks
from firnline_cli.checks.clock import http_clock
from firnline_cli.checks.events import EventsChecks
from firnline_cli.checks.findings import Check, Failed
from firnline_cli.checks.kafka import KafkaChecks
from firnline_cli.checks.settings import OF_CATALOG, Given
from firnline_cli.checks.shared_uuids import shared_uuid_checks
from firnline_cli.checks.storage import StorageChecks

NAMED = (
    "FIRNLINE_CONFIG names a firnline.toml with [catalogs.NAME], or FIRNLINE_CATALOG_URI one that "
    "asks for nothing (docs/deploy/connect-a-catalog.md)"
)


def lake_checks(given: Given, kafka: KafkaChecks) -> Iterator[Check]:
    """Yield the checks that concern the given services."""
    from firnline_domain.errors import Misconfigured
    from firnline_iceberg.connection.configuration import connections_here

    if not given.concerns(OF_CATALOG):
        return
    try:
        found = connections_here(given.environment)
    except Misconfigured as error:
        yield _fail_unnamed(str(error))
        return
    if not found:
        yield _fail_unnamed("none is named")
    catalogs = [CatalogChecks(connection, given) for connection in found.values()]
    for catalog in catalogs:
        yield from catalog.checks()
        tried = "compare our clock with the catalog's"
        config = (f"{catalog.name}.config",)
        yield Check(f"clock.{catalog.name}", tried, http_clock(catalog.connection), config)
        yield from StorageChecks(given, catalog).checks()
        yield from EventsChecks(given, catalog, kafka).checks()
    yield from shared_uuid_checks(catalogs)


def _fail_unnamed(why: str) -> Check:
    def fail() -> str:
        raise Failed(why, NAMED)

    return Check("catalog.named", "read which catalogs there are", fail)
