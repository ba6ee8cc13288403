"""What a writer that was killed in the middle of an upload has left on an S3 store."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.sweep import OutputSweeper, Swept
from firnline_iceberg.storage import s3_client
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.storage.vended_credentials import Credential, VendedCredentials
from firnline_iceberg.table.catalog_client import fresh_credentials
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables
from tests.kit.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.stack
WRITER = """
import json, sys, time
from firnline_iceberg.storage.file_io import make_file_io
paths, settings = json.loads(sys.stdin.readline())
sinks = [make_file_io(settings, one).new_output(one).create(overwrite=True) for one in paths]
for sink in sinks:
    sink.write(bytes(30_000_000))
print("begun", flush=True)
time.sleep(600)
"""
PLAIN = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket")


class Lake(MemoryCatalog):
    """Tables on the store, by keys that are ours or handed out with each table."""

    def __init__(self, store: S3Server, vends: bool) -> None:
        super().__init__(f"s3://{BUCKET}/{uuid.uuid4().hex}")
        self.keys = store.new_keys()
        settings = {**store.properties, **self.keys.properties()}
        given = CatalogConnection("lake", {"uri": "http://g", **settings}).pyiceberg_properties()
        self.settings = {name: one for name, one in given.items() if isinstance(one, str)}
        self.vends = vends

    def io(self, location: str) -> FileIO:
        if not self.vends:
            return make_file_io(self.settings, location)
        keys = self.keys.properties()
        without = {name: one for name, one in self.settings.items() if name not in keys}
        credential = Credential(location, keys, time.time())
        connection = CatalogConnection("lake", {"uri": "http://g"})
        vended = VendedCredentials(connection, {}, ("ns", "t"), (credential,), fresh_credentials)
        return make_file_io(without, location, vended)

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        table.io = self.io(table.metadata.location)
        place = table.io.new_output(table.metadata_location)
        ToOutputFile.table_metadata(table.metadata, place, overwrite=True)
        return table


class Left:
    """A table of which a run has written a list, one file, and half of another."""

    def __init__(self, store: S3Server, vends: bool = False) -> None:
        self.store, self.catalog = store, Lake(store, vends)
        made = self.catalog.make("ns.t", Schema(NestedField(1, "id", LongType())))
        self.tables = MemoryTables(self.catalog)
        self.name = TableName(str(made.metadata.table_uuid), ("ns",), "t")
        self.run = TaskRun(self.name.uuid, "task", 1, "cafe0000")
        names = (self.run.output_name(0, number) for number in range(3))
        self.outputs = tuple(f"{made.metadata.location}/data/{name}" for name in names)
        self.other = f"{made.metadata.location}/data/00000-1-another-writer.parquet"
        self.list = f"{made.metadata.location}/metadata/{self.run.list_name}"
        body = OutputList("task", 1, self.name.uuid, "w", 0, self.outputs)
        write_ahead_list.write_list(made.io, self.list, body)
        with made.io.new_output(self.outputs[0]).create() as sink:
            sink.write(b"x")
        self.begin(self.outputs[1], self.other)

    def begin(self, *paths: str) -> None:
        """By a process of its own, which is killed."""
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(json.dumps([paths, self.catalog.settings]) + "\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "begun\n"
        end = time.monotonic() + 60
        while not set(map(self.key, paths)) <= set(self.store.uploads()):  # sent in the background
            assert time.monotonic() < end
            time.sleep(0.05)
        writer.kill()
        writer.communicate()

    @staticmethod
    def key(path: str) -> str:
        return path.removeprefix(f"s3://{BUCKET}/")

    @property
    def loaded(self) -> LoadedTable:
        return self.tables.load(self.name)

    def sweep(self, dry_run: bool = False) -> Swept:
        later = int(time.time() * 1000) + 10_000
        return OutputSweeper(self.tables, lambda: later, 1_000, lambda _: later).sweep(
            self.name, dry_run
        )

    def uploads(self) -> set[str]:
        return set(self.store.uploads()) & set(map(self.key, (*self.outputs, self.other)))


@contextmanager
def allowing(store: S3Server, actions: tuple[str, ...]) -> Iterator[None]:
    """Those of the users, for a while."""
    store.allow(*actions)
    try:
        yield
    finally:
        store.allow("s3:*")


@pytest.mark.parametrize("vends", [False, True])
def test_an_upload_of_a_killed_writer_is_given_up(store: S3Server, vends: bool) -> None:
    left = Left(store, vends)
    assert left.uploads() == {left.key(left.outputs[1]), left.key(left.other)}
    tried = left.sweep(dry_run=True)
    assert tried.uploads == [left.outputs[1]]
    assert len(left.uploads()) == 2
    swept = left.sweep()
    assert (swept.removed, swept.uploads) == ([left.outputs[0]], [left.outputs[1]])
    assert (swept.lists, swept.left, swept.uploads_unknown) == ([left.list], [], "")
    assert left.uploads() == {left.key(left.other)}, "another writer's is nobody's business"


def test_a_young_lists_uploads_go_on(store: S3Server) -> None:
    left = Left(store)
    now = int(time.time() * 1000)
    swept = OutputSweeper(left.tables, lambda: now, 3_600_000, lambda _: now).sweep(left.name)
    assert swept.skipped_by_reason == {"young": 1}
    assert len(left.uploads()) == 2


def test_who_may_not_ask_is_told_what_to_do_and_the_list_goes(store: S3Server) -> None:
    left = Left(store)
    with allowing(store, PLAIN):
        swept = left.sweep()
    assert (swept.removed, swept.lists) == ([left.outputs[0]], [left.list])
    assert "s3:ListBucketMultipartUploads" in swept.uploads_unknown
    assert "AbortIncompleteMultipartUpload" in swept.uploads_unknown
    assert len(left.uploads()) == 2


def test_a_failed_attempt_gives_up_what_a_killed_python_worker_had_begun(store: S3Server) -> None:
    left = Left(store)
    removal.remove_unpublished(left.loaded, left.run, left.outputs, left.list)
    assert left.uploads() == {left.key(left.other)}
    assert not left.loaded.io.new_input(left.list).exists()


def test_where_writers_may_go_on_their_uploads_do(store: S3Server) -> None:
    left = Left(store)
    removal.remove_unpublished(left.loaded, left.run, left.outputs, left.list, ended=False)
    assert len(left.uploads()) == 2
    assert left.loaded.io.new_input(left.list).exists()


def test_a_store_that_does_not_answer_keeps_the_list(
    store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left(store)
    real = left.catalog.settings
    nowhere = {**real, "s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1"}
    table = left.loaded
    with monkeypatch.context() as patch:
        patch.setattr(
            "firnline_iceberg.outputs.unfinished_uploads.s3_bucket",
            lambda io, path: s3_client.bucket_of(table.io, nowhere, path),
        )
        swept = left.sweep()
    assert swept.skipped_by_reason == {"not_removed": 1}
    assert left.sweep().uploads == [left.outputs[1]]
