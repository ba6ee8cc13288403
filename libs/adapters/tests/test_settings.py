"""Settings: read once, all mistakes named together, secrets never shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from firnline_adapters.settings import from_environment, setting, shown
from firnline_domain.errors import Misconfigured


@dataclass(frozen=True)
class Settings:
    kafka: str = setting("X_KAFKA", "Bootstrap servers.")
    port: int = setting("X_PORT", "Port.", default=8080)
    dry: bool = setting("X_DRY", "Only say what would be done.", default=False)
    token: str | None = setting("X_TOKEN", "Catalog token.", default=None, secret=True)


def test_types_and_defaults() -> None:
    found = from_environment(Settings, {"X_KAFKA": "h:1", "X_PORT": "9", "X_DRY": "yes"})
    assert found == Settings("h:1", 9, True, None)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(Misconfigured) as caught:
        from_environment(Settings, {"X_PORT": "many", "X_DRY": "perhaps"})
    assert all(name in str(caught.value) for name in ("X_KAFKA", "X_PORT", "X_DRY"))


def test_secrets_are_masked() -> None:
    assert shown(Settings("h:1", token="s3cret"))["token"] == "***"
