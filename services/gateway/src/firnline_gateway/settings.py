"""The gateway's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.fleet_settings import (
    CATALOG_NAME,
    LISTEN_ADDRESS,
    STATE_DIR,
)
from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import Address, setting, shared
from firnline_adapters.tls import TLS_CERTIFICATE, TLS_KEY


@dataclass(frozen=True, kw_only=True)
class Settings(ServiceSettings):
    """Read once at start; the token is never shown."""

    upstream_uri: str = setting(
        "FIRNLINE_UPSTREAM_URI", "Base URI of the catalog, as its clients used it so far."
    )
    listen_address: Address = shared(LISTEN_ADDRESS, Address("127.0.0.1", 8181))
    tls_certificate: str | None = shared(TLS_CERTIFICATE)
    tls_key: str | None = shared(TLS_KEY)
    state_dir: str = shared(STATE_DIR)
    catalog_name: str = CATALOG_NAME
    catalog_token: str | None = setting(
        "FIRNLINE_CATALOG_TOKEN",
        "Bearer token with which the gateway itself reads tables; none where none is needed.",
        None,
        secret=True,
    )
    commit_wait_s: float = setting(
        "FIRNLINE_COMMIT_WAIT_SECONDS",
        "Longest time that a call waits for a commit of the committer's to the same table: a read "
        "all of it, another's commit 0.3 of it. 0: none waits.",
        1.0,
    )
    scan_report_s: float = setting(
        "FIRNLINE_SCAN_REPORT_SECONDS",
        "Time between two records on how often tables are read, as clients report it. 0: none.",
        60.0,
    )
    # A catalog that is silent for so long is answered for with 504.
    upstream_timeout_s: float = 300.0
    # A longer body of a call, without its encoding, is not parsed: the table is read afterwards, at
    # the price of one load. So the limit costs no event, and bounds the memory of one call.
    body_bytes: int = 8 << 20
    # Of all bodies that are kept at once, 32 of the longest; above it, as for longer ones.
    bodies_bytes: int = 256 << 20
