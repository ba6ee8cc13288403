"""What a table's files are to be like, as PyIceberg and as Java have its metadata."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from firnline_domain.results import TableForm
from pyiceberg.table.metadata import TableMetadata

NAME_MAPPING = "schema.name-mapping.default"
ENCRYPTION_KEY = "encryption.key-id"


def form_of(metadata: TableMetadata) -> TableForm:
    """Of a table as PyIceberg has loaded it."""
    given = metadata.properties
    return _form(
        metadata.format_version,
        metadata.current_schema_id,
        given.get(NAME_MAPPING),
        given.get(ENCRYPTION_KEY),
    )


def form_of_java(metadata: Any) -> TableForm:
    """Of a Java `TableMetadata`: five calls of 0.1 ms."""
    given = metadata.properties()
    return _form(
        metadata.formatVersion(),
        metadata.currentSchemaId(),
        given.get(NAME_MAPPING),
        given.get(ENCRYPTION_KEY),
    )


def _form(version: int, schema_id: int, mapping: str | None, key: str | None) -> TableForm:
    checksum = "" if mapping is None else sha256(mapping.encode()).hexdigest()[:16]
    return TableForm(version, schema_id, checksum, key is not None)
