"""Avro single-object encoding: the schema's fingerprint travels with each record.

Bytes on the wire: C3 01, the writer schema's CRC-64-AVRO fingerprint (8 bytes, little endian),
the Avro body (Avro specification, "Single-object encoding").
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro
from fastavro.schema import fingerprint as avro_fingerprint
from fastavro.schema import to_parsing_canonical_form

MARKER = b"\xc3\x01"
HEADER_BYTES = len(MARKER) + 8
_FILE = re.compile(r"(?P<record>[a-z_]+)\.v(?P<version>\d+)\.avsc")

MAX_VALUES = 10_000  # that a schema names; ours names 200 at the most
VALUES_OF_BYTE = 5  # in a list; ours have 4 at the most

Schema = dict[str, Any]


class SchemaNotFound(LookupError):
    """No schema is known by that name or fingerprint; look it up on the `schemas` topic."""


class NotSingleObject(ValueError):
    """The bytes do not begin with Avro's single-object marker C3 01."""


def record_name(file_stem: str) -> str:
    """Return the record of a schema file: `table_committed` -> `TableCommitted`."""
    return "".join(part.capitalize() for part in file_stem.split("_"))


@cache
def _versions() -> dict[str, dict[int, Schema]]:
    found: dict[str, dict[int, Schema]] = {}
    for entry in files("firnline_schemas").joinpath("avro").iterdir():
        if match := _FILE.fullmatch(entry.name):
            schema = json.loads(entry.read_text())
            found.setdefault(record_name(match["record"]), {})[int(match["version"])] = schema
    return found


def record_names() -> list[str]:
    """Return the names of all records, sorted."""
    return sorted(_versions())


def versions(record: str) -> dict[int, Schema]:
    """Return all versions of a record's schema by number. Raises SchemaNotFound."""
    try:
        return _versions()[record]
    except KeyError:
        raise SchemaNotFound(f"no schema for record {record!r}") from None


def newest(record: str) -> Schema:
    """Return the schema that this code writes. Raises SchemaNotFound."""
    return versions(record)[max(versions(record))]


def fingerprint(schema: Schema) -> bytes:
    """Return the CRC-64-AVRO of the parsing canonical form: 8 bytes in the order of the wire."""
    # fastavro gives the number's bytes in wire order, as hexadecimal text.
    return bytes.fromhex(avro_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def _parse_newest(record: str) -> tuple[bytes, Any]:
    schema = newest(record)
    return fingerprint(schema), fastavro.parse_schema(schema)


def encode(record: str, value: dict[str, Any]) -> bytes:
    """Encode a record with its newest schema.

    Raises SchemaNotFound, or ValueError if the value has an unknown or a missing field (`strict`:
    without it an unknown field would be dropped silently)."""
    mark, schema = _parse_newest(record)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, value, strict=True)
    return MARKER + mark + body.getvalue()


class Codec:
    """Decodes records of every known version; `learn` adds versions newer than this code."""

    def __init__(self) -> None:
        self._writers: dict[bytes, tuple[str, Any]] = {}
        for record in record_names():
            for schema in versions(record).values():
                self.learn(schema)

    def learn(self, schema: Schema) -> None:
        """Make records written with this schema readable."""
        name = schema["name"]
        self._writers[fingerprint(schema)] = (name, fastavro.parse_schema(schema))

    def knows(self, mark: bytes) -> bool:
        """Return True if records with this fingerprint can be decoded."""
        return mark in self._writers

    def decode(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """Decode to (record name, value in the form of the newest schema).

        Raises NotSingleObject, SchemaNotFound (its text holds the fingerprint in hexadecimal), or
        ValueError if the body does not fit its schema."""
        if data[:2] != MARKER or len(data) < HEADER_BYTES:
            raise NotSingleObject(f"record starts with {data[:2].hex() or 'nothing'}, not c301")
        mark = data[2:HEADER_BYTES]
        if mark not in self._writers:
            raise SchemaNotFound(mark.hex())
        name, writer = self._writers[mark]
        newest_mark, reader = _parse_newest(name)
        body = io.BytesIO(data[HEADER_BYTES:])
        try:
            # Resolution compares both schemas with each record: half of its time.
            value = fastavro.schemaless_reader(
                body, writer, reader if mark != newest_mark else None
            )
        except Exception as broken:  # fastavro raises EOFError, IndexError, struct.error ...
            raise ValueError(f"{name} body does not fit its schema: {broken!r}") from broken
        return name, value


def demand_harmless(schema: Any, mark: str) -> None:
    """Return if bytes can be read with a schema that a stranger may have written.

    Raises ValueError if `mark` is not its fingerprint in hexadecimal, and the errors of
    `parse_bounded`."""
    if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
        raise ValueError(f"a schema is an object with a name, not {type(schema).__name__}")
    parse_bounded(schema)
    if (own := fingerprint(schema).hex()) != mark:
        raise ValueError(f"its fingerprint is {own}, its key {mark[:40]!r}")


def parse_bounded(schema: Any) -> Any:
    """Return a stranger's schema as fastavro reads with it. Raises ValueError if a few bytes would
    become more values than memory holds, and what fastavro raises: its C code reads a record within
    itself until the stack ends, and 2**60 items of no bytes each until the memory does."""
    if "__fastavro_parsed__" in json.dumps(schema):
        raise ValueError("__fastavro_parsed__: it says that it was checked")
    parsed = fastavro.parse_schema(schema)
    _Expansion().add(parsed)
    return parsed


class _Expansion:
    """How many values a schema names, each reference counted like what it refers to."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int] | None] = {}  # None: it has begun and not ended

    def add(self, schema: Any) -> tuple[int, int]:
        """Return (values, minimum bytes of the encoded form) of a type. Raises ValueError."""
        if isinstance(schema, str):
            return self._bounds_of_name(schema)
        if isinstance(schema, list):
            parts = [self.add(one) for one in schema]
            return 1 + sum(values for values, _ in parts), 1
        kind = schema["type"]
        if kind in ("array", "map"):
            values, size = self.add(schema["items" if kind == "array" else "values"])
            if values > VALUES_OF_BYTE * (size + (kind == "map")):  # a key takes one
                raise ValueError(f"items of {kind} that take no bytes for most of their values")
            return 1 + values, 1
        if kind in ("record", "error"):
            return self._record(schema)
        if kind in ("enum", "fixed"):
            self._named[schema["name"]] = (1, schema.get("size", 1))
            return 1, schema.get("size", 1)
        return self.add(kind)

    def _bounds_of_name(self, name: str) -> tuple[int, int]:
        if name not in self._named:
            return 1, 0 if name == "null" else 1
        if (found := self._named[name]) is None:
            raise ValueError(f"{name} is within itself")
        return found

    def _record(self, schema: Schema) -> tuple[int, int]:
        self._named[schema["name"]] = None
        parts = [self.add(field["type"]) for field in schema["fields"]]
        values = 1 + sum(values for values, _ in parts)
        if values > MAX_VALUES:
            raise ValueError(f"{schema['name']} names more than {MAX_VALUES:,} values")
        self._named[schema["name"]] = found = values, sum(size for _, size in parts)
        return found


def all_schemas() -> Iterator[tuple[str, Schema]]:
    """Yield (fingerprint in hexadecimal, schema) of every version, for the `schemas` topic."""
    for record in record_names():
        for schema in versions(record).values():
            yield fingerprint(schema).hex(), schema
