"""What a soak runs on: the embedded stack, its tables on local files or on an S3 server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs
from firnline_demo.lake import DemoLake
from firnline_iceberg.connection.connection import NAME, CatalogConnection
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.servers.artifacts import iceberg_jar
from firnline_local.stack import stack

from bench.rewrite import local_files
from tests.kit.lake.writer import local, store_locally
from tests.kit.lake_catalog import s3_catalog
from tests.kit.s3_server import REGION, S3Server, s3_server

PARTS = ("redis", "catalog", "kafka", "gateway", "enricher", "planner", "committer", "worker")
STORES = ("s3", "files")
S3 = "s3://"


@dataclass(frozen=True)
class Ground:
    """`direct`, `by_gateway`: the catalog as samples and as writers reach it. `class_path`: of
    their JVMs. `path`: a location on this machine's disk, past the store; `store`: writes a
    file there by the store."""

    running: stack.Stack
    direct: CatalogConnection
    by_gateway: CatalogConnection
    class_path: str
    path: Callable[[str], Path]
    store: Callable[[str, bytes], object]


@contextmanager
def ground(kind: str, folder: Path, parts: tuple[str, ...] = PARTS) -> Iterator[Ground]:
    """All of it up, below `folder`. `parts`: of the stack, on files."""
    with _on_s3(folder) if kind == "s3" else _on_files(folder, parts) as made:
        yield made


@contextmanager
def _on_files(folder: Path, parts: tuple[str, ...]) -> Iterator[Ground]:
    os.environ |= local_files.environment(folder)
    with stack.run_stack(folder / "stack", only=parts) as running:
        by_gateway = CatalogConnection(NAME, {"uri": running.gateway_uri})
        direct = by_gateway.at_uri(running.catalog_uri)
        yield Ground(running, direct, by_gateway, str(iceberg_jar()), local, store_locally)


@contextmanager
def _on_s3(folder: Path) -> Iterator[Ground]:
    with ExitStack() as held:
        store = held.enter_context(s3_server(folder / "store"))
        port = free_port()
        command = s3_catalog(folder / "catalog", port, store)
        held.enter_context(run_process(command, folder / "catalog.log"))
        lake = DemoLake.open_lake(_described(folder, catalog.uri(port), store))
        assert lake.connection is not None
        only = tuple(one for one in PARTS if one != "catalog")
        running = held.enter_context(stack.run_stack(folder / "stack", only, lake.settings))
        by_gateway = lake.connection.at_uri(running.gateway_uri)

        def path(location: str) -> Path:
            return store.folder / location.removeprefix(S3)

        put = _writing(store)
        yield Ground(running, lake.connection, by_gateway, lake.class_path, path, put)


def _described(folder: Path, uri: str, store: S3Server) -> Path:
    """A firnline.toml, the secret in a file of its own."""
    secret, described = folder / "secret", folder / "lake.toml"
    secret.touch(0o600)
    secret.write_text(store.root.secret)
    given = {
        "uri": uri,
        **store.properties,
        "s3.access-key-id": store.root.access,
        "s3.secret-access-key": f"file:{secret}",
    }
    lines = (f'"{name}" = "{value}"' for name, value in given.items())
    described.write_text("\n".join(["[catalogs.lake]", *lines]) + "\n")
    return described


def _writing(store: S3Server) -> Callable[[str, bytes], object]:
    files = pafs.S3FileSystem(
        access_key=store.root.access,
        secret_key=store.root.secret,
        endpoint_override=store.endpoint,
        region=REGION,
    )

    def put(location: str, body: bytes) -> None:
        with files.open_output_stream(location.removeprefix(S3)) as sink:
            sink.write(body)

    return put
