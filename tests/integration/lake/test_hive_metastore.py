"""A Hive metastore as the catalog, with a REST service for Firnline: its database tells of each
commit, or a sweep finds it, and a rewrite is committed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_listener.port import Doorbell, DoorbellSource, Surroundings
from firnline_listener.sources.postgres import open_postgres
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog, postgres
from pyiceberg.catalog.rest import RestCatalog

from tests.kit import hive_metastore
from tests.kit.lake_pair import pair
from tests.kit.memory_flow import SCHEMA, SPEC, TARGET, check_counters, commit, rows
from tests.kit.memory_listener import Capture, NamespaceTables, meddle

pytestmark = [pytest.mark.stack, pytest.mark.long]
PROPERTIES = {**hive_metastore.TABLE, "write.target-file-size-bytes": str(TARGET)}
COMMITS = 20
SECONDS_TO_HEAL = 60


@dataclass(frozen=True)
class Metastore:
    """`database`: its address. `uri`: of the REST service."""

    database: str
    uri: str

    def make_table(self, namespace: str) -> RestCatalog:
        lake = RestCatalog("lake", uri=self.uri)
        lake.create_namespace(namespace)
        lake.create_table(f"{namespace}.t", SCHEMA, partition_spec=SPEC, properties=PROPERTIES)
        return lake


@pytest.fixture(scope="module")
def metastore(servers: Path) -> Iterator[Metastore]:
    folder, ports = servers / "metastore", list[int]()
    for _ in range(3):
        ports.append(free_port(frozenset(ports)))
    database = folder / "postgres"
    jdbc = postgres.jdbc_uri(database, ports[0])
    with ExitStack() as running:
        for one in (
            postgres.command(database, ports[0]),
            hive_metastore.command(folder / "hive", ports[1], jdbc),
            hive_metastore.adapter(folder / "rest", ports[2], hive_metastore.uri(ports[1])),
        ):
            running.enter_context(run_process(one, folder / f"{one.name}.log"))
        yield Metastore(postgres.uri(database, ports[0]), catalog.uri(ports[2]))


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


def follow(database: str) -> DoorbellSource:
    nowhere = ListenAddress("127.0.0.1", 0)
    where = Surroundings("hive", ["lake"], "nowhere:1", Log("test"), nowhere)
    return open_postgres({"type": "postgres", "url": database}, where)


def read_all(source: DoorbellSource) -> list[Doorbell]:
    """Poll until nothing comes."""
    found = list[Doorbell]()
    while new := source.poll(0.5):
        found += new
    return found


def test_each_commit_of_a_metastore_rings(metastore: Metastore, namespace: str) -> None:
    lake = metastore.make_table(namespace)
    with closing(follow(metastore.database)) as source:
        read_all(source)
        table = lake.load_table(f"{namespace}.t")
        for number in range(3):
            table.append(rows((1, number)))
            [bell] = read_all(source)
            assert bell.metadata_location == table.metadata_location
        lake.rename_table(f"{namespace}.t", f"{namespace}.u")
        lake.load_table(f"{namespace}.u").append(rows((1, 4)))
        assert read_all(source)[-1].metadata_location != table.metadata_location


def test_whatever_is_lost_the_counters_are_the_tables(metastore: Metastore, namespace: str) -> None:
    dice, lake = random.Random(7), metastore.make_table(namespace)
    capture = Capture(NamespaceTables(metastore.uri, namespace))
    with closing(follow(metastore.database)) as source:
        waiting = read_all(source)  # the whole catalog, once
        for number in range(COMMITS):
            lake.load_table(f"{namespace}.t").append(rows((dice.randrange(3), number)))
            waiting += read_all(source)
            if dice.random() < 0.4:
                told, waiting = meddle(waiting, dice), []
                capture.ring(*told)
                capture.second()
        lake.load_table(f"{namespace}.t").append(rows((9, 99)))
        capture.ring(*read_all(source))
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture, "t", namespace)
    assert capture.folded_once()


def test_a_sweep_alone_finds_every_commit(metastore: Metastore, namespace: str) -> None:
    dice, lake = random.Random(5), metastore.make_table(namespace)
    capture = Capture(NamespaceTables(metastore.uri, namespace), sweeps=True)
    for number in range(COMMITS):
        commit(lake.load_table(f"{namespace}.t"), dice, number)
        for _ in range(3):
            capture.second()
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture, "t", namespace)


def test_a_rewrite_is_committed(
    metastore: Metastore, namespace: str, lake_jvm: IcebergJvm, tmp_path: Path
) -> None:
    lake = pair(lake_jvm, tmp_path, CatalogConnection("lake", {"uri": metastore.uri}))
    lake.namespace(namespace)
    table = lake.table(namespace, **hive_metastore.TABLE)
    table.fill(8)
    table.upsert((1, 7), (2, 8))
    expected = table.rows()
    result = lake.rewrite(table.order())
    table.append((99, 99))  # a writer, between the rewrite and its commit
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == sorted([*expected, (99, 99)])
    assert table.live_deletes() == set()
    assert len(table.live_data()) == len(result.groups) + 1
