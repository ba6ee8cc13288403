"""The enricher's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_iceberg.connection.settings import CatalogSettings


@dataclass(frozen=True, kw_only=True)
class EnricherSettings(CatalogSettings):
    """Read once, in `main()`."""
