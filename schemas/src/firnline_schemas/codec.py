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

Schema = dict[str, Any]


class SchemaNotFound(LookupError):
    """No schema is known by that name or fingerprint; look it up on the `schemas` topic."""


class NotSingleObject(ValueError):
    """The bytes do not begin with Avro's single-object marker C3 01."""


def record_name(file_stem: str) -> str:
    """`table_committed` -> `TableCommitted`."""
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
    """Names of all records, sorted."""
    return sorted(_versions())


def versions(record: str) -> dict[int, Schema]:
    """All versions of a record's schema by number. Raises SchemaNotFound."""
    try:
        return _versions()[record]
    except KeyError:
        raise SchemaNotFound(f"no schema for record {record!r}") from None


def newest(record: str) -> Schema:
    """The schema that this code writes. Raises SchemaNotFound."""
    return versions(record)[max(versions(record))]


def fingerprint(schema: Schema) -> bytes:
    """CRC-64-AVRO of the parsing canonical form, 8 bytes as they stand on the wire."""
    # fastavro gives the number's bytes in wire order, as hexadecimal text.
    return bytes.fromhex(avro_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def _parsed(record: str) -> tuple[bytes, Any]:
    schema = newest(record)
    return fingerprint(schema), fastavro.parse_schema(schema)


def encode(record: str, value: dict[str, Any]) -> bytes:
    """Bytes of a record, with the newest schema.

    Raises SchemaNotFound, or ValueError where the value has an unknown or a missing field
    (`strict`: without it an unknown field would be dropped silently).
    """
    mark, schema = _parsed(record)
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
        """True if records with this fingerprint can be decoded."""
        return mark in self._writers

    def decode(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """(record name, value as the newest schema has it).

        Raises NotSingleObject, SchemaNotFound (its text holds the fingerprint in hexadecimal),
        or ValueError where the body does not fit its schema.
        """
        if data[:2] != MARKER or len(data) < HEADER_BYTES:
            raise NotSingleObject(f"record starts with {data[:2].hex() or 'nothing'}, not c301")
        mark = data[2:HEADER_BYTES]
        if mark not in self._writers:
            raise SchemaNotFound(mark.hex())
        name, writer = self._writers[mark]
        newest_mark, reader = _parsed(name)
        body = io.BytesIO(data[HEADER_BYTES:])
        try:
            # Resolution compares both schemas with each record: half of its time.
            value = fastavro.schemaless_reader(
                body, writer, reader if mark != newest_mark else None
            )
        except Exception as broken:  # fastavro raises EOFError, IndexError, struct.error ...
            raise ValueError(f"{name} body does not fit its schema: {broken!r}") from broken
        return name, value


def all_schemas() -> Iterator[tuple[str, Schema]]:
    """(fingerprint in hexadecimal, schema) of every version, for the `schemas` topic."""
    for record in record_names():
        for schema in versions(record).values():
            yield fingerprint(schema).hex(), schema
