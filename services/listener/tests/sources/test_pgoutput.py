"""Messages of `pgoutput`: rows by name, values that were not sent, and what is cut or made up."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from firnline_listener.port import Doorbell
from firnline_listener.sources.pgoutput import Change, Decoder, NotDecoded, TransactionEnd
from firnline_listener.sources.pointers import POINTERS
from hypothesis import given
from hypothesis import strategies as st

UNSENT = object()
COLUMNS = ("catalog_name", "table_namespace", "table_name", "metadata_location")


def describe(number: int, name: str, columns: Sequence[str]) -> bytes:
    fields = b"".join(b"\0" + one.encode() + b"\0" + struct.pack("!Ii", 25, -1) for one in columns)
    head = b"R" + struct.pack("!I", number) + b"public\0" + name.encode() + b"\0"
    return head + struct.pack("!BH", ord("d"), len(columns)) + fields


def write_row(values: Sequence[object]) -> bytes:
    texts = [one.encode() if isinstance(one, str) else b"" for one in values]
    fields = [
        b"n"
        if one is None
        else b"u"
        if one is UNSENT
        else b"t" + struct.pack("!I", len(text)) + text
        for one, text in zip(values, texts, strict=True)
    ]
    return struct.pack("!H", len(values)) + b"".join(fields)


def change(kind: bytes, *rows: tuple[bytes, Sequence[object]]) -> bytes:
    return kind + struct.pack("!I", 7) + b"".join(mark + write_row(row) for mark, row in rows)


RELATION = describe(7, "iceberg_tables", COLUMNS)
UPDATE = change(b"U", (b"N", ("c", "db", "t", "s3://b/é.json")))
COMMIT = b"C" + struct.pack("!Bqqq", 0, 100, 148, 5)


def test_a_row_has_the_names_of_its_relation() -> None:
    decoder = Decoder()
    assert decoder.decode(RELATION) is None
    row = dict(zip(COLUMNS, ("c", "db", "t", "s3://b/é.json"), strict=True))
    assert decoder.decode(UPDATE) == Change("iceberg_tables", (row,))
    assert decoder.decode(COMMIT) == TransactionEnd(148)


def test_a_changed_key_comes_before_the_row() -> None:
    decoder = Decoder()
    decoder.decode(RELATION)
    both = (b"K", ("c", "db", "old", None)), (b"N", ("c", "db", "new", UNSENT))
    found = decoder.decode(change(b"U", *both))
    assert isinstance(found, Change)
    assert [row["table_name"] for row in found.rows] == ["old", "new"]
    assert "metadata_location" not in found.rows[1]


def test_a_value_that_was_not_sent_is_no_reason_to_miss_a_table() -> None:
    row = {"catalog_name": "c", "table_namespace": "db.sub", "table_name": "t"}
    found = POINTERS[0].find_table(row, "lake", "")
    assert found == Doorbell(catalog="lake", namespace=("db", "sub"), name="t")
    assert POINTERS[0].find_table({"catalog_name": "c"}, "lake", "") is None


@pytest.mark.parametrize("message", [UPDATE, RELATION, COMMIT], ids=["row", "relation", "end"])
@given(cut=st.integers(1, 200), noise=st.binary(max_size=6))
def test_what_is_damaged_is_refused_or_decoded(message: bytes, cut: int, noise: bytes) -> None:
    decoder = Decoder()
    decoder.decode(RELATION)
    try:
        decoder.decode(message[:cut] + noise)
    except NotDecoded:
        return


def test_a_relation_that_was_never_described_is_refused() -> None:
    with pytest.raises(NotDecoded):
        Decoder().decode(UPDATE)
