"""Domain values to bytes on the wire and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from firnline_domain.base.values import to_plain
from firnline_domain.errors import PoisonousRecord
from firnline_domain.policy.fleet.lanes import BEFORE_GROUP
from firnline_domain.records import events, orders, results, states
from firnline_schemas import codec
from firnline_schemas.topics import topic as topic_file

from firnline_adapters.config.redaction import redact

_WORDS = ("message", "detail")
SchemaLookup = Callable[[str], "codec.Schema | None"]  # fingerprint in hexadecimal -> schema


@cache
def record_types() -> dict[str, type]:
    """Return the classes of all records on topics by Avro name."""
    found: dict[str, type] = {}
    for module in (events, orders, results, states):
        for name in codec.record_names():
            if cls := getattr(module, name, None):
                found[name] = cls
    return found


def from_plain(name: str, fields: Any) -> Any:
    """Return the record of that Avro name with these fields. Raises msgspec.ValidationError."""
    return msgspec.convert(fields, record_types()[name])


@cache
def kinds_of(topic: str) -> frozenset[str] | None:
    """Return the names of the records that a topic's file allows; None without such a file. A
    resource group's topic allows what the topic of its queue does."""
    try:
        return frozenset(topic_file(topic.partition(BEFORE_GROUP)[0]).records)
    except KeyError:
        return None


def check_kind(topic: str, record: Any) -> Any:
    """Return the record, if its kind may be on that topic. Raises PoisonousRecord: a kind of record
    that is believed on one topic must not come by another, which others may write."""
    kinds, name = kinds_of(topic), type(record).__name__
    if kinds is not None and name not in kinds:
        raise PoisonousRecord(
            "unexpected_record", f"record type {name} is not allowed on topic {topic}"
        )
    return record


def encode_record(record: Any) -> bytes:
    """Encode a domain record; its free text is without secrets, because it quotes exceptions and
    everybody can read the topics. Raises ValueError if it does not fit its schema."""
    plain = to_plain(record)
    for name in _WORDS:
        if isinstance(text := plain.get(name), str):
            plain[name] = redact(text)
    kind = type(record).__name__
    try:
        return codec.encode(kind, plain)
    except UnicodeEncodeError:  # JSON may hold half of a character, which no UTF-8 can
        return codec.encode(kind, _whole_characters(plain))


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(one) for key, one in value.items()}
    return [_whole_characters(one) for one in value] if isinstance(value, list) else value


class RecordCodec:
    """Decodes bytes into domain records; asks `lookup` for fingerprints that it does not know."""

    def __init__(self, lookup: SchemaLookup | None = None) -> None:
        self._codec = codec.Codec()
        self._lookup = lookup

    def decode(self, data: bytes | None) -> Any:
        """Return a value of `firnline_domain`. Raises PoisonousRecord with a reason code for any
        invalid bytes, and nothing else."""
        if data is None:
            raise PoisonousRecord("empty_record", "the record has no value")
        try:
            name, value = self._codec.decode(self._with_known_schema(data))
            return from_plain(name, value)
        except codec.NotSingleObject as error:
            raise PoisonousRecord("not_single_object", str(error)) from error
        except codec.SchemaNotFound as error:
            hint = f"schema {error} is unknown here and on the `schemas` topic; upgrade this reader"
            raise PoisonousRecord("unknown_schema", hint) from error
        except msgspec.ValidationError as error:
            raise PoisonousRecord("bad_value", str(error)) from error
        except Exception as error:  # a schema that was learned may break any library's rules
            raise PoisonousRecord("bad_body", f"{type(error).__name__}: {error}") from error

    def _with_known_schema(self, data: bytes) -> bytes:
        mark = data[len(codec.MARKER) : codec.HEADER_BYTES]
        if self._lookup and data[:2] == codec.MARKER and not self._codec.knows(mark):
            schema = self._lookup(mark.hex())
            # A record type that this code has no type for stays unknown.
            if schema is not None and schema["name"] in record_types():
                self._codec.learn(schema)
        return data
