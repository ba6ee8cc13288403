"""Nessie behind an OpenID provider, its tables on versitygw, whose keys it gets from an STS and
hands out. It shows of each table the current snapshot alone, and wants no file of any removed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from pathlib import Path

from firnline_demo.lake import DemoLake
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.stack.state import StateDir

from firnline_chaos.catalog_proxy import Answer, Journal
from firnline_chaos.lake import TOKEN_S, SecuredLake, Storage, proxied, storage_of
from firnline_chaos.own_parts import own_part
from firnline_chaos.tables import NAMESPACE
from tests.kit.identity_server import IdentityServer, Rules, identity_server
from tests.kit.nessie import Nessie
from tests.kit.serve_nessie import toml_of

KEYS_S = 30.0  # and up to twice as long


@dataclass
class Gate:
    """Says no before Nessie, in the proxy: Nessie believes a token until it ends, and its rules of
    who may do what are read at its start."""

    identity: IdentityServer
    closed: bool = False
    revoked: frozenset[str] = frozenset()
    said: Counter[int] = field(default_factory=Counter)

    def __call__(self, path: str, headers: Message) -> Answer | None:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if token in self.revoked:
            return self._no(401, "NotAuthorizedException", "this token was revoked")
        ours = "Firnline-Maintenance" in headers
        if self.closed and ours and f"/namespaces/{NAMESPACE}/tables" in path:
            return self._no(403, "ForbiddenException", "not allowed")
        return None

    def _no(self, status: int, kind: str, text: str) -> Answer:
        self.said[status] += 1
        body = {"error": {"message": text, "type": kind, "code": status}}
        return status, [("Content-Type", "application/json")], json.dumps(body).encode()

    def revoke_tokens(self) -> None:
        self.revoked = frozenset(self.identity.rules.given)

    def forbid(self) -> None:
        self.closed = True

    def allow(self) -> None:
        self.closed = False

    def refused(self, status: int) -> int:
        return self.said[status]


@contextmanager
def nessie_lake(folder: Path, journal: Journal) -> Iterator[SecuredLake]:
    """All of it up, below `folder`."""
    state, rules = StateDir.from_path(folder), Rules(TOKEN_S, KEYS_S, shares_keys=True)
    with storage_of(state) as storage, identity_server(storage.server, rules) as identity:
        nessie, command = _server(state, storage, identity)
        with (
            own_part(command, state, nessie.uri) as served,
            proxied(nessie.port, journal) as proxy,
        ):
            proxy.gate = gate = Gate(identity)
            known = DemoLake.open_lake(
                toml_of(folder, f"{proxy.uri}/iceberg", identity.credentials())
            )
            parts = (storage.part, served)
            yield SecuredLake(nessie.uri, gate, proxy, storage, parts, known, hides_history=True)


def _server(state: StateDir, storage: Storage, identity: IdentityServer) -> tuple[Nessie, Command]:
    """What it knows outlives its process, as long as the folder does."""
    port, folder = free_port(), state.data_path("catalog")
    more = {
        **identity.settings(),
        "nessie.version.store.type": "ROCKSDB",
        "nessie.version.store.persist.rocks.database-path": str(folder / "rocksdb"),
        "nessie.catalog.service.s3.default-options.external-endpoint": storage.slow.uri,
    }
    nessie = Nessie(port, free_port(frozenset({port})), storage.server, more)
    return nessie, replace(nessie.command(folder), name="catalog")
