"""What the proxy does to a commit, and what it sees of it, whatever the caller is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from firnline_chaos.catalog_proxy import CatalogProxy, Journal, Order, Spoil

PATH = "/v1/namespaces/chaos/tables/t"
APPLIED = {Spoil.LOSE_REQUEST: 0, Spoil.ERROR_502: 0, Spoil.ERROR_503: 0,
           Spoil.REPEAT: 2, Spoil.REPEAT_LAST: 2}  # fmt: skip
TOLD: dict[Spoil, int | None] = {
    Spoil.LOSE_REQUEST: None, Spoil.LOSE_ANSWER: None, Spoil.HALF_ANSWER: None,
    Spoil.REPEAT_LAST: 409, Spoil.ERROR_500: 500, Spoil.ERROR_502: 502, Spoil.ERROR_503: 503,
    Spoil.ERROR_504: 504,
}  # fmt: skip


class Catalog(ThreadingHTTPServer):
    """Takes a commit once; a second copy is refused, as by `assert-ref-snapshot-id`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.calls = 0


class _Call(BaseHTTPRequestHandler):
    server: Catalog

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls += 1
        metadata = {"snapshots": [{"snapshot-id": 1, "summary": {}}]}
        body = json.dumps({"metadata": metadata, "pad": "x" * 500}).encode()
        self.send_response(200 if self.server.calls == 1 else 409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def proxy(catalog: Catalog, seen: list[Any]) -> Iterator[CatalogProxy]:
    journal = Journal(see=lambda name, found: seen.append((name, [*found])))
    with CatalogProxy(catalog.server_address[1], journal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def commit(proxy: CatalogProxy, task: str | None = None) -> int | None:
    """The status; None where no whole answer came."""
    summary = {"firnline.task-id": task} if task else {}
    snapshot = {"snapshot-id": 1, "summary": summary}
    body = json.dumps({"updates": [{"action": "add-snapshot", "snapshot": snapshot}]})
    connection = HTTPConnection("127.0.0.1", proxy.server_address[1], timeout=5)
    try:
        connection.request("POST", PATH, body)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


@pytest.mark.parametrize("spoil", Spoil)
def test_each_way_to_spoil_a_commit(
    proxy: CatalogProxy, catalog: Catalog, seen: list[Any], spoil: Spoil
) -> None:
    proxy.spoil(Order(spoil, 1, 0.05))
    assert commit(proxy) == TOLD.get(spoil, 200)
    assert catalog.calls == APPLIED.get(spoil, 1)
    assert bool(seen) is bool(catalog.calls)  # applied is seen, whoever else is told
    assert proxy.journal.sent[0].snapshots == (1,)
    assert proxy.journal.spoiled == {str(spoil): 1}


def test_what_was_sent_is_proposed_and_once_it_is_accepted_seen(
    proxy: CatalogProxy, seen: list[Any]
) -> None:
    proposed = list[Any]()
    proxy.journal.propose = lambda name, found: proposed.append((name, [*found]))
    assert [commit(proxy), commit(proxy)] == [200, 409]
    sent = ("t", [{"snapshot-id": 1, "summary": {}}])
    assert proposed == [sent, sent]
    assert seen[0] == sent
    assert len(seen) == 2  # and what the catalog shows


def test_a_gate_answers_in_the_place_of_the_catalog(proxy: CatalogProxy, catalog: Catalog) -> None:
    proxy.gate = lambda path, _: (403, [], b"no") if path == PATH else None
    assert commit(proxy) == 403
    assert catalog.calls == 0
    assert proxy.journal.sent == []


def test_an_order_ends(proxy: CatalogProxy) -> None:
    proxy.spoil(Order(Spoil.ERROR_502, 2))
    assert [commit(proxy) for _ in range(3)] == [502, 502, 200]


def test_firnlines_commits_alone(proxy: CatalogProxy) -> None:
    proxy.spoil(Order(Spoil.ERROR_502, 1, firnlines=True))
    assert commit(proxy) == 200
    assert commit(proxy, task="t1") == 502
    assert [one.firnlines for one in proxy.journal.sent] == [False, True]


def test_a_cut_and_its_end(proxy: CatalogProxy, catalog: Catalog) -> None:
    proxy.cut_off()
    assert commit(proxy) is None
    assert catalog.calls == 0
    proxy.mend()
    assert commit(proxy) == 200


def test_calm_forgets_orders(proxy: CatalogProxy) -> None:
    proxy.spoil(Order(Spoil.ERROR_500, 9))
    proxy.calm()
    assert commit(proxy) == 200
