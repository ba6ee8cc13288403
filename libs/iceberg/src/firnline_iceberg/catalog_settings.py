"""Settings of a service that speaks to catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from firnline_adapters.fleet_settings import CATALOG_URI
from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import shared

from firnline_iceberg.connection import CatalogConnection
from firnline_iceberg.connections import Connections, connections, the_one


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
