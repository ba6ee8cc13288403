"""Rows come out in order, each once, however many runs were on disk, and in bounded pieces."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from firnline_deletes.files import sorting
from firnline_deletes.files.sorting import SortingWriter, SortKey

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = ["", "a", "ä", "z" * 40, "\U0001f3d4", "\uffff", None]


def value(kind: str, chance: random.Random) -> object:
    if chance.random() < 0.1:
        return None
    number = chance.randrange(50)
    values = {
        "number": number - 25,
        "text": chance.choice(TEXTS),
        "amount": Decimal(number - 20) / 4,
        "at": EPOCH + timedelta(hours=number),
    }
    return values[kind]


KINDS = {
    "number": pa.int64(),
    "text": pa.string(),
    "amount": pa.decimal128(9, 2),
    "at": pa.timestamp("us", tz="UTC"),
}


def _number(row: dict[str, object]) -> object:
    return row["row"]


def ranked(row: dict[str, object], key: SortKey) -> tuple[int, object]:
    """As Iceberg orders: text by code points, which are UTF-8's bytes."""
    found = row[key.column]
    if found is None:
        return (-1 if key.nulls_first else 1), 0
    if isinstance(found, str):
        found = int.from_bytes(found.encode("utf-8").ljust(80, b"\0"))
    elif isinstance(found, datetime):
        found = found.timestamp()
    return 0, (-found if key.descending else found)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_goes_out_in_order_and_nothing_is_lost(folder, tmp_path, seed):
    chance = random.Random(seed)
    names = chance.sample(sorted(KINDS), chance.randint(1, 3))
    keys = [SortKey(one, chance.random() < 0.5, chance.random() < 0.5) for one in names]
    fields = [
        folder.column(name, number, kind) for number, (name, kind) in enumerate(KINDS.items())
    ]
    schema = pa.schema([*fields, folder.column("row", 9, pa.int64())])
    writer = folder.writer(schema, target_bytes=3_000)
    sorter = SortingWriter(writer, keys, tmp_path, run_bytes=chance.choice([400, 3_000, 10**9]))
    rows, total = list[dict[str, object]](), chance.choice([0, 1, 300, 2_000])
    while len(rows) < total:
        some = [
            {**{kind: value(kind, chance) for kind in KINDS}, "row": len(rows) + number}
            for number in range(chance.randint(1, 90))
        ]
        sorter.expect_rows(total)
        batch = pa.RecordBatch.from_pylist(some, schema=schema)
        if chance.random() < 0.5:  # text may be a dictionary
            encoded = batch.column(1).dictionary_encode()
            columns = [*batch.columns[:1], encoded, *batch.columns[2:]]
            batch = pa.RecordBatch.from_arrays(columns, names=schema.names)
        sorter.write_batch(batch)
        rows += some
    sorter.finish()
    out = [dict(zip(schema.names, row, strict=True)) for row in folder.rows_of(writer)]
    assert sorted(row["row"] for row in out) == list(range(len(rows)))
    assert sorted(out, key=_number) == rows
    order = [tuple(ranked(row, key) for key in keys) for row in out]
    assert order == sorted(order)


def test_one_key_of_which_there_is_more_than_memory_is_never_sorted_at_once(
    folder, tmp_path, monkeypatch
):
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    writer = folder.writer(schema, target_bytes=10**6)
    seen = list[int]()
    real = sorting._sort_table

    def counted(table: pa.Table, keys: object) -> pa.Table:
        seen.append(table.num_rows)
        return real(table, keys)

    monkeypatch.setattr(sorting, "_sort_table", counted)
    sorter = SortingWriter(writer, [SortKey("k")], tmp_path, run_bytes=8_000)
    for number in range(40):
        keys = [7] * 950 + [number - 20] * 50
        sorter.write_batch(pa.RecordBatch.from_pylist([{"k": key} for key in keys], schema=schema))
    sorter.finish()
    out = [key for (key,) in folder.rows_of(writer)]
    assert out == sorted(out)
    assert (len(out), out.count(7)) == (40_000, 38_050)
    assert max(seen) <= 2_000  # of 40,000
    assert sorter.runs.spilled_bytes == 40_000 * 8
