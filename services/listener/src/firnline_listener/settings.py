"""The listener's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from firnline_adapters.config.config_file import ConfigFile
from firnline_adapters.config.fleet_settings import LISTEN_ADDRESS
from firnline_adapters.config.redaction import mask_environment
from firnline_adapters.config.references import Unresolved, resolve_reference
from firnline_adapters.config.settings import ListenAddress, declare_setting, shared_setting
from firnline_adapters.config.tls import TLS_CERTIFICATE, TLS_KEY
from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.settings import CatalogSettings

OURS = "FIRNLINE_SOURCE__"
Sources = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class ListenerSettings(CatalogSettings):
    """Read once at start."""

    listen_address: ListenAddress = shared_setting(LISTEN_ADDRESS, ListenAddress("127.0.0.1", 8282))
    tls_certificate: str | None = shared_setting(TLS_CERTIFICATE)
    tls_key: str | None = shared_setting(TLS_KEY)
    calls_per_minute: int = declare_setting(
        "FIRNLINE_CALLS_PER_MINUTE",
        "Maximum number of calls of each listener to each catalog per minute.",
        600,
    )


def read_sources(file: ConfigFile | None, environment: Mapping[str, str] = os.environ) -> Sources:
    """Return the properties of each source by name, of the file and of variables
    (`FIRNLINE_SOURCE__WEBHOOKS__KEY`), which win. Raises Misconfigured."""
    found = {name: dict(one) for name, one in (file.sources if file else {}).items()}
    for variable, value in environment.items():
        name, _, key = variable.upper().removeprefix(OURS).partition("__")
        if not (variable.upper().startswith(OURS) and key and value):
            continue
        source, word = (text.replace("__", ".").replace("_", "-").lower() for text in (name, key))
        try:
            found.setdefault(source, {})[word] = resolve_reference(value, environment)
        except Unresolved as error:
            raise Misconfigured(f"{variable} ({error})") from None
        mask_environment({word: found[source][word]})
    return found
