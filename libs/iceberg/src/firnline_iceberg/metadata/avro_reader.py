"""Avro files of Iceberg metadata, read by field id and only as far as they are needed.

Names changed between versions and writers, field ids did not. Logical types stay raw values,
because a partition value may lie outside what Python's `date` can hold.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro
from firnline_adapters.observability import metrics
from firnline_domain.errors import FirnlineError, StorageUnreachable, TaskRefused
from firnline_schemas.codec import parse_bounded
from pyiceberg.io import FileIO

from firnline_iceberg.metadata.avro_blocks import limit_blocks
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.storage.paths import PREFIX, resolve_file

Schema = dict[str, Any]
Record = dict[str, Any]

limit_blocks()

_OURS = PREFIX.encode()
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        ],
    }
)


class MetadataFileGone(TaskRefused):
    """A manifest list or manifest does not exist any more: its snapshot was expired."""

    def __init__(self, path: str) -> None:
        super().__init__("metadata_file_gone", f"{path} does not exist")


class MetadataUnreadable(TaskRefused):
    """A metadata file is not what the specification says; nobody has served its table."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__("metadata_unreadable", f"{path}: {why!r}")


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raise MetadataUnreadable instead of any error that a metadata file's content causes in the
    body: fastavro and each codec have exceptions of their own, and a value of another type than the
    specification's fails at its first use."""
    try:
        yield
    except (FirnlineError, MemoryError):
        raise
    except Exception as error:
        raise MetadataUnreadable(path, error) from error


_WHOLE, _TEXT = frozenset({"int", "long"}), frozenset({"string"})
_TEXTS = ("path", "format", "referenced_data_file")
_NUMBERS = (
    *("status", "snapshot_id", "sequence_number", "file_sequence_number", "records", "bytes"),
    *("sort_order_id", "first_row_id", "content", "content_offset", "content_size", "length"),
    *("spec_id", "added_snapshot_id", "added_files", "existing_files", "deleted_files"),
    "min_sequence_number",
)
TYPES = {**dict.fromkeys(_TEXTS, _TEXT), **dict.fromkeys(_NUMBERS, _WHOLE)}
"""Avro types that a field of these names may have. Values are what their schema says, so it is
asked once, and not each value."""


class AvroFields:
    """Field ids to read of a record, with the names to give them.

    `nested` goes on into records; `every` (for a partition tuple) takes all fields, each under
    `every` + its field id. `most`: nearly all of a record's bytes are wanted. Then what is not is
    decoded, too, which takes fastavro a third to a half of the time of skipping it."""

    def __init__(
        self,
        names: Mapping[int, str] | None = None,
        nested: Mapping[int, AvroFields] | None = None,
        every: str | None = None,
        most: bool = False,
    ) -> None:
        self._names = names or {}
        self._nested = nested or {}
        self._every = every
        self.most = most

    def narrow_schema(self, schema: Schema) -> Schema:
        """Return a reader's schema for the writer's `schema`: the wanted fields, renamed."""
        return self._select_fields(schema, narrowed=True)

    def rename_fields(self, schema: Schema) -> Schema:
        """Return the writer's schema, with names that we give: bytes are without names."""
        return self._select_fields(schema, narrowed=False)

    def _select_fields(self, schema: Schema, narrowed: bool) -> Schema:
        fields = schema["fields"]
        if narrowed:
            fields = [one for one in fields if self._name_of(one) is not None]
        return {**schema, "fields": [self._rename_field(one, narrowed) for one in fields]}

    def _nested_record(self, kind: Any, narrowed: bool) -> Any:
        """Return the nested schema, of a record that is optional too: Sail 0.7.2 writes partitions
        so."""
        if isinstance(kind, list):
            return [one if one == "null" else self._select_fields(one, narrowed) for one in kind]
        return self._select_fields(kind, narrowed)

    def _name_of(self, field: Schema) -> str | None:
        key = field.get("field-id")
        if self._every is not None:
            return f"{self._every}{key}"
        return self._names.get(key) if key is not None else None

    def _rename_field(self, field: Schema, narrowed: bool) -> Schema:
        name = self._name_of(field)
        if name is None:  # no name of ours has a blank
            return {**field, "name": f"not wanted: {field['name']}"}
        allowed = None if self._every is not None else TYPES.get(name)
        if allowed is not None and not set() < _types_of(field["type"]) <= allowed:
            raise TypeError(f"{field['name']} has the type {field['type']}")
        inner = self._nested.get(field["field-id"])
        kind = inner._nested_record(field["type"], narrowed) if inner else field["type"]
        return {**field, "name": name, "aliases": [field["name"]], "type": kind}


def _types_of(kind: Any) -> set[str]:
    """Return the names of an Avro type without `null`."""
    kinds = kind if isinstance(kind, list) else [kind]
    return {one["type"] if isinstance(one, dict) else one for one in kinds} - {"null"}


def read_records(io: FileIO, path: str, wanted: AvroFields) -> Iterator[Record]:
    """Read the records of an Avro file.

    Raises MetadataFileGone, RetryLater (storage unreachable), MetadataUnreadable: Iceberg 1.12.0
    for one writes `fixed` partition values as `bytes`, against the schema in the same file."""
    content = content_of(io, path)
    with readable(path):
        yield from _decode_records(content, wanted)


def _decode_records(content: bytes, wanted: AvroFields) -> Iterator[Record]:
    stream = BytesIO(content)
    header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
    end = stream.tell()
    writers, readers = _parse_schemas(wanted, header["meta"]["avro.schema"])
    header["meta"]["avro.schema"] = writers
    plain = BytesIO()
    fastavro.schemaless_writer(plain, _HEADER, header)
    plain.write(content[end:])
    plain.seek(0)
    return fastavro.reader(plain, reader_schema=readers)  # type: ignore[no-any-return]


def read_blocks(io: FileIO, path: str) -> tuple[bytes, Iterator[tuple[int, bytes]]]:
    """Read the writer's schema of an Avro file, and of each block how many records it has, and
    their bytes, unpacked. Raises as `read_records`, also while it is read."""
    content = content_of(io, path)
    with readable(path):
        header: Any = fastavro.schemaless_reader(BytesIO(content), _HEADER, None)
        return header["meta"]["avro.schema"], _unpack_blocks(path, content)


def _unpack_blocks(path: str, content: bytes) -> Iterator[tuple[int, bytes]]:
    with readable(path):
        for block in fastavro.block_reader(BytesIO(content)):
            yield block.num_records, block.bytes_.getvalue()


def find_names(io: FileIO, path: str, names: Collection[bytes]) -> set[bytes]:
    """Return those of `names`, all of which begin with `firnline-`, that stand anywhere in the
    blocks of an Avro file: in a path of an entry, or in a bound. Raises as `read_records`."""
    content = content_of(io, path)
    lengths = {len(name) for name in names}
    found: set[bytes] = set()
    with readable(path):
        for block in fastavro.block_reader(BytesIO(content)):
            raw = block.bytes_.getvalue()
            at = raw.find(_OURS)
            while at >= 0:
                found.update(raw[at : at + length] for length in lengths)
                at = raw.find(_OURS, at + 1)
            found.intersection_update(names)
    return found


@lru_cache(maxsize=256)  # writers' schemas repeat: one per spec, version and writer
def _parse_schemas(wanted: AvroFields, schema: bytes) -> tuple[bytes, Schema | None]:
    """Return the writer's schema for fastavro, and the reader's, None: the same. Values are
    converted by the writer's; a renamed logical type leaves raw values. Raises what
    `parse_bounded` does."""
    plain = schema.replace(b'"logicalType"', b'"logicalName"')
    parse_bounded(json.loads(plain))
    if wanted.most:
        return json.dumps(wanted.rename_fields(json.loads(plain))).encode(), None
    return plain, wanted.narrow_schema(json.loads(schema))


def content_of(io: FileIO, path: str) -> bytes:
    """Read a whole file. Raises as `read_records`."""
    if (at := resolve_file(path)).is_local and stat.S_ISFIFO(_mode(at.local_path)):
        raise MetadataUnreadable(path, "a pipe, which may never be written to")
    try:
        started = time.monotonic()
        with io.new_input(path).open() as stream:
            content: bytes = stream.read()
        metrics.observe("storage_read_seconds", time.monotonic() - started)
        return content
    except FileNotFoundError as error:
        raise MetadataFileGone(path) from error
    except OSError as error:
        raise storage_error(f"cannot read {path}", error) from error
    except ValueError as error:  # of Arrow, at a scheme or a path that is none
        raise MetadataUnreadable(path, error) from error
    except (FirnlineError, MemoryError):
        raise
    except Exception as error:  # a client of a store has errors of its own
        raise StorageUnreachable(f"cannot read {path}: {error!r}") from error


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0  # opening it says why
