"""Spellings, encodings and odd bodies against the real catalog: what it takes is an event."""

from __future__ import annotations

import gzip
import json
import random
import socket
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from firnline_domain.records.events import TableCommitted
from pyiceberg.catalog.rest import RestCatalog

from .conftest import Events

pytestmark = pytest.mark.stack

SCHEMA = pa.schema([("id", pa.int64())])
SPELLINGS = [
    "{t}",
    "{t}/",
    "{t}//",
    "{t}#x",
    "{t};a=b",
    "{t}?",
    "{t}?x=1",
    "{t}/.",
    "{t}/%2e",
    "{t}%20",
    "{t}?x=\\..//../",
    "//v1/namespaces/{n}/tables/t",
    "/v1//namespaces/{n}/tables/t",
    "/v1/./namespaces/{n}/tables/t",
    "/v1/x/../namespaces/{n}/tables/t",
    "/../v1/namespaces/{n}/tables/t",
    "/V1/namespaces/{n}/tables/t",
    "/v1/Namespaces/{n}/TABLES/t",
    "/v1/%6eamespaces/{n}/tables/t",
    "/v1/namespaces/{n}/%74ables/t",
    "/v1/namespaces/{n}/tables/%74",
    "/v1/namespaces/{n}/tables/%2574",
    "/v1/namespaces/{n}/tables%2Ft",
    "/v1/namespaces/{n}%2Ftables/t",
    "/v1/p/namespaces/{n}/tables/t",
    "/%761/namespaces/{n}/tables/t",
    "/v1;x/namespaces/{n}/tables/t",
    "/v1/..;/v1/namespaces/{n}/tables/t",
    "http://127.0.0.1{t}",
    "/v1\\namespaces/{n}/tables/t",
    "/v1/namespaces/{n}/tables/t%00",
]
PIECES = ["/", "//", "%2F", ".", "..", "%2e", ";", "%3b", "?", "#", "\\", "%5c", "%74", "%25", "+"]


def mutated(path: str, dice: random.Random) -> str:
    """The path with one or two things done to it."""
    for _ in range(dice.randint(1, 2)):
        at = dice.randrange(1, len(path) + 1)
        match dice.randrange(3):
            case 0:
                path = path[:at] + dice.choice(PIECES) + path[at:]
            case 1 if path[at - 1].isalnum():
                path = f"{path[: at - 1]}%{ord(path[at - 1]):02x}{path[at:]}"
            case _:
                path = path[:at].swapcase() + path[at:]
    return path


def send(uri: str, target: str, body: bytes, *headers: str) -> int:
    """POST these bytes to a target as it is spelt; the answer's status."""
    where = urlsplit(uri)
    head = [f"POST {target} HTTP/1.1", f"Host: {where.netloc}", "Connection: close", *headers]
    head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    with socket.create_connection((where.hostname or "", where.port or 80), timeout=30) as wire:
        wire.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        return int(wire.makefile("rb").readline().split(b" ")[1])


def setting(key: str, **more: object) -> bytes:
    updates = [{"action": "set-properties", "updates": {key: "v"}}]
    return json.dumps({"requirements": [], "updates": updates, **more}).encode()


def metadata_events(found: list[TableCommitted]) -> int:
    return sum(event.metadata_changed for event in found)


def test_whatever_spelling_the_catalog_takes_is_an_event(
    gateway_uri: str, catalog_uri: str, lake: RestCatalog, namespace: str, events: Events
) -> None:
    table = lake.create_table(f"{namespace}.t", SCHEMA)
    dice = random.Random(19)
    plain = f"/v1/namespaces/{namespace}/tables/t"
    targets = [one.format(t=plain, n=namespace) for one in SPELLINGS]
    targets += [mutated(plain, dice) for _ in range(100)]
    through = {
        f"k{n}": send(gateway_uri, target, setting(f"k{n}")) for n, target in enumerate(targets)
    }
    taken = {key for key in table.refresh().properties if key in through}
    assert len(taken) >= 8
    assert taken == {key for key, status in through.items() if status == 200}
    for n, target in enumerate(targets):
        refused = through[f"k{n}"] == 400 or through[f"k{n}"] == 404
        assert refused or send(catalog_uri, target, setting(f"d{n}")) == 200, target
    found = events.until(namespace, lambda now: metadata_events(now) >= len(taken))
    assert metadata_events(found) == len(taken)
    assert {(event.table.uuid, event.table.name) for event in found} == {
        (str(table.metadata.table_uuid), "t")
    }


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (setting("k") + b" and more", ()),
        (setting("k").replace(b'"v"', b'"\xff"'), ()),
        (setting("k", requirements=None), ()),
        (setting("k", padding=" " * (9 << 20)), ()),
        (setting("k"), ("User-Agent: \xff", "Idempotency-Key: \xfe")),
        (setting("k"), ("Content-Encoding: br",)),
        (gzip.compress(setting("k")), ("Content-Encoding: gzip",)),
    ],
    ids=["trailing", "not-utf8", "null", "long", "stray-headers", "no-such-encoding", "gzip"],
)
def test_whatever_body_the_catalog_takes_is_an_event(
    gateway_uri: str,
    lake: RestCatalog,
    namespace: str,
    events: Events,
    body: bytes,
    headers: tuple[str, ...],
) -> None:
    table = lake.create_table(f"{namespace}.t", SCHEMA)
    status = send(gateway_uri, f"/v1/namespaces/{namespace}/tables/t", body, *headers)
    if "k" not in table.refresh().properties:
        assert status >= 400
        return
    assert status == 200
    [event] = events.until(namespace, lambda now: metadata_events(now) >= 1)
    assert (event.table.uuid, event.metadata_changed) == (str(table.metadata.table_uuid), True)


def test_a_long_transaction_is_an_event_of_each_of_its_tables(
    gateway_uri: str, lake: RestCatalog, namespace: str, events: Events
) -> None:
    """Its tables are found by asking those that were touched since."""
    for name in ("a", "b"):
        lake.create_table(f"{namespace}.{name}", SCHEMA)
    changes = [
        {"identifier": {"namespace": [namespace], "name": name}, **json.loads(setting("k"))}
        for name in ("a", "b")
    ]
    body = json.dumps({"padding": " " * (9 << 20), "table-changes": changes}).encode()
    assert send(gateway_uri, "/v1/transactions/commit", body) == 204
    found = events.until(namespace, lambda now: len({event.table.name for event in now}) == 2)
    assert {event.table.name for event in found} == {"a", "b"}
