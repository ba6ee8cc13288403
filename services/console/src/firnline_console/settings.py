"""The console's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.fleet_settings import GROUPS, LISTEN_ADDRESS, REDIS
from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import Address, shared


@dataclass(frozen=True, kw_only=True)
class Settings(ServiceSettings):
    """Read once from the environment."""

    redis: str = shared(REDIS)
    listen_address: Address = shared(LISTEN_ADDRESS, Address("127.0.0.1", 8080))
    groups: str = shared(GROUPS)
    rebuild: bool = False  # the option --rebuild
