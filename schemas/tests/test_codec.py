"""Single-object encoding, byte by byte."""

from __future__ import annotations

import pytest
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
