"""A PostgreSQL with logical decoding, a database of it for each test, and a source on that."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_listener.port import Doorbell, DoorbellSource, Surroundings
from firnline_listener.sources.postgres import open_postgres
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import postgres

BELLS_S = 30.0
NOWHERE = ListenAddress("127.0.0.1", 0)


@pytest.fixture(scope="session")
def postgres_server(servers: Path) -> Iterator[tuple[Path, int]]:
    folder, port = servers / "postgres", free_port()
    durable = postgres.command(folder, port)
    command = replace(durable, argv=(*durable.argv, "-c", "fsync=off"))
    with run_process(command, servers / "postgres.log"):
        yield folder, port


@pytest.fixture
def database(postgres_server: tuple[Path, int]) -> Iterator[str]:
    """Address of a database of this test alone."""
    folder, port = postgres_server
    server, name = postgres.uri(folder, port), f"d{uuid.uuid4().hex[:10]}"
    execute(server, f"CREATE DATABASE {name}")
    yield server.removesuffix(postgres.DATABASE) + name
    slots = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{name}'"
    execute(server, f"SELECT pg_drop_replication_slot(slot_name) FROM ({slots}) AS slots")
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(address: str, *statements: str) -> list[Any]:
    """Execute each in a transaction of its own; return the rows of the last."""
    with closing(psycopg2.connect(address)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        for one in statements:
            cursor.execute(one)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def open_source(database: str) -> Iterator[Callable[..., DoorbellSource]]:
    """Opens sources on the database that are closed in the end."""
    opened = list[DoorbellSource]()

    def open_one(**properties: str) -> DoorbellSource:
        log = Log("test")
        where = Surroundings(f"pg-{database[-6:]}", ["lake"], "nowhere:1", log, NOWHERE)
        opened.append(open_postgres({"type": "postgres", "url": database, **properties}, where))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def collect(source: DoorbellSource, count: int) -> list[Doorbell]:
    """Poll for so many doorbells, and settle none."""
    found, end = list[Doorbell](), time.monotonic() + BELLS_S
    while len(found) < count and time.monotonic() < end:
        found += source.poll(0.2)
    return found


def names_of(bells: Sequence[Doorbell]) -> list[str]:
    return [".".join((*one.namespace, one.name)) for one in bells]
