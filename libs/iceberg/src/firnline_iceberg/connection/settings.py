"""Settings of a service that speaks to catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from firnline_adapters.config.fleet_settings import CATALOG_URI
from firnline_adapters.config.settings import shared
from firnline_adapters.service import ServiceSettings

from firnline_iceberg.connection.configuration import Connections, connections, the_one
from firnline_iceberg.connection.connection import CatalogConnection


@dataclass(frozen=True, kw_only=True)
class CatalogSettings(ServiceSettings):
    """Of the file, of variables, or of the short form."""

    catalog_uri: str | None = shared(CATALOG_URI, None)

    @cached_property
    def connections(self) -> Connections:
        """By name; read once. Raises Misconfigured."""
        return connections(self.file, self.catalog_uri)

    @cached_property
    def connection(self) -> CatalogConnection:
        """Of a service that has one catalog. Raises Misconfigured."""
        return the_one(self.connections)
