"""What an inventory of a bucket says, as S3 writes it and as people write their own."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pytest
from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_iceberg.removal.bucket_inventory import Inventory
from firnline_iceberg.storage.stored_files import ListedObject
from pyarrow import orc
from pyarrow import parquet as pq
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

TABLE = "s3://lake/wh/db/t"
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)
FOLDER = "lists/inv/lake/daily"
Row = Mapping[str, Any]


def row(key: str, **more: Any) -> Row:
    given = {
        "bucket": "lake", "key": key, "version_id": "v", "is_latest": True,
        "is_delete_marker": False, "size": 7, "last_modified_date": AT,
    }  # fmt: skip
    return {**given, **more}


ROWS = [
    row("wh/db/t/data/a.parquet"),
    row("wh/db/t2/data/neighbour.parquet"),  # begins with the same letters
    row("wh/db/t/data/p=a b+c/ä.parquet", size=None),
    row("wh/db/t/data/old.parquet", is_latest=False),
    row("wh/db/t/data/gone.parquet", is_delete_marker=True),
    row("wh/db/t/data/elsewhere.parquet", bucket="other"),
    row("wh/db/t/data/undated.parquet", last_modified_date=None),
]
SEEN = [
    ListedObject("wh/db/t/data/a.parquet", 7, AT_MS),
    ListedObject("wh/db/t/data/p=a b+c/ä.parquet", 0, AT_MS),
]


class Bucket:
    """The one that holds the inventory, as a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = SubTreeFileSystem(str(root), LocalFileSystem())

    def put(self, path: str, body: bytes) -> None:
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(body)

    def manifest(self, time: str, keys: Sequence[str], kind: str, **more: Any) -> str:
        """As S3 writes it; its path."""
        schema = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
        body = {
            "sourceBucket": "lake", "fileFormat": kind, "fileSchema": schema,
            "files": [{"key": key.partition("/")[2], "size": 1} for key in keys],
        }  # fmt: skip
        path = f"{FOLDER}/{time}/manifest.json"
        self.put(path, json.dumps({**body, **more}).encode())
        return path

    def csv(self, name: str, rows: Sequence[Row]) -> str:
        path = f"{FOLDER}/data/{name}.csv.gz"
        self.put(path, gzip.compress("".join(map(line, rows)).encode()))
        return path

    def seen(self, path: str, table: str = TABLE) -> list[ListedObject]:
        return [
            one for some in Inventory.open_path(self.files, path).files_below(table) for one in some
        ]


def line(one: Row) -> str:
    """S3 encodes keys in CSV, and quotes everything."""
    at = one["last_modified_date"]
    values = (
        one["bucket"], quote_plus(one["key"], safe="/"), "v", str(one["is_latest"]).lower(),
        str(one["is_delete_marker"]).lower(), "" if one["size"] is None else one["size"],
        "" if at is None else at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "etag",
    )  # fmt: skip
    return ",".join(f'"{value}"' if value != "" else "" for value in values) + "\n"


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


def test_csv_of_s3_in_two_files(bucket: Bucket) -> None:
    paths = [bucket.csv("one", ROWS[:3]), bucket.csv("two", ROWS[3:])]
    assert bucket.seen(bucket.manifest("2026-03-02T01-00Z", paths, "CSV")) == SEEN


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_columns_of_s3(bucket: Bucket, kind: str) -> None:
    path = f"{FOLDER}/data/one.{kind.lower()}"
    rows = pa.Table.from_pylist([dict(one) for one in ROWS])
    bucket.put(path, b"")
    if kind == "ORC":
        orc.write_table(rows, bucket.root / path)
    else:
        pq.write_table(rows, bucket.root / path)
    assert bucket.seen(bucket.manifest("2026-03-02T01-00Z", [path], kind)) == SEEN


def test_the_newest_of_a_folder_whose_manifest_is_there(bucket: Bucket) -> None:
    for time, name in (("2026-03-01T01-00Z", "first"), ("2026-03-02T01-00Z", "second")):
        rows = [row(f"wh/db/t/{name}")]
        bucket.manifest(time, [bucket.csv(name, rows)], "CSV")
    bucket.put(f"{FOLDER}/2026-03-03T01-00Z/manifest.checksum", b"")  # is being written
    bucket.put(f"{FOLDER}/hive/dt=2026-03-04-01-00/symlink.txt", b"")
    assert [one.place for one in bucket.seen(FOLDER)] == ["wh/db/t/second"]


def test_a_csv_of_ones_own_has_a_header_and_keys_as_they_are(bucket: Bucket) -> None:
    path = "lists/mine.csv"
    text = "key,size,last_modified_date,owner\nwh/db/t/a+b%20c,7,2026-03-01T12:30:00Z,me\n"
    bucket.put(path, text.encode())
    assert bucket.seen(path) == [ListedObject("wh/db/t/a+b%20c", 7, AT_MS)]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "is no manifest"),
        (b"[]", "is no manifest"),
        (b'{"files": [1], "fileFormat": "CSV", "fileSchema": "", "sourceBucket": "lake"}', "is no"),
        (json.dumps({"files": [], "fileFormat": "CSV", "fileSchema": "Key", "sourceBucket": "b"})
         .encode(), "lists the bucket b, the table is in lake"),
    ],
)  # fmt: skip
def test_what_is_no_inventory_of_this_bucket_is_refused(
    bucket: Bucket, body: bytes, word: str
) -> None:
    bucket.put("lists/x/manifest.json", body)
    with pytest.raises(TaskRefused, match=word) as found:
        bucket.seen("lists/x/manifest.json")
    assert found.value.reason == "inventory_unusable"


def test_a_file_without_a_needed_column_is_refused(bucket: Bucket) -> None:
    bucket.put("lists/mine.csv", b"key,size\nwh/db/t/a,1\n")
    with pytest.raises(TaskRefused, match="without the columns last_modified_date"):
        bucket.seen("lists/mine.csv")


def test_a_table_on_no_bucket_has_none(bucket: Bucket) -> None:
    path = bucket.manifest("2026-03-02T01-00Z", [], "CSV")
    with pytest.raises(TaskRefused, match="is in no bucket"):
        bucket.seen(path, "file:///wh/db/t")


def test_a_folder_without_a_manifest_says_where_one_belongs(bucket: Bucket) -> None:
    with pytest.raises(TaskRefused, match=r"no manifest.json below lists/none/YYYY"):
        bucket.seen("lists/none")


# Named: gzip writes the time into its header, and parallel runs have to collect the same tests.
@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe not gzip", gzip.compress(b'"lake","\xff"\n')],
    ids=["no gzip", "no text"],
)
def test_a_damaged_file_is_tried_again_later(bucket: Bucket, body: bytes) -> None:
    path = f"{FOLDER}/data/broken.csv.gz"
    bucket.put(path, body)
    with pytest.raises(StorageUnreachable, match="cannot read the inventory"):
        bucket.seen(bucket.manifest("2026-03-02T01-00Z", [path], "CSV"))
