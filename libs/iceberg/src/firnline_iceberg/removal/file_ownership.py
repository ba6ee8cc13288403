"""Whose file is it? That nobody in the table names a file is no sign that the file was the table's.

A file below a table's location is taken for one of its own only if three things say so: its place
is one where the table's writers put files; its name is one that Iceberg's writers give; and what
stands in it is of the table's columns or files (docs/decisions/0019). Anything else stays.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote_plus

import fastavro
import pyarrow as pa
from firnline_domain.errors import FirnlineError, StorageUnreachable, TaskRefused
from firnline_domain.records.parts.sharing import SharingRefusal
from pyarrow import parquet as pq
from pyiceberg.io import FileIO

from firnline_iceberg.metadata.avro_reader import (
    MetadataFileGone,
    MetadataUnreadable,
    read_records,
)
from firnline_iceberg.metadata.field_ids import LIST_NAMES
from firnline_iceberg.storage.paths import file_name, folder_of, parse_address
from firnline_iceberg.storage.stored_files import ListedObject
from firnline_iceberg.table.external_files import OwnLocations, own_locations
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import CONTENT_PROPERTIES, metadata_folders, read_uuid

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RUN = rf"(?:{_UUID}|[0-9a-f]{{32}})(?:-\d{{1,19}})?"  # of a job, with the epoch of a stream
_ENDINGS = r"\.(?:parquet|avro|orc|puffin)"
_DATA: Final = re.compile(  # a hash comes first where object storage has no folders for partitions
    rf"(?:[01]{{8}}-)?(?:"
    rf"\d{{5,10}}-\d{{1,19}}-{_RUN}(?:-\d{{5,10}})?(?:-deletes)?"  # Java's, PyIceberg's
    rf"|\d{{8}}_\d{{6}}_\d{{5}}_[0-9a-z]{{5}}-{_UUID}"  # Trino's
    rf"){_ENDINGS}"
)
_METADATA: Final = re.compile(
    rf"snap-\d{{1,19}}-\d{{1,9}}-{_UUID}\.avro"
    rf"|(?:optimized-m-)?{_UUID}(?:-m\d{{1,9}})?\.avro"
    rf"|[0-9a-f]{{32}}-[0-9a-f]{{32}}(?:-\d{{1,19}}){{4}}\.avro"  # Flink's, before a checkpoint
    rf"|(?:\d{{1,19}}|\d{{8}}_\d{{6}}_\d{{5}}_[0-9a-z]{{5}})-{_UUID}\.stats"
    rf"|partition-stats-\d{{1,19}}-{_UUID}\.(?:parquet|avro|orc)"
    rf"|\d{{5,18}}-{_UUID}(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
_HASHES: Final = re.compile(r"(?:[01]{4}/){3}[01]{8}/|[0-9a-f]{8}/")  # of object storage
_METADATA_FILES: Final = (".metadata.json", ".metadata.json.gz")
MARKS: Final[Mapping[str, str]] = {  # a folder of a table of another kind
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
    "_versions": "a Lance table",
    "snapshot": "a Paimon table",
    "schema": "a Paimon table",
}
MARKS_ABOVE: Final = ("_delta_log", ".hoodie")  # of tables that have folders within theirs
_MARKED: Final = re.compile(
    r"^(?:.*/)?(?:(_delta_log|\.hoodie|_versions)/.*"
    r"|(snapshot)/(?:snapshot-\d+|LATEST|EARLIEST)|(schema)/schema-\d+)$",
    re.MULTILINE,
)
_RESERVED = 2_147_483_000  # ids above are of Iceberg's own columns
_FILE_PATH = 2_147_483_546  # in position deletes
TAIL_BYTES: Final = 1 << 20  # of a Puffin file, in which it says what it has


def refuse_other_tables(
    places: Iterable[str], location: str, own: Iterable[str] = (), skipped: str = ""
) -> None:
    """Refuse a location if one of these files below it belongs to a table of another kind, or is
    the metadata file of an Iceberg table outside the folders `own`. `skipped`: a folder. Raises
    TaskRefused."""
    text = "\n".join(one for one in places if not skipped or not one.startswith(f"{skipped}/"))
    if found := _MARKED.search(text):
        raise _shared_refusal(location, found[0], MARKS[found[1] or found[2] or found[3]])
    if _METADATA_FILES[0] not in text:
        return
    known = {parse_address(folder) for folder in own}
    for place in text.split("\n"):
        if (
            place.endswith(_METADATA_FILES)
            and parse_address(f"{location}/{folder_of(place)}") not in known
        ):
            raise _shared_refusal(location, place, "another Iceberg table")


def refuse_marks(table: LoadedTable, listed: bool) -> None:
    """Look where a table of another kind would have its log: in every folder above the location,
    and, if the location itself was not `listed`, at the top of it and of its data. Raises
    TaskRefused, StorageUnreachable."""
    if not listed:
        _refuse_marks_within(table, MARKS)
    above = folder_of(table.metadata.location.rstrip("/"))
    while (found := parse_address(above)) is not None and found.segments:
        storage = Storage(table, above)
        for mark in (*MARKS_ABOVE, "metadata"):
            try:
                page = next(storage.list_pages(mark), None)
            except StorageUnreachable:  # keys that are handed out are those of the location
                page = None
            refuse_other_tables(page.places if page else (), above)
        above = folder_of(above)


def refuse_other_logs(table: LoadedTable) -> None:
    """Refuse to remove files that the table has named if its locations hold the log of a table of
    another kind, which may share the files (UniForm, XTable). The log may be at the location or at
    the top of the data. Raises TaskRefused, StorageUnreachable."""
    _refuse_marks_within(table, MARKS_ABOVE)


def _refuse_marks_within(table: LoadedTable, marks: Iterable[str]) -> None:
    root = Storage(table)
    for below in ("", *(one.rstrip("/") for one in data_places(table) if one)):
        for mark in marks:
            page = next(root.list_pages(f"{below}/{mark}" if below else mark), None)
            refuse_other_tables(page.places if page else (), root.location)


def _shared_refusal(location: str, place: str, what: str) -> TaskRefused:
    text = f"{what} shares the table's files: {location}/{place}; give each table a location, or "
    text += "remove what is left of a table that is gone"
    return TaskRefused(SharingRefusal.SHARED_LOCATION, text)


def data_places(table: LoadedTable) -> tuple[str, ...]:
    """Return the folders below a table's location into which its writers put data, each with a
    slash at its end; '': the location itself."""
    location, properties = table.metadata.location.rstrip("/"), table.properties
    named = [properties[key] for key in CONTENT_PROPERTIES if properties.get(key)]
    root, found = parse_address(location), list[str]()
    for path in (f"{location}/data", *named):
        place = parse_address(path)
        if place == root:
            found.append("")
        elif root is not None and place is not None and place.is_within(root):
            found.append("/".join(place.segments[len(root.segments) :]) + "/")
    return tuple(dict.fromkeys(found))


class Ownership:
    """Judges files of one table that it does not name."""

    def __init__(self, table: LoadedTable) -> None:
        self._table = table
        location, metadata = table.metadata.location.rstrip("/"), table.metadata
        self._data = data_places(table)
        root = parse_address(location)
        self._metadata = {
            "/".join(one.segments[len(root.segments) :])
            for one in map(parse_address, metadata_folders(table))
            if one is not None and root is not None and one.is_within(root)
        }
        self._partitioned = {one.name for spec in metadata.partition_specs for one in spec.fields}
        self._own: OwnLocations = own_locations(table)
        self._columns = {
            (one.field_id, one.name) for schema in metadata.schemas for one in schema.fields
        }

    def why_not_named(self, place: str) -> str:
        """Return why a file is not the table's, by place and name alone; '' = it may be."""
        folder, name = folder_of(place), file_name(place)
        if folder in self._metadata and _METADATA.fullmatch(name):
            return ""
        if not any(self._is_below(one, folder) for one in self._data):
            return (
                ""
                if folder in self._metadata and _DATA.fullmatch(name)
                else ("it lies where the table's writers put no file")
            )
        return "" if _DATA.fullmatch(name) else "its name is none that Iceberg's writers give"

    def _is_below(self, data: str, folder: str) -> bool:
        """Return True if it is in the folder of data, or in a partition of it."""
        if not f"{folder}/".startswith(data):
            return False
        rest = f"{folder}/"[len(data) :]
        rest = rest[hashes.end() :] if (hashes := _HASHES.match(rest)) else rest
        parts = [one for one in rest.split("/") if one]
        return all(
            "=" in one and unquote_plus(one.partition("=")[0]) in self._partitioned for one in parts
        )

    def why_not_by_content(self, file: ListedObject) -> str:
        """Return why a file whose name and place are the table's is not, by what stands in it; '' =
        it is, or it was never written to its end, so that no table can have it. Raises TaskRefused
        if it is the metadata file of another table, OSError."""
        path = f"{self._table.metadata.location.rstrip('/')}/{file.place}"
        name = file_name(path)
        if name.endswith(_METADATA_FILES):
            uuid = read_uuid(self._table, path)
            if uuid and uuid != str(self._table.metadata.table_uuid):
                raise _shared_refusal(folder_of(path), name, "another Iceberg table")
            return "" if uuid else "it does not say of which table it is"
        if name.startswith("partition-stats-"):
            return ""
        try:
            return self._why_not_within(path, name)
        except (FileNotFoundError, MetadataFileGone):  # its writer has cleared it up
            return ""
        except (FirnlineError, OSError, MemoryError) as error:
            if not isinstance(error, MetadataUnreadable):
                raise
            return f"it cannot be read: {error!r:.200}"
        except Exception as error:  # each format's reader has exceptions of its own
            return f"it cannot be read: {error!r:.200}"

    def _why_not_within(self, path: str, name: str) -> str:
        io = self._table.io
        ending = name.rpartition(".")[2]
        if ending == "parquet":
            return self._why_not_parquet(io, path)
        if ending == "avro":
            return self._why_not_avro(io, path)
        if ending in ("puffin", "stats"):
            return self._why_not_puffin(io, path)
        return "what stands in an ORC file is not looked at"

    def _why_not_parquet(self, io: FileIO, path: str) -> str:
        with io.new_input(path).open() as source:
            if not _is_whole(source, b"PAR1", b"PAR1"):
                return ""
            about = pq.ParquetFile(source)
            fields = [(_id_of(one), one.name) for one in about.schema_arrow]
            own = [one for one in fields if one[0] is None or one[0] < _RESERVED]
            if own:
                return self._why_other_columns(own)
            return self._why_other_files(_path_bounds(about.metadata, fields))

    def _why_not_avro(self, io: FileIO, path: str) -> str:
        with io.new_input(path).open() as source:
            content = source.read()
        if content[:4] != b"Obj\x01":
            return ""
        reader = fastavro.reader(BytesIO(content))
        said: Any = reader.metadata
        if "schema" in said:  # a manifest
            found = json.loads(said["schema"])["fields"]
            return self._why_other_columns([(one["id"], one["name"]) for one in found])
        if file_name(path).startswith("snap-"):
            return self._why_other_files(
                [row["path"] for row in read_records(io, path, LIST_NAMES)]
            )
        written: Any = reader.writer_schema
        return self._why_other_columns(
            [(one.get("field-id"), one["name"]) for one in written["fields"]]
        )

    def _why_not_puffin(self, io: FileIO, path: str) -> str:
        with io.new_input(path).open() as source:
            if not _is_whole(source, b"PFA1", b"PFA1"):
                return ""
            size = source.seek(0, 2)
            source.seek(max(size - TAIL_BYTES, 0))
            tail = source.read()
        length, flags = struct.unpack("<ii", tail[-12:-4])
        if flags or not 0 < length <= len(tail) - 16:
            return "its footer is packed, or too long"
        blobs = json.loads(tail[-12 - length : -12])["blobs"]
        named = [one.get("properties", {}).get("referenced-data-file") for one in blobs]
        if files := [one for one in named if one]:
            return self._why_other_files(files)
        ids = {number for one in blobs for number in one["fields"]}
        known = {number for number, _ in self._columns}
        return "" if blobs and ids <= known else "it describes columns of another table"

    def _why_other_columns(self, fields: list[tuple[Any, str]]) -> str:
        other = next((one for one in fields if one not in self._columns), None)
        if other is None:
            return "" if fields else "it has no columns"
        return f"it has a column {other[1]!r:.80} (id {other[0]}) that the table never had"

    def _why_other_files(self, paths: Iterable[str]) -> str:
        found = list(paths)
        other = next((one for one in found if not self._own.contains(one)), None)
        if other is None:
            return "" if found else "it names no file"
        return f"it names a file outside the table's locations: {other:.200}"


def _is_whole(source: Any, head: bytes, tail: bytes) -> bool:
    """Return True if its writer has come to its end; half a file is no table's."""
    if source.seek(0, 2) < len(head) + len(tail) + 4:
        return False
    source.seek(-len(tail), 2)
    last = source.read(len(tail))
    source.seek(0)
    first = source.read(len(head))
    source.seek(0)
    return bool(last == tail and first == head)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return int(text) if text is not None else None


def _path_bounds(about: pq.FileMetaData, fields: list[tuple[int | None, str]]) -> Iterator[str]:
    """Yield the bounds of the paths that a file of position deletes names; '' if it has none."""
    at = next((n for n, (number, _) in enumerate(fields) if number == _FILE_PATH), None)
    for group in range(about.num_row_groups):
        said = None if at is None else about.row_group(group).column(at).statistics
        if said is None or not said.has_min_max:
            yield ""
        else:
            yield from (str(said.min), str(said.max))
