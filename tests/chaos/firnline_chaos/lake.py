"""A lake as companies have it: the catalog wants a token that ends, and alone hands out keys to the
object store, which end as well; the store says 503 SlowDown when it is asked too much.

Iceberg's reference catalog behind OAuth2, its tables on versitygw, all on loopback.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from firnline_demo.lake import Lake
from firnline_iceberg.connection import CatalogConnection
from firnline_local import catalog
from firnline_local.artifacts import aws_bundle
from firnline_local.ports import LOOPBACK, free_port
from firnline_local.state import StateDir

from firnline_chaos.catalog_proxy import CatalogProxy, Journal
from firnline_chaos.own_parts import OwnPart, own_part
from firnline_chaos.stored_files import StoredFiles
from tests.kit import s3_server
from tests.kit.lake_catalog import CREDENTIAL, LakeCatalog, Rules, lake_front, s3_catalog
from tests.kit.s3_server import S3Server
from tests.kit.serve_nessie import toml_of
from tests.kit.throttling import ThrottledStore, throttling

TOKEN_S = 15.0  # a storm lasts six of them
KEYS_S = 20.0
NAMES = ("reference",)


@dataclass
class SecuredLake:
    """What runs of it. Services reach the catalog through `proxy`, the suite's reader by `front`
    itself; the store they all reach through `slow`."""

    front: LakeCatalog
    proxy: CatalogProxy
    store: S3Server
    slow: ThrottledStore
    parts: tuple[OwnPart, ...]
    known: Lake  # as the stack is told of it

    @property
    def files(self) -> StoredFiles:
        return StoredFiles(self.store.folder)

    def direct(self) -> CatalogConnection:
        """Past proxy and gateways."""
        return self.by(self.front.uri)

    def by(self, uri: str) -> CatalogConnection:
        """The same catalog by another way to it."""
        assert self.known.connection is not None
        return self.known.connection.at(uri)

    def refusals(self) -> dict[str, int]:
        """What came of its faults, and of tokens and keys that had ended."""
        by_status = self.front.refused
        return {
            "401 of the catalog": by_status[401],
            "403 of the catalog": by_status[403],
            "403 of the store": self.slow.denied,
            "503 of the store": len(self.slow.refused),
        }

    def calm(self) -> None:
        """Nothing is refused any more."""
        self.slow.share = 0.0
        self.front.rules.closed.clear()


@contextmanager
def secured_lake(folder: Path, journal: Journal) -> Iterator[SecuredLake]:
    """All of it up, below `folder`."""
    state, root = StateDir.at(folder), s3_server.new_root()
    store_port = free_port()
    catalog_port = free_port(frozenset({store_port}))
    with ExitStack() as stack:
        command = s3_server.command(state.data("store"), store_port, root)
        endpoint = f"http://{LOOPBACK}:{store_port}"
        served = own_part(replace(command, name="store"), state, endpoint)
        parts = [stack.enter_context(served)]
        store = S3Server(endpoint, root, state.data("store") / "data")
        store.let_in_whoever_has_a_key()
        stack.callback(store.close)
        slow = stack.enter_context(throttling(endpoint))
        command = s3_catalog(state.data("catalog"), catalog_port, store)
        uri = catalog.uri(catalog_port)
        parts.append(stack.enter_context(own_part(command, state, uri)))
        rules = Rules(token_s=TOKEN_S, keys_s=KEYS_S, shares_keys=True)
        front = stack.enter_context(lake_front(uri, rules, replace(store, shown=slow.uri)))
        proxy = stack.enter_context(proxied(front.server_address[1], journal))
        os.environ["SPARK_DIST_CLASSPATH"] = str(aws_bundle())  # of the writers' JVMs
        known = Lake.of(toml_of(folder, proxy.uri, {"credential": CREDENTIAL}))
        yield SecuredLake(front, proxy, store, slow, tuple(parts), known)


@contextmanager
def proxied(port: int, journal: Journal) -> Iterator[CatalogProxy]:
    """The proxy before the catalog at `port`, serving."""
    proxy = CatalogProxy(port, journal)
    threading.Thread(target=proxy.serve_forever, name="proxy", daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
