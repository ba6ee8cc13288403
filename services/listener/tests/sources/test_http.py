"""The endpoint for commits: what it takes, refuses, and says of itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_listener.port import Doorbell, Surroundings
from firnline_listener.sources.http import BODY_BYTES, MAX_WAITING, HttpSource, open_http

KEY = "a-key-of-sixteen-or-more"
LOOPBACK = ListenAddress("127.0.0.1", 0)


def surroundings(address: ListenAddress = LOOPBACK) -> Surroundings:
    return Surroundings("hooks", ["lake"], "127.0.0.1:1", Log("listener"), address)


@pytest.fixture
def source() -> Iterator[HttpSource]:
    opened = open_http({"key": KEY}, surroundings())
    yield opened
    opened.close()


def post(source: HttpSource, body: Any, key: str = KEY) -> tuple[int, dict[str, Any]]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    address = f"http://127.0.0.1:{source.port}/v1/commits"
    request = urllib.request.Request(address, payload, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        text = refused.read()
        return refused.code, json.loads(text) if text.startswith(b"{") else {}


def test_commits_become_doorbells_of_the_only_catalog(source: HttpSource) -> None:
    told = {"namespace": ["shop"], "name": "orders", "snapshot-id": 7}
    assert post(source, told) == (202, {"accepted": 1})
    assert post(source, [{"uuid": "u"}, {"catalog": "lake/dev", "namespace": ["shop"]}])[0] == 202
    found = [*source.poll(5.0)]
    while len(found) < 3:
        found += source.poll(5.0)
    assert found == [
        Doorbell("lake", ("shop",), "orders", snapshot_id=7),
        Doorbell("lake", uuid="u"),
        Doorbell("lake/dev", ("shop",)),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        {"name": 7},
        {"table": "shop.orders"},
        {"namespace": "shop"},
        {"snapshot-id": 1 << 70},
        {"namespace": ["a"] * 33},
        {"name": "x" * 2_000},
        [{}] * 1_001,
    ],
)
def test_another_body_is_refused_with_a_reason(source: HttpSource, body: Any) -> None:
    status, answer = post(source, body)
    assert (status, bool(answer["error"])) == (400, True)
    assert source.poll(0.01) == []


@pytest.mark.parametrize("payload", ["lakekeeper", "polaris", "s3", "glue"])
def test_a_body_that_is_nested_too_deep_is_refused(payload: str) -> None:
    opened = open_http({"payload": payload, "key": KEY}, surroundings())
    assert post(opened, b'{"a":' * 100_000)[0] == 400
    opened.close()


def test_a_long_body_is_refused(source: HttpSource) -> None:
    assert post(source, b" " * (BODY_BYTES + 1))[0] == 413


@pytest.mark.parametrize("key", ["", "another-key-of-sixteen", KEY[:-1]])
def test_a_caller_without_the_key_is_refused(source: HttpSource, key: str) -> None:
    assert post(source, {"name": "orders"}, key)[0] == 401
    assert source.poll(0.01) == []


def test_a_full_queue_asks_callers_to_come_again(source: HttpSource) -> None:
    for _ in range(MAX_WAITING // 1_000):
        assert post(source, [{"name": "orders"}] * 1_000)[0] == 202
    assert post(source, {"name": "orders"})[0] == 503


def test_an_endpoint_without_a_key_is_for_loopback_alone() -> None:
    with pytest.raises(Misconfigured, match=r"\[sources.hooks\] key"):
        open_http({}, surroundings(ListenAddress("0.0.0.0", 0)))
    with pytest.raises(Misconfigured, match="key"):
        open_http({"key": "short"}, surroundings())
    opened = open_http({}, surroundings())
    assert post(opened, {"name": "orders"}, key="")[0] == 202
    opened.close()


def test_an_unknown_payload_or_catalog_names_those_there_are() -> None:
    with pytest.raises(Misconfigured, match="commits"):
        open_http({"payload": "xml", "key": KEY}, surroundings())
    with pytest.raises(Misconfigured, match="write one of lake"):
        open_http({"catalog": "other", "key": KEY}, surroundings())


def test_the_description_is_of_what_is_parsed(source: HttpSource) -> None:
    address = f"http://127.0.0.1:{source.port}/v1/openapi.json"
    with urllib.request.urlopen(address, timeout=10) as answer:
        described = json.loads(answer.read())
    known = described["components"]["schemas"]["Commit"]["properties"]
    assert {"namespace", "name", "uuid", "snapshot-id", "metadata-location"} <= known.keys()
    assert "/v1/commits" in described["paths"]
