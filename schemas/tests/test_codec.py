"""Single-object encoding, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest
from fastavro.schema import SchemaParseException
from firnline_schemas import codec

TICK = {"bucket": 3, "at_ms": 1_795_270_001_000}


def test_header_is_marker_and_little_endian_fingerprint() -> None:
    """The specification's own example: the fingerprint of "null" is 0x63dd24e7cc258f8a."""
    assert codec.fingerprint("null") == (0x63DD24E7CC258F8A).to_bytes(8, "little")  # type: ignore[arg-type]
    data = codec.encode("TickPassed", TICK)
    assert data[:2] == b"\xc3\x01"
    assert data[2:10] == codec.fingerprint(codec.newest("TickPassed"))


def test_round_trip() -> None:
    assert codec.Codec().decode(codec.encode("TickPassed", TICK)) == ("TickPassed", TICK)


@pytest.mark.parametrize("data", [b"", b"\xc3", b"{}", b"\xc3\x01abc"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(codec.NotSingleObject):
        codec.Codec().decode(data)


def test_unknown_fingerprint_names_itself() -> None:
    with pytest.raises(codec.SchemaNotFound, match="00" * 8):
        codec.Codec().decode(codec.MARKER + bytes(8) + b"x")


def test_truncated_body_is_refused() -> None:
    whole = codec.encode("RewriteSkipped", EXAMPLE)
    with pytest.raises(ValueError, match="RewriteSkipped"):
        codec.Codec().decode(whole[: codec.HEADER_BYTES + 4])


def test_unknown_field_is_not_dropped_silently() -> None:
    with pytest.raises(ValueError, match="surprise"):
        codec.encode("TickPassed", {**TICK, "surprise": 1})


EXAMPLE = {
    "task_id": "0" * 32,
    "table": {"uuid": "u", "namespace": ["a"], "name": "b", "catalog": "lake", "prefix": ""},
    "ref": "main",
    "scope": None,
    "reason": "nothing_to_do",
    "at_ms": 1,
    "dead_rows": [],
}


def _record(name: str, *fields: object) -> dict[str, object]:
    listed = [{"name": f"f{number}", "type": one} for number, one in enumerate(fields)]
    return {"type": "record", "name": name, "fields": listed}


def _doubled(levels: int) -> dict[str, object]:
    """A few hundred bytes that name 2 ** levels values."""
    inner: object = _record("R0", "null")
    for level in range(1, levels):
        inner = _record(f"R{level}", inner, f"R{level - 1}")
    return _record("TickPassed", inner)


HARMFUL = {
    "within itself": _record("TickPassed", "TickPassed"),
    "optionally within itself": _record("TickPassed", ["null", "TickPassed"]),
    "in an array within itself": _record("TickPassed", {"type": "array", "items": "TickPassed"}),
    "items of nothing": _record("TickPassed", {"type": "array", "items": "null"}),
    "items of an empty record": _record("TickPassed", {"type": "array", "items": _record("E")}),
    "items of no bytes": _record(
        "TickPassed", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}
    ),
    "items of one byte and much nothing": _record(
        "TickPassed", {"type": "array", "items": _record("E", "boolean", *["null"] * 900)}
    ),
    "values of nothing": _record(
        "TickPassed", {"type": "map", "values": _record("E", *["null"] * 900)}
    ),
    "doubled": _doubled(40),
    "said to be checked": {**_record("TickPassed", "nobody"), "__fastavro_parsed__": True},
    "no name": {"type": "record", "fields": []},
    "a list": [],
    "a text": "null",
    "a number": 5,
    "a type that is none": _record("TickPassed", "nobody"),
}


@pytest.mark.parametrize("how", HARMFUL)
def test_a_schema_that_a_stranger_wrote_ends_no_process(how: str) -> None:
    """fastavro reads the first one until the stack ends, and the process with it."""
    schema: Any = HARMFUL[how]
    try:
        mark = codec.fingerprint(schema).hex()
    except Exception:
        mark = "00" * 8
    with pytest.raises((ValueError, SchemaParseException, LookupError, TypeError)):
        codec.demand_harmless(schema, mark)


def test_our_own_schemas_are_harmless_under_their_own_fingerprints_alone() -> None:
    for mark, schema in codec.all_schemas():
        codec.demand_harmless(schema, mark)
        with pytest.raises(ValueError, match="its fingerprint is"):
            codec.demand_harmless(schema, "0" * 16)
