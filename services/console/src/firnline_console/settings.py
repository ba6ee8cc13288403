"""The console's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.config.fleet_settings import GROUPS, LISTEN_ADDRESS, REDIS
from firnline_adapters.config.settings import ListenAddress, shared_setting
from firnline_adapters.config.tls import TLS_CERTIFICATE, TLS_KEY
from firnline_adapters.service import ServiceSettings


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(ServiceSettings):
    """The settings, read once from the environment."""

    redis: str = shared_setting(REDIS)
    listen_address: ListenAddress = shared_setting(LISTEN_ADDRESS, ListenAddress("127.0.0.1", 8080))
    tls_certificate: str | None = shared_setting(TLS_CERTIFICATE)
    tls_key: str | None = shared_setting(TLS_KEY)
    groups: str = shared_setting(GROUPS)
    rebuild: bool = False  # the option --rebuild
