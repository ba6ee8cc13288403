"""Settings: read once, all mistakes named together, secrets never shown."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
from firnline_adapters.config.redaction import redact
from firnline_adapters.config.settings import (
    ListenAddress,
    all_settings,
    declare_setting,
    from_environment,
    shown_settings,
)
from firnline_domain.errors import Misconfigured


@dataclass(frozen=True)
class Settings:
    kafka: str = declare_setting("X_KAFKA", "Bootstrap servers.")
    port: int = declare_setting("X_PORT", "Port.", default=8080)
    dry: bool = declare_setting("X_DRY", "Only say what would be done.", default=False)
    token: str | None = declare_setting("X_TOKEN", "Catalog token.", default=None, secret=True)
    metrics: ListenAddress | None = declare_setting("X_METRICS", "Where metrics are.", default=None)
    limit: int = 7


def test_types_and_defaults() -> None:
    found = from_environment(Settings, {"X_KAFKA": "h:1", "X_PORT": "9", "X_DRY": "yes"})
    assert found == Settings("h:1", 9, True, None)


def test_a_field_without_a_variable_is_no_setting() -> None:
    found = from_environment(Settings, {"X_KAFKA": "h:1", "LIMIT": "9", "limit": "9"})
    assert found.limit == 7
    assert "limit" not in shown_settings(found)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(Misconfigured) as caught:
        from_environment(Settings, {"X_PORT": "many", "X_DRY": "perhaps"})
    assert all(name in str(caught.value) for name in ("X_KAFKA", "X_PORT", "X_DRY"))


def test_secrets_are_masked() -> None:
    assert shown_settings(Settings("h:1", token="s3cret"))["token"] == "***"


def test_the_password_of_a_uri_is_masked_and_the_rest_is_shown() -> None:
    found = from_environment(Settings, {"X_KAFKA": "redis://me:s3cret-1@h:1/0"})
    assert shown_settings(found)["kafka"] == "redis://***@h:1/0"


def test_a_secret_that_cannot_be_read_is_not_quoted() -> None:
    with pytest.raises(Misconfigured) as caught:
        from_environment(Settings, {"X_KAFKA": "h", "X_PORT": "http://u:s3cret-2@h"})
    assert "X_PORT=" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_what_the_environment_holds_is_masked_wherever_it_is_quoted() -> None:
    given = {"X_KAFKA": "h:1", "X_TOKEN": "plain-s3cret", "SOME_PASSWORD": "other/s3cret word",
             "X_URL": "http://u:3rd%2Fs3cret@h", "TOKEN_FILE": "/a", "A_TOKEN": "7"}  # fmt: skip
    from_environment(Settings, given)
    text = redact("got plain-s3cret, other/s3cret word, other%2Fs3cret%20word, 3rd/s3cret")
    assert text == "got ***, ***, ***, ***"
    assert redact("/a has 7") == "/a has 7"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9090", "127.0.0.1", 9090),
        (":9090", "127.0.0.1", 9090),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:80", "::1", 80),
    ],
)
def test_an_address_is_on_loopback_unless_it_says_where(text: str, host: str, port: int) -> None:
    found = from_environment(Settings, {"X_KAFKA": "h:1", "X_METRICS": text}).metrics
    assert found == ListenAddress(host, port)
    assert ListenAddress.parse(str(found)) == found


@pytest.mark.parametrize("text", ["here", "h:", "h:70000", "h:http"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"X_METRICS=.*host:port"):
        from_environment(Settings, {"X_KAFKA": "h:1", "X_METRICS": text})


SCRIPT = """
import sys
from firnline_adapters.config.settings import all_settings
found = {one.variable for one in all_settings()}
heavy = {"pyspark", "pyiceberg", "confluent_kafka", "redis", "aiohttp", "faust"}
print(*sorted(found), *(heavy & set(sys.modules)))
"""


def test_all_settings_are_listed_and_no_service_is_loaded() -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    found = {one.variable: one for one in all_settings()}
    assert told.stdout.split() == sorted(found)
    assert len(found) <= 40
    assert found["FIRNLINE_KAFKA"].is_required
    assert len(found["FIRNLINE_KAFKA"].services) == 7
    assert found["FIRNLINE_SIGNING_KEYS"].secret
    assert found["FIRNLINE_DELETE_SET_BYTES"].default == 1024**3


def test_the_end_of_a_variables_name_is_its_unit() -> None:
    units = {one.variable: one.unit for one in all_settings()}
    assert units["FIRNLINE_DELETE_SET_BYTES"] == "bytes"
    assert units["FIRNLINE_GRACE_SECONDS"] == "seconds"
    assert units["FIRNLINE_KAFKA"] == ""
    other = ("_S", "_MS", "_MB", "_H", "_HOURS", "_MEMORY", "_AGE")
    assert [name for name in units if name.endswith(other) and not units[name]] == []


def test_a_variable_has_one_meaning() -> None:
    """Services may have other defaults of it, and nothing else."""
    meant: dict[str, tuple[str, bool, bool]] = {}
    for one in all_settings():
        assert one.variable.startswith("FIRNLINE_")
        meaning = (one.about, one.secret, one.is_required)
        assert meant.setdefault(one.variable, meaning) == meaning
