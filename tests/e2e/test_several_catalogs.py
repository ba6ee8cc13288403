"""One fleet for two catalogs, one of them with two prefixes. Three tables have one name, and one
uuid: each is rewritten where it is, by its own files, and none is taken for another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import RecordSigner
from firnline_cli.__main__ import main
from firnline_domain.identity import TableName, normal_path
from firnline_domain.records.events import (
    RefMoved,
    RewriteCommitted,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.stack.parts import SERVICES
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import DEFAULT_BUCKETS
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.kit.prefixed_catalog import prefixed_catalog

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
PATIENCE_S = 240.0
NAME = "shop.orders"
SECOND = "main%7Csecond"  # `main|second`, as a path has it
PLACES = ("lake", "archive/main", f"archive/{SECOND}")
PARTS = (
    "redis",
    "kafka",
    *(one for one in SERVICES if one != "listener"),  # all through the gateway
)
PROPERTIES = {
    "firnline.rewrite.min-fragments": "3",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
    "format-version": "2",
}
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("place", pa.string())])


@dataclass(frozen=True)
class World:
    stack: Stack
    config: Path
    tables: dict[str, Table]  # by the catalog's path

    @property
    def publisher(self) -> KafkaPublisher:
        return KafkaPublisher(self.stack.kafka, DEFAULT_BUCKETS, "test", signer=self.signer)

    @property
    def signer(self) -> RecordSigner:
        return self.stack.state.signer()

    def records(self, *topics: str) -> list[Any]:
        inbox = KafkaInbox(
            self.stack.kafka, f"t-{time.time_ns()}", topics, self.publisher, Log("test")
        )
        found, until = [], time.monotonic() + 8.0
        while time.monotonic() < until:
            found += [delivery.record for delivery in inbox.poll(0.5)]
        inbox.close()
        return found

    def firnline(self, *words: str) -> tuple[int, str]:
        console = f"http://127.0.0.1:{self.stack.record.ports['console']}"
        variables = {
            "FIRNLINE_CONFIG": str(self.config),
            "FIRNLINE_KAFKA": self.stack.kafka,
            "FIRNLINE_CONSOLE_URI": console,
        }
        result = CliRunner(env=variables).invoke(main, words)
        return result.exit_code, result.output


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("several")
    with ExitStack() as stack:
        backends = []
        for name in ("a", "b", "c"):
            port = free_port()
            (folder / name).mkdir()
            command = catalog.command(folder / name, port)
            stack.enter_context(run_process(command, folder / f"{name}.log", 60))
            backends.append(catalog.uri(port))
        front = stack.enter_context(
            prefixed_catalog(
                {"main": backends[1], SECOND: backends[2]}, {"": "main", "second": SECOND}
            )
        )
        port = free_port()
        gateway, config = f"http://127.0.0.1:{port}", folder / "firnline.toml"
        config.write_text(
            f"""
[catalogs.lake]
uri = "{gateway}/lake"
firnline.upstream-uri = "{backends[0]}"
[catalogs.archive]
uri = "{gateway}/archive"
firnline.upstream-uri = "{front}"
"""
        )
        common = {
            "FIRNLINE_CONFIG": str(config),
            "FIRNLINE_CATALOG_URI": "",
            "FIRNLINE_UPSTREAM_URI": "",
        }
        settings = dict.fromkeys(SERVICES, common)
        settings["gateway"] = {**common, "FIRNLINE_LISTEN_ADDRESS": f"127.0.0.1:{port}"}
        ran = stack.enter_context(run_stack(folder / "stack", only=PARTS, settings=settings))
        clients = (
            RestCatalog("lake", uri=gateway),  # from before there were two: at the root
            RestCatalog("main", uri=f"{gateway}/archive"),
            RestCatalog("second", uri=f"{gateway}/archive", warehouse="second"),
        )
        yield World(ran, config, same_tables(clients, folder))


def same_tables(clients: tuple[RestCatalog, ...], folder: Path) -> dict[str, Table]:
    """One empty table, and others registered of copies of its metadata file."""
    for client in clients:
        client.create_namespace("shop")
    first = clients[0].create_table(NAME, SCHEMA, properties=PROPERTIES)
    text = Path(normal_path(first.metadata_location).removeprefix("file://")).read_text()
    tables = {PLACES[0]: first}
    for place, client in zip(PLACES[1:], clients[1:], strict=True):
        metadata = json.loads(text)
        location = folder / place.replace("%", "-") / "orders"
        metadata["location"] = location.as_uri()
        path = location / "metadata" / "00000-copy.metadata.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(metadata))
        tables[place] = client.register_table(NAME, path.as_uri())
    assert len({one.metadata.table_uuid for one in tables.values()}) == 1
    return tables


def await_rewrite(table: Table) -> None:
    until = time.monotonic() + PATIENCE_S
    while not tasks_of(table.refresh()):
        assert time.monotonic() < until, f"{table.location()} was not rewritten"
        time.sleep(0.2)


def tasks_of(table: Table) -> set[str]:
    summaries = (one.summary for one in table.snapshots() if one.summary)
    found = (one.additional_properties.get(TASK_ID) for one in summaries)
    return {one for one in found if one}


def test_each_is_rewritten_where_it_is(world: World) -> None:
    for place, table in world.tables.items():
        for number in range(4):
            rows = [{"id": number, "place": place}]
            table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    for place, table in world.tables.items():
        await_rewrite(table)
        files = {row["file_path"] for row in table.inspect.files().to_pylist()}
        assert len(files) < 4
        assert all(path.startswith(table.location()) for path in files), (place, files)
        rows = table.scan().to_arrow().to_pylist()
        assert sorted(row["id"] for row in rows) == [0, 1, 2, 3]
        assert {row["place"] for row in rows} == {place}
    tasks = [tasks_of(table) for table in world.tables.values()]
    assert len(set().union(*tasks)) == sum(map(len, tasks)), "a task is of one table alone"


@pytest.mark.long
def test_every_record_says_which_one_it_is_about(world: World) -> None:
    records = world.records("table-commits", "rewrite-tasks", "maintenance-events")
    for kind in (TableCommitted, RewriteFiles, RewriteCommitted):
        found = {one.table.catalog_path for one in records if isinstance(one, kind)}
        assert found == set(PLACES), kind
    assert len({one.table.uuid for one in records}) == 1
    assert len({one.table.key for one in records}) == 3


@pytest.mark.long
def test_people_see_and_name_each(world: World) -> None:
    code, text = world.firnline("tables", "--json")
    assert code == 0, text
    named = [f"{place}:{NAME}" for place in PLACES]
    assert sorted(row["table"] for row in json.loads(text)["tables"]) == sorted(named)
    for name in named:
        code, text = world.firnline("explain", name, "--json")
        assert (code, json.loads(text)["table"]["table"]) == (0, name)
        code, text = world.firnline("plan", "--table", name, "--json")
        assert code == 0, text
        code, text = world.firnline("pause", name, "--reason", "a test", "--json")
        assert code == 0, text
    code, text = world.firnline("explain", NAME)
    assert code == 1
    assert all(name in text for name in named), text
    code, text = world.firnline("pause", NAME)
    assert code == 1
    assert "several catalogs" in text


@pytest.mark.long
def test_a_catalog_that_nobody_knows_stops_nobody_else(world: World) -> None:
    """An event that is signed, and names a catalog from somebody's other file."""
    snapshot = SnapshotAdded(7, None, 1, 1, "append", "file:///nowhere/m.avro")
    stranger = TableName("u", ("shop",), "orders", "stranger", "main")
    moved, now_ms = RefMoved("main", "branch", 7), int(time.time() * 1000)
    event = TableCommitted(
        "e-stranger", stranger, TableChange.COMMITTED, (snapshot,), (moved,), (), True, now_ms,
        "gateway",
    )  # fmt: skip
    publisher = world.publisher
    publisher.publish("table-commits", stranger.key, event)
    publisher.flush()
    until = time.monotonic() + PATIENCE_S
    while not (letters := world.records("dead-letters")):
        assert time.monotonic() < until
    [letter] = letters
    assert (letter.reason, letter.service) == ("unknown_catalog", "enricher")
    assert "stranger" in letter.message
    assert "lake, archive" in letter.message
    table = world.tables["lake"]
    table.refresh().append(pa.Table.from_pylist([{"id": 9, "place": "lake"}], schema=SCHEMA))
    changed = {one.table.key for one in world.records("file-changes")}
    assert stranger.key not in changed, "a planner would ask for it for ever"
