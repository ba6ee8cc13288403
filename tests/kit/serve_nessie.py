"""A Nessie to try things on: with an OpenID provider before it, and tables on an S3 server whose
keys it alone hands out. Everything is fetched, pinned, and runs on loopback until Ctrl-C.

    python -m tests.kit.serve_nessie FOLDER     # writes FOLDER/lake.toml
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process

from tests.kit.identity_server import IdentityServer, Rules, identity_server
from tests.kit.nessie import Nessie
from tests.kit.s3_server import s3_server

LIFETIME_S = 60.0  # of tokens, and of keys to the storage


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rules = Rules(LIFETIME_S, LIFETIME_S)
    with s3_server(folder / "store") as store, identity_server(store, rules) as identity:
        port = free_port()
        nessie = Nessie(port, free_port(frozenset({port})), store, identity.settings())
        with run_process(nessie.command(folder / "nessie"), folder / "nessie.log"):
            print(f"wrote {written(folder, nessie, identity)}; Ctrl-C ends it", flush=True)
            signal.sigwait({signal.SIGTERM, signal.SIGINT})


def written(folder: Path, nessie: Nessie, identity: IdentityServer) -> Path:
    """How our services come in."""
    return toml_of(folder, nessie.uri, identity.credentials())


def toml_of(folder: Path, uri: str, properties: Mapping[str, str]) -> Path:
    """A `lake.toml`; the secret in a file of its own."""
    secret, path = folder / "credential", folder / "lake.toml"
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as sink:
        sink.write(properties["credential"])
    given = {"uri": uri, **properties, "credential": f"file:{secret.absolute()}"}
    lines = ["[catalogs.lake]", *(f'{name} = "{value}"' for name, value in given.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
