"""The gateway's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from firnline_adapters.config.fleet_settings import LISTEN_ADDRESS, STATE_DIR
from firnline_adapters.config.settings import ListenAddress, declare_setting, shared_setting
from firnline_adapters.config.tls import TLS_CERTIFICATE, TLS_KEY
from firnline_adapters.service import ServiceSettings
from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.configuration import (
    Connections,
    read_connections,
    single_connection,
)
from firnline_iceberg.connection.connection import NAME, CatalogConnection
from firnline_iceberg.connection.properties import UPSTREAM

_ASKED = "FIRNLINE_UPSTREAM_URI"


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(ServiceSettings):
    """Read once at start."""

    upstream_uri: str | None = declare_setting(
        "FIRNLINE_UPSTREAM_URI",
        "Base URI of the catalog behind the gateway. Use it instead of `firnline.upstream-uri` "
        "in `FIRNLINE_CONFIG`.",
        None,
    )
    listen_address: ListenAddress = shared_setting(LISTEN_ADDRESS, ListenAddress("127.0.0.1", 8181))
    tls_certificate: str | None = shared_setting(TLS_CERTIFICATE)
    tls_key: str | None = shared_setting(TLS_KEY)
    state_dir: str = shared_setting(STATE_DIR)
    commit_wait_s: float = declare_setting(
        "FIRNLINE_COMMIT_WAIT_SECONDS",
        "Maximum delay of a call while Firnline commits to the same table: a read up to this "
        "time, another client's commit up to 0.15 of it. `0`: no delay.",
        2.0,
    )
    scan_report_s: float = declare_setting(
        "FIRNLINE_SCAN_REPORT_SECONDS",
        "Interval of the records with the read rates of tables. `0`: no such records.",
        60.0,
    )
    # A catalog that is silent for so long is answered for with 504.
    upstream_timeout_s: float = 300.0
    # A longer body of a call, without its encoding, is not parsed: the table is read afterwards, at
    # the price of one load. So the limit costs no event, and bounds the memory of one call.
    body_bytes: int = 8 << 20
    # Of all bodies that are kept at once, 32 of the longest; above it, as for longer ones.
    bodies_bytes: int = 256 << 20

    @cached_property
    def named_catalogs(self) -> Connections:
        """Return the configured catalogs, read once. FIRNLINE_CATALOG_URI is none of them: it is
        the gateway's own address, for its clients. Raises Misconfigured."""
        return read_connections(self.file)

    @cached_property
    def upstreams(self) -> Connections:
        """Return the catalogs behind the gateway by name, and how the gateway calls them; the first
        one is also at the root. Raises Misconfigured."""
        named = self.named_catalogs
        if not named:
            if self.upstream_uri is None:
                raise Misconfigured(f"{_ASKED} is not set: the URI of the catalog behind us")
            return {NAME: CatalogConnection(NAME, {"uri": self.upstream_uri})}
        behind = {name: one for name, one in named.items() if UPSTREAM in one.properties}
        if self.upstream_uri is None or len(behind) > 1:
            if self.upstream_uri is not None:
                raise Misconfigured(f"{_ASKED}: the file names {', '.join(behind)}; take it out")
            if not behind:
                raise Misconfigured(
                    f"{UPSTREAM} is in none of {_section_list(named)}: the URI of each catalog "
                    f"that is behind this gateway, or {_ASKED} for one"
                )
            return {
                name: one.behind_gateway(one.properties[UPSTREAM]) for name, one in behind.items()
            }
        found = next(iter(behind.values())) if behind else single_connection(named)
        if found.properties.get(UPSTREAM, self.upstream_uri) != self.upstream_uri:
            raise Misconfigured(f"{_ASKED} and {UPSTREAM} differ: take one of them out")
        return {found.name: found.behind_gateway(self.upstream_uri)}

    @cached_property
    def mounts_catalogs(self) -> bool:
        """Return whether each catalog is also mounted below its name; a client that names none uses
        the first one, at the root."""
        return bool(self.named_catalogs)


def _section_list(names: Iterable[str]) -> str:
    return ", ".join(f"[catalogs.{name}]" for name in names)
