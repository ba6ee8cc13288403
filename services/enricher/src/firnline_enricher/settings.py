"""The enricher's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.fleet_settings import CATALOG_NAME, CATALOG_URI
from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import shared


@dataclass(frozen=True, kw_only=True)
class Settings(ServiceSettings):
    """Read once, in `main()`."""

    catalog_uri: str = shared(CATALOG_URI)
    catalog_name: str = CATALOG_NAME
