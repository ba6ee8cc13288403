"""Schemas change in both directions or not at all.

A pinned version is not edited by mistake: `fingerprints.json` has those of before, and every one
is pinned when it is released. A new version must read what older code wrote, and older code must
read what it writes."""

from __future__ import annotations

import io
import itertools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_schemas import codec

PINNED = json.loads((Path(__file__).parent / "fingerprints.json").read_text())
BYTES = {"DeadLettered": ("key", "value"), "RecordForwarded": ("record",)}
EXAMPLES = files("firnline_schemas").joinpath("examples")


def stem(record: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in record).lstrip("_")


def examples(record: str) -> list[dict[str, Any]]:
    folder = EXAMPLES.joinpath(stem(record))
    return [json.loads(entry.read_text()) for entry in folder.iterdir()]


def prepared(record: str, value: dict[str, Any]) -> dict[str, Any]:
    """JSON has no bytes; the examples hold them as latin-1 text."""
    found = {name: value[name].encode("latin-1") for name in BYTES.get(record, ()) if name in value}
    if record == "TableHanded":
        found["pairs"] = [
            {name: text.encode("latin-1") for name, text in pair.items()} for pair in value["pairs"]
        ]
    return {**value, **found}


def crossed(value: dict[str, Any], writer: codec.Schema, reader: codec.Schema) -> Any:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(writer), value)
    body.seek(0)
    return fastavro.schemaless_reader(
        body, fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )


def test_pinned_versions_are_not_edited() -> None:
    found = {
        f"{record}.v{number}": codec.fingerprint(schema).hex()
        for record in codec.record_names()
        for number, schema in codec.versions(record).items()
    }
    edited = {name: found.get(name) for name, pin in PINNED.items() if found.get(name) != pin}
    assert not edited, f"a released .avsc is never edited; before that pin it anew: {edited}"


@pytest.mark.parametrize("record", codec.record_names())
def test_every_record_has_examples_that_fit(record: str) -> None:
    found = examples(record)
    assert found
    for value in found:
        data = codec.encode(record, prepared(record, value))
        assert codec.Codec().decode(data) == (record, prepared(record, value))


@pytest.mark.parametrize("record", codec.record_names())
def test_neighbouring_versions_read_each_other(record: str) -> None:
    """The versions that there are, and one more that a harmless change would make."""
    history = [schema for _, schema in sorted(codec.versions(record).items())]
    history.append(next_version(history[-1]))
    for old, new in itertools.pairwise(history):
        for value in examples(record):
            known = prepared(record, value)
            backward = crossed(known, new, old)
            assert backward.keys() == {field["name"] for field in old["fields"]}
            assert is_within(backward, known)
            forward = crossed(backward, old, new)
            assert forward.keys() == {field["name"] for field in new["fields"]}
            assert is_within(backward, forward)


@pytest.mark.parametrize("record", codec.record_names())
def test_a_record_of_the_next_version_is_read_once_its_schema_is_learned(record: str) -> None:
    """As a reader meets it that was not upgraded yet: the new field is left out."""
    later = next_version(codec.newest(record))
    for value in examples(record):
        known = prepared(record, value)
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(later), {**known, "later": 7})
        data = codec.MARKER + codec.fingerprint(later) + body.getvalue()
        reader = codec.Codec()
        with pytest.raises(codec.SchemaNotFound):
            reader.decode(data)
        reader.learn(later)
        assert reader.decode(data) == (record, known)


def next_version(schema: codec.Schema) -> codec.Schema:
    """A version 2 that nobody has published."""
    return with_field(schema, {"name": "later", "type": ["null", "long"], "default": None})


def is_within(part: Any, whole: Any) -> bool:
    """Every field of `part`, at any depth, is in `whole` with the same value."""
    if isinstance(part, dict):
        return all(key in whole and is_within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        same = len(part) == len(whole)
        return same and all(is_within(a, b) for a, b in zip(part, whole, strict=True))
    return bool(part == whole)


def test_a_new_field_without_a_default_is_caught() -> None:
    """The check above can fail: this is what it would catch."""
    old = codec.newest("TickPassed")
    new = with_field(old, {"name": "later", "type": "long"})
    with pytest.raises(Exception, match="later"):
        crossed({"bucket": 1, "at_ms": 2}, old, new)


def with_field(schema: codec.Schema, field: dict[str, Any]) -> codec.Schema:
    return {**schema, "fields": [*schema["fields"], field]}
