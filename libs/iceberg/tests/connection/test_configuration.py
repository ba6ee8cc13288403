"""Catalogs from a file, from variables, and from PyIceberg's own settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from firnline_adapters.config.config_file import read_config, with_config
from firnline_adapters.config.redaction import redact
from firnline_adapters.kafka.connection import connection_here
from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.configuration import connections_here, single_connection

FILE = """
[catalogs.lake]
uri = "https://gateway:8181"
warehouse = "file:///srv/wh"
credential = "file:{secret}"
s3.endpoint = "http://127.0.0.1:7070"
"s3.secret-access-key" = "${{S3_SECRET}}"
s3.path-style-access = true

[catalogs.other]
uri = "http://other"
token = "static-cAnAry"

[kafka]
bootstrap.servers = "b:9093"
client.rack = "${{RACK}}"

[spark]
spark.executor.memory = "2g"

[redis]
url = "rediss://u:r-cAnAry@h:6379/0"
"""
Write = Callable[..., dict[str, str]]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """The environment of a file, and of more variables."""

    def write(text: str = FILE, **more: str) -> dict[str, str]:
        (tmp_path / "secret").write_text("client:file-cAnAry\n")
        path = tmp_path / "firnline.toml"
        path.write_text(text.format(secret=tmp_path / "secret") if text is FILE else text)
        given = {"HOME": str(tmp_path), "S3_SECRET": "env-cAnAry", "RACK": "r1"}
        return {**given, "FIRNLINE_CONFIG": str(path), **more}

    return write


def test_a_file_names_catalogs_kafka_and_redis(written: Write) -> None:
    environment = written()
    found = connections_here(environment)
    assert list(found) == ["lake", "other"]
    assert found["lake"].properties == {
        "uri": "https://gateway:8181",
        "warehouse": "file:///srv/wh",
        "credential": "client:file-cAnAry",
        "s3.endpoint": "http://127.0.0.1:7070",
        "s3.secret-access-key": "env-cAnAry",
        "s3.path-style-access": "true",
    }
    told = with_config(environment)
    assert (told["FIRNLINE_KAFKA"], told["FIRNLINE_REDIS"][:9]) == ("b:9093", "rediss://")
    assert connection_here("b:9093", environment).properties == {"client.rack": "r1"}
    text = "file-cAnAry env-cAnAry static-cAnAry r-cAnAry"
    assert redact(text) == "*** *** *** ***"


def test_variables_win_over_the_file_and_pyiceberg_fills_in(written: Write, tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n    uri: http://direct\n    scope: all\n    auth:\n      type: oauth2\n"
        "  unnamed:\n    uri: http://unnamed\n"
    )
    more = {
        "FIRNLINE_CATALOG__LAKE__S3__ENDPOINT": "http://else",
        "PYICEBERG_CATALOG__LAKE__PREFIX": "main",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": "theirs",
        "FIRNLINE_CATALOG__OTHER_TWO__URI": "http://two",
    }
    found = connections_here(written(**more))
    lake = found["lake"].properties
    assert list(found) == ["lake", "other", "other-two"]
    assert (lake["uri"], lake["s3.endpoint"]) == ("https://gateway:8181", "http://else")
    assert (lake["scope"], lake["prefix"], lake["rest.auth.type"]) == ("all", "main", "oauth2")
    assert lake["warehouse"] == "file:///srv/wh"


def test_the_short_form_takes_nothing_from_pyiceberg(written: Write, tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    token: theirs\n")
    environment = {**written(), "FIRNLINE_CONFIG": "", "FIRNLINE_CATALOG_URI": "http://g"}
    assert dict(single_connection(connections_here(environment)).properties) == {"uri": "http://g"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[catalog.lake]\nuri = 'x'", "[catalog]: no such section; there are [catalogs]"),
        ("[catalogs.lake]\nuri = 'u'\nwharehouse = 'x'", "[catalogs.lake]: wharehouse: no such"),
        (
            "[catalogs.lake]\nuri = 'u'\ntoken = '${NOWHERE}'",
            "[catalogs.lake] token (environment variable NOWHERE is not set",
        ),
        (
            "[catalogs.lake]\nuri = 'u'\ntoken = 'file:/no/such'",
            "[catalogs.lake] token (cannot read",
        ),
        ("[catalogs.lake]\nuri = 'u'\ns3.endpoint = 'a'\n's3.endpoint' = 'b'", "is there twice"),
        ("[catalogs.lake]\nuri = ['u']", "[catalogs.lake] uri: write a text"),
        ("[spark]\nexecutor.memory = '2g'", "[spark] executor.memory: not a spark.* property"),
        ("[redis]\nhost = 'x'", "[redis] host: url is all that it has"),
        ("[catalogs.lake]\nuri = u", "Invalid value"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(written: Write, text: str, said: str) -> None:
    environment = written(text)
    with pytest.raises(Misconfigured) as caught:
        connections_here(environment)
    assert said in str(caught.value)
    assert environment["FIRNLINE_CONFIG"] in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"FIRNLINE_CATALOG_URI": "http://g"}, "both name a catalog"),
        ({"FIRNLINE_KAFKA": "other:1"}, "FIRNLINE_KAFKA and bootstrap.servers in [kafka]"),
        ({"FIRNLINE_REDIS": "redis://x"}, "FIRNLINE_REDIS and url in [redis]"),
        ({"FIRNLINE_KAFKA_CONFIG": "/x"}, "FIRNLINE_KAFKA_CONFIG and [kafka]"),
        ({"FIRNLINE_CONFIG": "/no/such"}, "FIRNLINE_CONFIG=/no/such: No such file"),
    ],
)
def test_contradictions_are_refused(written: Write, more: dict[str, str], said: str) -> None:
    environment = written(**more)

    def read() -> None:
        connections_here(environment)
        connection_here(with_config(environment)["FIRNLINE_KAFKA"], environment)

    with pytest.raises(Misconfigured) as caught:
        read()
    assert said in str(caught.value)
    assert "cAnAry" not in str(caught.value)


def test_several_catalogs_are_too_many_for_a_service_with_one(written: Write) -> None:
    with pytest.raises(Misconfigured, match="lake, other"):
        single_connection(connections_here(written()))
    with pytest.raises(Misconfigured, match="no catalog is named"):
        single_connection({})


def test_a_broken_yaml_is_told_without_its_content(written: Write, tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  lake: {token: cAnAry\n")
    with pytest.raises(Misconfigured) as caught:
        connections_here(written())
    assert str(tmp_path / ".pyiceberg.yaml") in str(caught.value)
    assert "cAnAry" not in str(caught.value)


def test_without_a_path_there_is_no_file() -> None:
    assert read_config(None) is None
