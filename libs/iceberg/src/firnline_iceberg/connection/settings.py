"""Settings and health of a service that calls catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from firnline_adapters.config.fleet_settings import CATALOG_URI
from firnline_adapters.config.settings import shared
from firnline_adapters.service import ServiceSettings

from firnline_iceberg.connection.configuration import Connections, connections, the_one
from firnline_iceberg.connection.connection import CatalogConnection


@dataclass(frozen=True, kw_only=True)
class CatalogSettings(ServiceSettings):
    """Catalogs from the file, from variables, or from the short form."""

    catalog_uri: str | None = shared(CATALOG_URI, None)

    @cached_property
    def connections(self) -> Connections:
        """Return the connections by name; read once. Raises Misconfigured."""
        return connections(self.file, self.catalog_uri)

    @cached_property
    def connection(self) -> CatalogConnection:
        """Return the connection of a service that has one catalog. Raises Misconfigured."""
        return the_one(self.connections)


Check = Callable[[], object]


class Watches(Protocol):
    """`firnline_adapters.observability.health.Health`."""

    def needs(self, name: str, check: Check) -> None: ...

    def uses(self, name: str, check: Check) -> None: ...


def watched(
    health: Watches, connections: Connections, check: Callable[[CatalogConnection], Check]
) -> None:
    """Make a service's health report whether its catalogs answer. With several it is ready without
    one of them: others' tables do not wait for it."""
    if len(connections) == 1:
        health.needs("catalog", check(next(iter(connections.values()))))
        return
    for one in connections.values():
        health.uses(f"catalog {one.name}", check(one))
