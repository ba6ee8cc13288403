"""A bucket's inventory in place of listing it: what S3 Inventory writes once a day, or one Parquet
or CSV file with a header.

A listing of a million objects is a thousand requests, one after another; an inventory is a few
files. It is old, and whoever may write below its location could have made it up: the caller looks
at each file that it is going to move (`orphans.Storage.stat_files`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_domain.records.parts.orphans import OrphanRefusal
from pyarrow import csv, orc
from pyarrow import parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io import FileIO

from firnline_iceberg.storage.file_io import file_system
from firnline_iceberg.storage.paths import folder_of, parse_address
from firnline_iceberg.storage.stored_files import StoredFiles

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 64 << 20  # of S3's own: 150 bytes for each of its files
NEEDED: Final = ("key", "size", "last_modified_date")
TRUTHS: Final = ("is_latest", "is_delete_marker")
_OTHERS: Final = ("bucket",)
_TYPES: Final = {
    "bucket": pa.string(),
    "key": pa.string(),
    "size": pa.int64(),
    "last_modified_date": pa.timestamp("ms", "UTC"),
    "is_latest": pa.bool_(),
    "is_delete_marker": pa.bool_(),
}
_CSV_NAMES: Final = {  # S3's names in CSV -> those that it uses in Parquet and ORC
    "Bucket": "bucket",
    "Key": "key",
    "Size": "size",
    "LastModifiedDate": "last_modified_date",
    "IsLatest": "is_latest",
    "IsDeleteMarker": "is_delete_marker",
}


@dataclass(frozen=True)
class Inventory:
    """`paths`: of its files in `files`. `columns`: of CSV without a header. `encoded`: keys are
    URL-encoded, as S3's are in CSV. `source`: the bucket that it lists; '': rows say, or it is the
    one that is asked for."""

    files: FileSystem
    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    encoded: bool = False
    source: str = ""

    @classmethod
    def open_location(cls, io: FileIO, location: str) -> Inventory:
        """Open a `manifest.json` of S3 Inventory, the folder that S3 puts a new one into each time
        (its newest is taken), or one file. Raises TaskRefused, StorageUnreachable."""
        try:
            files, path = file_system(io, location.rstrip("/"))
            return cls.open_path(files, path)
        except OSError as error:
            raise StorageUnreachable(f"cannot read the inventory {location}: {error}") from error

    @classmethod
    def open_path(cls, files: FileSystem, path: str) -> Inventory:
        """Open an inventory. `path`: bucket and key of a file of it, of its manifest, or of the
        folder with dated ones, of which the newest is read. Raises TaskRefused, OSError."""
        if path.endswith((".parquet", ".orc", ".csv", ".csv.gz")):
            return cls(files, (path,))
        found = path if path.endswith(f"/{MANIFEST}") else _newest_manifest(files, path)
        with files.open_input_stream(found) as source:
            text = source.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise _inventory_error(f"{found} has more than {MAX_MANIFEST_BYTES >> 20} MB")
        return cls._from_manifest(files, found, text)

    @classmethod
    def _from_manifest(cls, files: FileSystem, path: str, text: bytes) -> Inventory:
        bucket = path.partition("/")[0]
        try:
            body: Mapping[str, Any] = json.loads(text)
            paths = tuple(f"{bucket}/{one['key']}" for one in body["files"])
            kind, schema = body["fileFormat"], str(body["fileSchema"])
            source = str(body["sourceBucket"])
        except (ValueError, KeyError, TypeError) as error:
            raise _inventory_error(f"{path} is no manifest of S3 Inventory: {error!r}") from error
        if kind != "CSV":
            return cls(files, paths, source=source)
        columns = tuple(_CSV_NAMES.get(one.strip(), one.strip()) for one in schema.split(","))
        return cls(files, paths, columns, encoded=True, source=source)

    def files_below(self, location: str) -> Iterator[StoredFiles]:
        """Yield the newest versions of objects below a table's location, by their keys, a batch of
        rows in memory. Raises TaskRefused, StorageUnreachable."""
        root = parse_address(location)
        if root is None or not root.authority:
            raise _inventory_error(f"{location} is in no bucket")
        if self.source and self.source != root.authority:
            raise _inventory_error(
                f"it lists the bucket {self.source}, the table is in {root.authority}"
            )
        prefix = "/".join(root.segments) + "/"
        for path in self.paths:
            try:
                for batch in self._read_batches(path):
                    yield self._to_stored_files(batch, root.authority, prefix)
            except (OSError, pa.ArrowException) as error:
                raise StorageUnreachable(f"cannot read the inventory {path}: {error}") from error

    def _to_stored_files(self, batch: pa.RecordBatch, bucket: str, prefix: str) -> StoredFiles:
        keys = batch["key"]
        if self.encoded:
            keys = pa.array([unquote_plus(key) for key in keys.to_pylist()], pa.string())
        wanted = pc.starts_with(keys, prefix)
        if "bucket" in batch.schema.names:
            wanted = pc.and_(wanted, pc.equal(batch["bucket"], bucket))
        for name, value in zip(TRUTHS, (True, False), strict=True):
            if name in batch.schema.names:
                same = pc.equal(batch[name], value)
                wanted = pc.and_(wanted, pc.fill_null(same, True))
        times = pc.cast(batch["last_modified_date"], _TYPES["last_modified_date"], safe=False).cast(
            pa.int64()
        )
        columns = (keys, batch["size"].cast(pa.int64()), times)
        dated = pc.and_(wanted, pc.is_valid(times))  # who has no date is nobody's orphan
        some = pa.table(list(columns), names=list(NEEDED)).filter(dated)
        sizes = pc.fill_null(some["size"], 0).to_pylist()
        return StoredFiles(some["key"].to_pylist(), sizes, some["last_modified_date"].to_numpy())

    def _read_batches(self, path: str) -> Iterator[pa.RecordBatch]:
        known = (*NEEDED, *TRUTHS, *_OTHERS)
        if path.endswith((".csv", ".csv.gz")):
            yield from self._read_csv(path)
        elif path.endswith(".orc"):
            with self.files.open_input_file(path) as source:
                file = orc.ORCFile(source)
                names = _present_columns(path, file.schema.names, known)
                for number in range(file.nstripes):
                    yield file.read_stripe(number, columns=names)
        else:
            with self.files.open_input_file(path) as source:
                parquet = pq.ParquetFile(source)
                names = _present_columns(path, parquet.schema_arrow.names, known)
                yield from parquet.iter_batches(columns=names)

    def _read_csv(self, path: str) -> Iterator[pa.RecordBatch]:
        with self.files.open_input_stream(path) as source:  # and unpacks it, by its ending
            reading = csv.ReadOptions(column_names=list(self.columns) if self.columns else None)
            typed = csv.ConvertOptions(column_types=_TYPES)
            with csv.open_csv(source, reading, convert_options=typed) as rows:
                _present_columns(path, rows.schema.names, NEEDED)
                yield from rows


def _newest_manifest(files: FileSystem, folder: str) -> str:
    """Return the newest manifest: S3 begins each inventory's folder with the time that it was begun
    at."""
    chosen = FileSelector(folder, allow_not_found=True)
    times = sorted(
        one.base_name
        for one in files.get_file_info(chosen)
        if one.type is FileType.Directory and _is_inventory_name(one.base_name)
    )
    for time in reversed(times):
        if files.get_file_info(f"{folder}/{time}/{MANIFEST}").is_file:  # comes last
            return f"{folder}/{time}/{MANIFEST}"
    raise _inventory_error(f"no {MANIFEST} below {folder}/YYYY-MM-DDTHH-MMZ/")


def _is_inventory_name(name: str) -> bool:
    """Return True if a folder's name is the time of an inventory: YYYY-MM-DDTHH-MMZ."""
    try:
        return datetime.strptime(name, "%Y-%m-%dT%H-%MZ").replace(tzinfo=UTC).year > 0
    except ValueError:
        return False


def _present_columns(path: str, names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """Return of `wanted` those that are there. Raises TaskRefused if what is needed is not."""
    if missing := [one for one in NEEDED if one not in names]:
        raise _inventory_error(
            f"{folder_of(path)} has files without the columns {', '.join(missing)}"
        )
    return [one for one in wanted if one in names]


def _inventory_error(text: str) -> TaskRefused:
    return TaskRefused(OrphanRefusal.INVENTORY, text)
