"""Select the table properties that are sent to the planner, and limit their size.

Known names first, others only as many as advice can speak of; a value that is longer than any
setting is travels as a text that no setting reads, so that it is unset and advised about, and never
cut into another value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from firnline_domain.policy.table_action.snapshot_retention import SHARED_BY
from firnline_domain.records.parts.tallies import TARGET_BYTES
from firnline_domain.settings.in_force import OURS, PERIODS, READ_ELSEWHERE
from firnline_domain.settings.parquet import BLOOM_FILTER, OF_COMMITS, PARQUET, PARQUET_COLUMNS
from firnline_domain.settings.thresholds import PROPERTIES
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, NestedField, PrimitiveType, StructType

MAX_BYTES = 1_000  # of a value in UTF-8
MAX_PERIOD_BYTES = 8_000  # of a window or a blackout: the holidays of ten years
MAX_NAME_BYTES = 200
MAX_OTHERS = 50  # names that are no settings, and yet begin like ours
SHOWN = 40  # characters of what is too long
_PERIODS = frozenset(name for name, one in PROPERTIES.items() if one.field in PERIODS)
_TABLES = (OURS, "history.expire.", "write.delete.", *PARQUET_COLUMNS)
_EXACT = (
    TARGET_BYTES,
    "gc.enabled",
    "write.format.default",
    "write.update.mode",
    "write.merge.mode",
    "write.metadata.delete-after-commit.enabled",
    *SHARED_BY,
    *PARQUET,
    *OF_COMMITS,
)
KNOWN = tuple(dict.fromkeys((*PROPERTIES, *READ_ELSEWHERE, *_EXACT)))


def select_table_settings(
    properties: Mapping[str, str], schema: Schema | None = None
) -> dict[str, str]:
    """Return the properties of a table that matter to the planner. A bloom filter on a column of
    `schema` that cannot have one travels as a text that no setting reads, because the planner has
    no schema."""
    known = [name for name in KNOWN if name in properties]
    kept = _select_properties(properties, known, _TABLES)
    return kept if schema is None else {**kept, **dict(_without_filter(kept, schema))}


def _without_filter(kept: Mapping[str, str], schema: Schema) -> Iterator[tuple[str, str]]:
    asked = {
        name: name.removeprefix(BLOOM_FILTER)
        for name, text in kept.items()
        if name.startswith(BLOOM_FILTER) and text.lower() == "true"
    }
    types = dict(_filterable_columns(schema.fields)) if asked else {}
    for name, column in asked.items():
        if column not in types:
            yield name, "true (no such column, or one in a list or map)"
        elif isinstance(types[column], BooleanType):
            yield name, "true (a boolean)"


def _filterable_columns(
    fields: Iterable[NestedField], above: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield the columns by their dotted names, also those of structs: readers do not apply filters
    to lists."""
    for field in fields:
        name = above + field.name
        if isinstance(field.field_type, StructType):
            yield from _filterable_columns(field.field_type.fields, f"{name}.")
        elif isinstance(field.field_type, PrimitiveType):
            yield name, field.field_type


def select_namespace_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a namespace that begin with Firnline's prefix: they are the defaults
    of its tables."""
    known = [name for name in KNOWN if name in properties and name.startswith(OURS)]
    return _select_properties(properties, known, (OURS,))


def _select_properties(
    properties: Mapping[str, str], known: Iterable[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    kept = {name: _cap_value(name, properties[name]) for name in known}
    others = sorted(name for name in properties if name.startswith(prefixes) and name not in kept)
    for name in others[:MAX_OTHERS]:
        if _size_bytes(name) <= MAX_NAME_BYTES:
            kept[name] = _cap_value(name, properties[name])
    return kept


def _cap_value(name: str, text: str) -> str:
    most = MAX_PERIOD_BYTES if name in _PERIODS else MAX_BYTES
    if len(text) <= most and _size_bytes(text) <= most:
        return text
    return f"{text[:SHOWN]}... ({len(text)} characters, too long)"


def _size_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
