"""The same call to the catalog and through the gateway: the same answer, byte for byte."""

from __future__ import annotations

import http.client
import json
import re
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

pytestmark = pytest.mark.stack

# The moment of the answer, and what belongs to one connection (RFC 9110, 7.6.1).
VARIES = {"date", "connection", "keep-alive"}

# An error's stack ends with the frames of whatever thread of Jetty's ran that one call.
JETTYS = re.compile(rb'(,"\\tat (?!org\.apache\.iceberg\.)[^"]*")+(?=\])')

Answer = tuple[int, str, list[tuple[str, str]], bytes]


def ask(
    base: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> Answer:
    where = urlsplit(base)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 80, timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    kept = [(name, text) for name, text in answer.getheaders() if name.lower() not in VARIES]
    found = answer.status, answer.reason, kept, answer.read()
    connection.close()
    return found


def settled(answer: Answer) -> Answer:
    """The answer without its thread: an error's frames of Jetty, and the length they make."""
    status, reason, headers, body = answer
    if status < 400:
        return answer
    assert not body or ("Content-Length", str(len(body))) in headers
    named = [(name, "" if name == "Content-Length" else text) for name, text in headers]
    return status, reason, named, JETTYS.sub(b"", body)


@pytest.mark.parametrize("encoding", ["identity", "gzip, deflate"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/namespaces"),
        ("GET", "/v1/namespaces/{ns}"),
        ("HEAD", "/v1/namespaces/{ns}"),
        ("GET", "/v1/namespaces/{ns}/tables"),
        ("GET", "/v1/namespaces/{ns}/tables/t"),
        ("GET", "/v1/namespaces/{ns}/tables/t?snapshots=refs"),
        ("HEAD", "/v1/namespaces/{ns}/tables/t"),
        ("GET", "/v1/namespaces/{ns}/tables/no"),
        ("HEAD", "/v1/namespaces/{ns}/tables/no"),
        ("GET", "/v1/namespaces/{ns}%1Fdeeper%20still/tables"),
        ("GET", "/nowhere/at/all?x=%7e&y"),
        ("POST", "/v1/namespaces/{ns}/tables/t"),
        ("POST", "/v1/transactions/commit"),
        ("DELETE", "/v1/namespaces/{ns}/tables/no"),
        ("POST", "/v1/namespaces/{ns}/tables/t/metrics"),
    ],
)
def test_answers_are_the_same(
    catalog_uri: str, gateway_uri: str, lake: RestCatalog, namespace: str,
    method: str, path: str, encoding: str,
) -> None:  # fmt: skip
    table = lake.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    path = path.format(ns=namespace)
    headers = {"Accept-Encoding": encoding, "Content-Type": "application/json"}
    body = b'{"requirements": [{"type": "assert-create"}], "updates": []}'
    sent = body if method == "POST" else None
    through, direct = (
        settled(ask(uri, method, path, headers, sent)) for uri in (gateway_uri, catalog_uri)
    )
    assert through == direct


def test_an_unchanged_table_is_a_304_through_the_gateway_too(
    catalog_uri: str, gateway_uri: str, lake: RestCatalog, namespace: str
) -> None:
    lake.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    path = f"/v1/namespaces/{namespace}/tables/t"
    _, _, headers, _ = ask(gateway_uri, "GET", path, {})
    etag = {name.lower(): text for name, text in headers}["etag"]
    through = ask(gateway_uri, "GET", path, {"If-None-Match": etag})
    assert through == ask(catalog_uri, "GET", path, {"If-None-Match": etag})
    assert through[0] == 304


def test_the_config_is_the_same_but_for_its_uris(catalog_uri: str, gateway_uri: str) -> None:
    (status, _, _, direct), (_, _, _, through) = (
        ask(uri, "GET", "/v1/config", {}) for uri in (catalog_uri, gateway_uri)
    )
    assert status == 200
    assert json.loads(through) == json.loads(
        direct.decode().replace(f'"{catalog_uri}', f'"{gateway_uri}')
    )
