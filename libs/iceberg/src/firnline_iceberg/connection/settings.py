"""Settings and health of a service that calls catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from firnline_adapters.config.fleet_settings import CATALOG_URI
from firnline_adapters.config.settings import shared_setting
from firnline_adapters.service import ServiceSettings

from firnline_iceberg.connection.configuration import (
    Connections,
    read_connections,
    single_connection,
)
from firnline_iceberg.connection.connection import CatalogConnection


@dataclass(frozen=True, kw_only=True)
class CatalogSettings(ServiceSettings):
    """Catalogs from the file, from variables, or from the short form."""

    catalog_uri: str | None = shared_setting(CATALOG_URI, None)

    @cached_property
    def connections(self) -> Connections:
        """Return the connections by name; read once. Raises Misconfigured."""
        return read_connections(self.file, self.catalog_uri)

    @cached_property
    def connection(self) -> CatalogConnection:
        """Return the connection of a service that has one catalog. Raises Misconfigured."""
        return single_connection(self.connections)


Check = Callable[[], object]


class Watches(Protocol):
    """`firnline_adapters.observability.health.ServiceHealth`."""

    def add_requirement(self, name: str, check: Check) -> None: ...

    def add_optional(self, name: str, check: Check) -> None: ...


def watch_catalogs(
    health: Watches, connections: Connections, check: Callable[[CatalogConnection], Check]
) -> None:
    """Make a service's health report whether its catalogs answer. With several it is ready without
    one of them: others' tables do not wait for it."""
    if len(connections) == 1:
        health.add_requirement("catalog", check(next(iter(connections.values()))))
        return
    for one in connections.values():
        health.add_optional(f"catalog {one.name}", check(one))
