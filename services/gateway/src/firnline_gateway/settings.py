"""What the gateway must be told, and by which variable."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once at start; the token is never shown."""

    upstream_uri: str = setting(
        "FIRNLINE_UPSTREAM_URI", "Base URI of the catalog, as its clients used it so far."
    )
    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    port: int = setting("FIRNLINE_GATEWAY_PORT", "Port that writers are pointed to.")
    state_dir: str = setting(
        "FIRNLINE_STATE_DIR", "Directory of the outbox file; each gateway needs its own."
    )
    host: str = setting("FIRNLINE_GATEWAY_HOST", "Address to listen on.", default="127.0.0.1")
    catalog_name: str = setting(
        "FIRNLINE_CATALOG_NAME", "The catalog's name in events.", default="lake"
    )
    catalog_token: str | None = setting(
        "FIRNLINE_CATALOG_TOKEN",
        "Bearer token with which the gateway itself reads tables; none where none is needed.",
        default=None,
        secret=True,
    )
    upstream_timeout_s: float = setting(
        "FIRNLINE_UPSTREAM_TIMEOUT_S",
        "Seconds of the catalog's silence after which a call is answered with 504.",
        default=300.0,
    )
    latch_ms: int = setting(
        "FIRNLINE_LATCH_MS",
        "Longest time, in ms, that reads of a table wait for a commit of the committer's; "
        "0 = never.",
        default=1000,
    )
    hold_ms: int = setting(
        "FIRNLINE_HOLD_MS",
        "Longest time, in ms, that commits to a table wait for one of the committer's that has "
        "lost several races; a quarter of the time at most. 0 = never.",
        default=300,
    )
    scans_s: float = setting(
        "FIRNLINE_SCANS_SECONDS",
        "Seconds between two words on how often tables are read, as clients report it; 0 = never.",
        default=60.0,
    )
    body_bytes: int = setting(
        "FIRNLINE_BODY_BYTES",
        "Longest body of a call, in bytes and without its encoding, that is looked into; of a "
        "longer one the table is read afterwards.",
        default=8 << 20,
    )
    bodies_bytes: int = setting(
        "FIRNLINE_BODIES_BYTES",
        "Bytes of bodies that are kept at once, of all clients; above it, as for longer ones.",
        default=256 << 20,
    )
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of `table-commits`.", default=8)
    assign: str = setting(
        "FIRNLINE_ASSIGN",
        "`hash`, or `tables` or `files` where tables may be in another bucket. As the planner's.",
        "hash",
    )
