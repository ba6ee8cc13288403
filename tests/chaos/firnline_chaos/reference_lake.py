"""Iceberg's reference catalog behind OAuth2, its tables on versitygw, all on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firnline_demo.lake import DemoLake
from firnline_local.processes.ports import free_port
from firnline_local.servers import catalog
from firnline_local.stack.state import StateDir

from firnline_chaos.catalog_proxy import Journal
from firnline_chaos.lake import TOKEN_S, SecuredLake, proxied, storage_of
from firnline_chaos.own_parts import own_part
from firnline_chaos.tables import NAMESPACE
from tests.kit.lake_catalog import CREDENTIAL, LakeCatalog, Rules, lake_front, s3_catalog
from tests.kit.serve_nessie import toml_of

KEYS_S = 20.0
OWN_S = 3600.0  # of the suite's own tokens and keys: on a busy host a look takes long


@dataclass(frozen=True)
class FrontDoors:
    """Of the server before the catalog, which asks who one is."""

    front: LakeCatalog

    def revoke_tokens(self) -> None:
        self.front.revoke_all()

    def forbid(self) -> None:
        self.front.rules.closed.add(NAMESPACE)

    def allow(self) -> None:
        self.front.rules.closed.discard(NAMESPACE)

    def refused(self, status: int) -> int:
        return self.front.refused[status]


@contextmanager
def reference_lake(folder: Path, journal: Journal) -> Iterator[SecuredLake]:
    """All of it up, below `folder`."""
    state = StateDir.from_path(folder)
    with storage_of(state) as storage:
        port = free_port()
        command = s3_catalog(state.data_path("catalog"), port, storage.server)
        uri = catalog.uri(port)
        rules = Rules(token_s=TOKEN_S, keys_s=KEYS_S, shares_keys=True)
        with (
            own_part(command, state, uri) as served,
            lake_front(uri, rules, storage.server) as front,
            lake_front(uri, Rules(token_s=OWN_S, keys_s=OWN_S), storage.server) as own,
            proxied(front.server_address[1], journal) as proxy,
        ):
            known = DemoLake.open_lake(toml_of(folder, proxy.uri, {"credential": CREDENTIAL}))
            parts = (storage.part, served)
            yield SecuredLake(own.uri, FrontDoors(front), proxy, storage, parts, known)
