"""A lake as companies have it: the catalog wants a token that ends, and alone hands out keys to the
object store, which end as well; the store says 503 SlowDown when it is asked too much. What runs of
it; which catalog it has, `reference_lake` and `nessie_lake` say.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from firnline_demo.lake import DemoLake
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.servers.artifacts import aws_bundle
from firnline_local.stack.state import StateDir

from firnline_chaos.catalog_proxy import CatalogProxy, Journal
from firnline_chaos.own_parts import OwnPart, own_part
from firnline_chaos.stored_files import StoredFiles
from tests.kit import s3_server
from tests.kit.s3_server import S3Server
from tests.kit.throttling import ThrottledStore, throttling

TOKEN_S = 15.0  # a storm lasts six of them


class Doors(Protocol):
    """Whom the catalog lets in."""

    def revoke_tokens(self) -> None:
        """No token that was given counts any more."""

    def forbid(self) -> None:
        """From now on our services get 403 for all tables; writers go on."""

    def allow(self) -> None:
        """Until now."""

    def refused(self, status: int) -> int:
        """How many calls were answered so."""


@dataclass(frozen=True)
class Storage:
    """An object store as a part of its own, and what throttles it."""

    part: OwnPart
    server: S3Server
    slow: ThrottledStore


@dataclass(frozen=True)
class SecuredLake:
    """What runs of it. Services reach the catalog through `proxy`, the suite's reader by `direct`;
    the store they all reach through what throttles it. `hides_history`: the catalog shows of each
    table the current snapshot alone."""

    uri: str  # of the catalog, past proxy and gateways
    doors: Doors
    proxy: CatalogProxy
    storage: Storage
    parts: tuple[OwnPart, ...]
    known: DemoLake  # as the stack is told of it
    hides_history: bool = False

    @property
    def files(self) -> StoredFiles:
        return StoredFiles(self.storage.server.folder)

    def direct(self) -> CatalogConnection:
        """Past proxy and gateways."""
        return self.by(self.uri)

    def by(self, uri: str) -> CatalogConnection:
        """The same catalog by another way to it."""
        assert self.known.connection is not None
        return self.known.connection.at_uri(uri)

    def refusals(self) -> dict[str, int]:
        """What came of its faults, and of tokens and keys that had ended."""
        return {
            "401 of the catalog": self.doors.refused(401),
            "403 of the catalog": self.doors.refused(403),
            "403 of the store": self.storage.slow.denied,
            "503 of the store": len(self.storage.slow.refused),
        }

    def calm(self) -> None:
        """Nothing is refused any more."""
        self.storage.slow.share = 0.0
        self.doors.allow()


@contextmanager
def storage_of(state: StateDir) -> Iterator[Storage]:
    """Up, with an empty bucket."""
    root, port = s3_server.new_root(), free_port()
    command = s3_server.command(state.data_path("store"), port, root)
    endpoint = f"http://{LOOPBACK}:{port}"
    with own_part(replace(command, name="store"), state, endpoint) as part:
        server = S3Server(endpoint, root, state.data_path("store") / "data")
        server.allow("s3:*")
        os.environ["SPARK_DIST_CLASSPATH"] = str(aws_bundle())  # of the writers' JVMs
        try:
            with throttling(endpoint) as slow:
                yield Storage(part, replace(server, shown=slow.uri), slow)
        finally:
            server.close()


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
