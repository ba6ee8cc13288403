"""Domain dataclasses to bytes on the wire and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

from firnline_domain import commands, events, results, states
from firnline_domain.errors import PoisonousRecord
from firnline_schemas import codec
from pydantic import TypeAdapter, ValidationError

LEAVES = frozenset({int, str, bytes, bool, float, type(None)})
_names: dict[type, tuple[str, ...]] = {}  # fields by dataclass
SchemaLookup = Callable[[str], "codec.Schema | None"]  # fingerprint in hexadecimal -> schema


@cache
def record_types() -> dict[str, type]:
    """Every record that travels, by its Avro name."""
    found: dict[str, type] = {}
    for module in (events, commands, results, states):
        for name in codec.record_names():
            if cls := getattr(module, name, None):
                found[name] = cls
    return found


@cache
def _adapter(record: str) -> TypeAdapter[Any]:
    return TypeAdapter(record_types()[record])


def encode(record: Any) -> bytes:
    """Bytes of a domain record. Raises ValueError where it does not fit its schema."""
    return codec.encode(type(record).__name__, _plain(record))


def _fields(kind: type) -> tuple[str, ...]:
    """Names of a dataclass's fields; none for any other type."""
    if kind not in _names:
        plain = not dataclasses.is_dataclass(kind)
        _names[kind] = () if plain else tuple(field.name for field in dataclasses.fields(kind))
    return _names[kind]


def _plain(value: Any) -> Any:
    """Dicts and lists, as Avro's writer takes them. Nothing is copied that cannot change:
    `dataclasses.asdict` copies every number, and takes six times as long."""
    kind = type(value)
    if kind in LEAVES:
        return value
    if names := _fields(kind):
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


class RecordCodec:
    """Decodes bytes into domain records; asks `lookup` for fingerprints that it does not know."""

    def __init__(self, lookup: SchemaLookup | None = None) -> None:
        self._codec = codec.Codec()
        self._lookup = lookup

    def decode(self, data: bytes | None) -> Any:
        """A frozen dataclass of `firnline_domain`. Raises PoisonousRecord with a reason code."""
        if data is None:
            raise PoisonousRecord("empty_record", "the record has no value")
        try:
            name, value = self._codec.decode(self._learned(data))
            return _adapter(name).validate_python(value)
        except codec.NotSingleObject as error:
            raise PoisonousRecord("not_single_object", str(error)) from error
        except codec.SchemaNotFound as error:
            hint = f"schema {error} is unknown here and on the `schemas` topic; upgrade this reader"
            raise PoisonousRecord("unknown_schema", hint) from error
        except ValidationError as error:
            raise PoisonousRecord("bad_value", str(error)) from error
        except ValueError as error:
            raise PoisonousRecord("bad_body", str(error)) from error

    def _learned(self, data: bytes) -> bytes:
        mark = data[len(codec.MARKER) : codec.HEADER_BYTES]
        if self._lookup and data[:2] == codec.MARKER and not self._codec.knows(mark):
            schema = self._lookup(mark.hex())
            # A record type that this code has no dataclass for stays unknown.
            if schema is not None and schema["name"] in record_types():
                self._codec.learn(schema)
        return data
