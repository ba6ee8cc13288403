"""Settings: read once, all mistakes named together, secrets never shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from firnline_adapters.redaction import redacted
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


def test_the_password_of_a_uri_is_masked_and_the_rest_is_shown() -> None:
    found = from_environment(Settings, {"X_KAFKA": "redis://me:s3cret-1@h:1/0"})
    assert shown(found)["kafka"] == "redis://***@h:1/0"


def test_a_secret_that_cannot_be_read_is_not_quoted() -> None:
    with pytest.raises(Misconfigured) as caught:
        from_environment(Settings, {"X_KAFKA": "h", "X_PORT": "http://u:s3cret-2@h"})
    assert "X_PORT=" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_what_the_environment_holds_is_masked_wherever_it_is_quoted() -> None:
    given = {"X_KAFKA": "h:1", "X_TOKEN": "plain-s3cret", "SOME_PASSWORD": "other/s3cret word",
             "X_URL": "http://u:3rd%2Fs3cret@h", "TOKEN_FILE": "/a", "A_TOKEN": "7"}  # fmt: skip
    from_environment(Settings, given)
    text = redacted("got plain-s3cret, other/s3cret word, other%2Fs3cret%20word, 3rd/s3cret")
    assert text == "got ***, ***, ***, ***"
    assert redacted("/a has 7") == "/a has 7"
