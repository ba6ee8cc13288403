"""What the enricher is told from outside."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once, in `main()`."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    catalog_uri: str = setting(
        "FIRNLINE_CATALOG_URI", "Iceberg REST catalog that tables are loaded from."
    )
    catalog_name: str = setting("FIRNLINE_CATALOG_NAME", "Name of that catalog.", "lake")
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of every table-keyed topic.", 8)
    assign: str = setting(
        "FIRNLINE_ASSIGN",
        "`hash`, or `tables` or `files` where tables may be in another bucket. As the planner's.",
        "hash",
    )
