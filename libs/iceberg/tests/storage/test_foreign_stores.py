"""Paths that a writer has recorded in another kind of storage than the table's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_iceberg.metadata.avro_reader import MetadataUnreadable, content_of
from firnline_iceberg.storage.file_io import make_file_io

GCS, AZURE = "gs://bucket/m.avro", "abfss://c@account.dfs.core.windows.net/m.avro"


@pytest.mark.parametrize("path", [GCS, AZURE, AZURE.replace("abfss", "wasb")])
@pytest.mark.parametrize("location", ["s3://lake/t", "file:///lake/t", "/lake/t"])
def test_a_store_without_settings_is_asked_for_nothing(path: str, location: str) -> None:
    """Arrow would look for credentials, for a quarter of an hour."""
    with pytest.raises(TaskRefused, match="the catalog has no setting") as refused:
        make_file_io({"s3.region": "r"}, location).new_input(path)
    assert refused.value.reason == "metadata_unreadable"


def test_a_store_with_settings_is_open_to_tables_of_others() -> None:
    make_file_io({"gcs.no-auth": "true"}, "s3://lake/t").new_input(GCS)


def test_a_tables_own_store_needs_no_settings() -> None:
    make_file_io({}, "abfs://c@other.dfs.core.windows.net/t").new_input(AZURE)


@pytest.mark.parametrize("path", ["foo://bucket/m.avro", "http://host/m.avro", "s3:///m.avro"])
def test_a_path_that_no_store_has_is_told_with_its_name(path: str) -> None:
    with pytest.raises(MetadataUnreadable, match=path):
        content_of(make_file_io({"s3.region": "r"}, "s3://lake/t"), path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.avro")
    with pytest.raises(MetadataUnreadable, match="a pipe"):
        content_of(make_file_io({}, str(tmp_path)), f"file://{tmp_path}/m.avro")


def test_an_error_of_a_stores_own_client_is_an_outage() -> None:
    class Store:
        def new_input(self, path: str) -> Any:
            raise RuntimeError("token expired")

    store: Any = Store()
    with pytest.raises(StorageUnreachable, match="token expired"):
        content_of(store, "s3://lake/t/m.avro")
