"""The REST catalog's answers, by kind of failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlparse
from uuid import UUID

import pytest
from firnline_domain.errors import (
    CatalogRefused,
    CatalogUnreachable,
    LoginRefused,
    RetryLater,
    TaskRefused,
)
from firnline_domain.identity import CATALOG, TableName
from firnline_iceberg.storage.vended_file_io import VendedFileIO
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import TableGone
from prometheus_client import REGISTRY
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

NAME = TableName("u", ("db",), "t")


@pytest.fixture
def answering() -> Iterator[Callable[[int, object], Tables]]:
    """`answering(status, body)`: tables of a catalog that answers every load like that."""
    servers = []

    def serve(status: int, body: object) -> Tables:
        class Catalog(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                config = self.path.startswith("/v1/config")
                content = json.dumps({"defaults": {}, "overrides": {}} if config else body)
                self.send_response(200 if config else status)
                self.end_headers()
                self.wfile.write(content.encode())

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Catalog)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return Tables(f"http://127.0.0.1:{server.server_port}")

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def error(status: int) -> dict[str, object]:
    return {"error": {"message": "no", "type": "Error", "code": status}}


def test_a_missing_table_is_gone(answering: Callable[[int, object], Tables]) -> None:
    with pytest.raises(TableGone):
        answering(404, error(404)).load(NAME)


def test_a_change_is_sent_without_another_load(
    answering: Callable[[int, object], Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call more is time in which a writer may make a tag that the commit removes (H25)."""
    monkeypatch.setattr(Tables, "_load_table", None)
    table = TableName(str(UUID(int=1)), ("db",), "t")
    assert not answering(409, error(409)).commit_changes(table, (), {"main": 7})
    with pytest.raises(TableGone):
        answering(404, error(404)).commit_changes(table, ())
    with pytest.raises(CatalogUnreachable):
        answering(503, error(503)).commit_changes(table, ())


@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_catalog_is_tried_later(
    answering: Callable[[int, object], Tables], status: int
) -> None:
    with pytest.raises(CatalogUnreachable):
        answering(status, error(status)).load(NAME)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [(401, "who we are", LoginRefused), (403, "have db.t ", CatalogRefused)],
)
def test_a_catalog_that_refuses_is_told_from_one_that_fails(
    answering: Callable[[int, object], Tables], status: int, said: str, kind: type[CatalogRefused]
) -> None:
    with pytest.raises(CatalogRefused, match=said) as refused:
        answering(status, error(status)).load(NAME)
    assert type(refused.value) is kind


@pytest.mark.parametrize(
    ("status", "counted"), [(404, ""), (409, ""), (403, "403"), (429, "429"), (503, "503")]
)
def test_calls_of_a_catalog_are_timed_and_its_errors_counted(
    answering: Callable[[int, object], Tables], status: int, counted: str
) -> None:
    tables, before = answering(status, error(status)), seen(counted)
    with pytest.raises((RetryLater, TaskRefused)):
        tables.load(NAME)
    calls, errors = (b - a for a, b in zip(before, seen(counted), strict=True))
    assert calls >= 2  # its configuration, and the table
    assert errors == (1 if counted else 0)


def test_a_catalog_that_is_not_there_is_an_error_without_a_status() -> None:
    before = seen("none")
    with pytest.raises(CatalogUnreachable):
        Tables("http://127.0.0.1:9").load(NAME)
    assert seen("none")[1] > before[1]


def seen(status: str) -> tuple[float, float]:
    """Calls by GET, and errors of this status, or of any."""
    name = {"catalog": CATALOG}
    errors = [
        one.value
        for family in REGISTRY.collect()
        for one in family.samples
        if one.name == "firnline_catalog_errors_total" and status in ("", one.labels["status"])
    ]
    calls = REGISTRY.get_sample_value("firnline_catalog_seconds_count", {**name, "method": "GET"})
    return calls or 0.0, sum(errors)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"format-version": 4}, "format_version_4"),
        ({"format-version": "4", "schemas": []}, "format_version_4"),
        ({"format-version": 4, "location": "x" * 100_000}, "format_version_4"),
        ({"format-version": 99}, "metadata_unreadable"),
        ({"format-version": True}, "metadata_unreadable"),
        ({"format-version": 1e308}, "metadata_unreadable"),
        ({"format-version": None}, "metadata_unreadable"),
        ({"format-version": 3, "schemas": "x" * 100_000}, "metadata_unreadable"),
        ({"format-version": 2, "location": {"a": [[[[]]]]}}, "metadata_unreadable"),
        ({}, "metadata_unreadable"),
        ([], "metadata_unreadable"),
        ("", "metadata_unreadable"),
        (None, "metadata_unreadable"),
        ({"format-version": 1, "schema": {"type": "struct", "fields": 1}}, "metadata_unreadable"),
    ],
)
def test_metadata_that_cannot_be_read_are_refused_in_a_line(
    answering: Callable[[int, object], Tables], metadata: object, reason: str
) -> None:
    body = {"metadata-location": "m", "metadata": metadata, "config": {}}
    with pytest.raises(TaskRefused) as refused:
        answering(200, body).load(NAME)
    assert refused.value.reason == reason
    text = str(refused.value)
    assert "\n" not in text
    assert len(text) < 500
    assert NAME.dotted_name in text
    assert (reason == "format_version_4") == ("format_version_4" in text)


def test_another_table_of_the_same_name_is_not_the_table(
    answering: Callable[[int, object], Tables],
) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    metadata = new_table_metadata(schema, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///w/t", {})
    answer = {"metadata-location": "m", "metadata": json.loads(metadata.model_dump_json())}
    tables = answering(200, {**answer, "config": {}})
    found = tables.load_named(("db",), "t")
    assert found.identity == TableName(str(metadata.table_uuid), ("db",), "t")
    assert tables.load(found.identity).identity == found.identity
    with pytest.raises(TableGone):
        tables.load(NAME)


def test_an_unreachable_catalog_is_tried_later() -> None:
    with pytest.raises(CatalogUnreachable):
        Tables("http://127.0.0.1:1").load(NAME)


@contextmanager
def choosy(told: dict[str, object]) -> Iterator[str]:
    """A catalog with this configuration, which leaves out snapshots where it is asked for refs."""
    schema = Schema(NestedField(1, "id", LongType()))
    made = new_table_metadata(schema, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///w/t", {})
    whole = json.loads(made.model_dump_json())
    whole["snapshots"] = [
        {"snapshot-id": one, "timestamp-ms": one, "manifest-list": f"file:///w/t/metadata/{one}",
         "sequence-number": one, "summary": {"operation": "append"}}
        for one in (1, 2)
    ]  # fmt: skip
    whole["current-snapshot-id"] = 2
    whole["refs"] = {"main": {"snapshot-id": 2, "type": "branch"}}

    class Catalog(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/v1/config"):
                body: object = {"defaults": {}, "overrides": {}, **told}
            else:
                refs = parse_qs(urlparse(self.path).query).get("snapshots") == ["refs"]
                kept = whole["snapshots"][1:] if refs else whole["snapshots"]
                metadata = {**whole, "snapshots": kept}
                body = {"metadata-location": "m", "metadata": metadata, "config": {}}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Catalog) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("where", ["defaults", "overrides"])
def test_no_configuration_of_a_catalog_hides_snapshots(where: str) -> None:
    with choosy({where: {"snapshot-loading-mode": "refs"}}) as uri:
        found = Tables(uri).load_named(("db",), "t")
        heads = Tables(uri, **{"snapshot-loading-mode": "refs"}).load_named(("db",), "t")
    assert [one.snapshot_id for one in found.snapshots] == [1, 2]
    assert [one.snapshot_id for one in heads.snapshots] == [2]  # who asks for heads gets heads


@contextmanager
def listening(body: object = None) -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything with `body` (404 for None), and what it was asked."""
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            config = {"defaults": {}, "overrides": {}} if "/v1/config" in self.path else body
            self.send_response(404 if config is None else 200)
            self.end_headers()
            if config is not None:
                self.wfile.write(json.dumps(config).encode())

        do_HEAD = do_PUT = do_POST = do_CONNECT = do_GET  # noqa: N815  their names are given

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize("by", ["config", "storage-credentials"])
def test_a_table_has_no_say_in_how_its_files_are_reached(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner names a class to import and servers to send signed requests to; the catalog names
    the storage."""
    (tmp_path / "planted_io.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with listening() as (hostile, stolen), listening() as (storage, asked):
        properties = {
            "py-io-impl": "planted_io.FileIO",
            "s3.endpoint": hostile,
            "s3.proxy-uri": hostile,
            "s3.signer": "S3V4RestSigner",
            "s3.signer.uri": hostile,
            "s3.access-key-id": "theirs",
            "s3.retry-strategy-impl": "planted_io.Retry",
            "s3.role-arn": "arn:aws:iam::1:role/theirs",
            "client.role-arn": "arn:aws:iam::1:role/theirs",
        }
        schema = Schema(NestedField(1, "id", LongType()))
        made = new_table_metadata(schema, PartitionSpec(), UNSORTED_SORT_ORDER, "s3://b/t", {})
        metadata = {**json.loads(made.model_dump_json()), "properties": properties}
        place = "s3://b/t/metadata/1.json"
        ours = {"s3.endpoint": storage, "s3.access-key-id": "ours", "s3.region": "r",
                "s3.secret-access-key": "ours", "s3.connect-timeout": "2"}  # fmt: skip
        config = ours if by == "config" else {"s3.region": "not this one"}
        credentials = [] if by == "config" else [{"prefix": "s3://b", "config": ours}]
        answer = {"metadata-location": place, "metadata": metadata, "config": config,
                  "storage-credentials": credentials}  # fmt: skip
        with listening(answer) as (catalog, _):
            table = Tables(catalog).load_named(("db",), "t")
        with pytest.raises(FileNotFoundError):
            table.io.new_input(place).open().read()
    assert asked
    assert not stolen
    assert table.properties == properties  # still there to be advised on
    assert isinstance(table.io, VendedFileIO)
    found = table.io.vended.credential_for(place)
    assert found is not None
    told = {**table.io.properties, **found.config}
    assert {name: told[name] for name in ours} == ours
    assert not properties.items() & told.items()


def test_the_policies_of_a_task_are_weaker_than_namespace_and_table() -> None:
    catalog = MemoryCatalog("memory://")
    schema = Schema(NestedField(1, "id", LongType()))
    catalog.make("db.t", schema, **{"firnline.a": "table", "policy:x:firnline.d": "forged"})
    catalog.namespaces["db",] = {"firnline.b": "namespace"}
    tables = MemoryTables(catalog)
    policies = {f"policy:x:firnline.{name}": "policy" for name in "abc"}
    found = settings_of(tables, tables.load_named(("db",), "t"), policies)  # type: ignore[arg-type]
    assert found == {**policies, "firnline.a": "table", "namespace:firnline.b": "namespace"}
