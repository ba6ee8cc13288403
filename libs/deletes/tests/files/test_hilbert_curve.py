"""Rows along a curve: each comes out once, and neighbours on it are neighbours in every column."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from firnline_deletes.files import hilbert_curve
from firnline_deletes.files.hilbert_curve import (
    CurveWriter,
    cuts_of,
    hilbert_positions,
    rank_values,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: (n - 500) * 10**15),
    "int": (pa.int32(), lambda n: n - 500),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n - 500) / 4),
    "date": (pa.date32(), lambda n: date(1960, 1, 1) + timedelta(days=40 * n)),
    "time": (pa.time64("us"), lambda n: time(n // 60, n % 60)),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: EPOCH + timedelta(hours=n - 500)),
    "nanoseconds": (pa.timestamp("ns"), lambda n: n * 10**9 - 10**12),
    "text": (pa.string(), lambda n: f"customer-{n:06}-ü"),
    "large_text": (pa.large_string(), lambda n: f"{n:06}"),
    "boolean": (pa.bool_(), lambda n: n >= 500),
}


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_each_cell_is_one_step_from_the_next(columns: int, monkeypatch: Any) -> None:
    bits = {2: 4, 3: 3, 4: 2}[columns]
    monkeypatch.setattr(hilbert_curve, "BITS", bits)
    cells = list(product(range(1 << bits), repeat=columns))
    keys = hilbert_positions([np.array(axis, dtype=np.uint64) for axis in zip(*cells, strict=True)])
    in_turn = [cell for _, cell in sorted(zip(keys.tolist(), cells, strict=True))]
    assert sorted(keys.tolist()) == list(range(len(cells)))
    assert all(sum(abs(a - b) for a, b in zip(*two, strict=True)) == 1 for two in pairwise(in_turn))


@pytest.mark.parametrize("kind", VALUES)
def test_ranks_rise_with_values_and_no_value_is_the_least(kind: str) -> None:
    kind_of, value = VALUES[kind]
    rows = [None, *(value(number) for number in range(1_000)), None]
    column = pa.array(rows, kind_of)
    shuffled = column.take(pa.array(random.Random(1).sample(range(len(rows)), len(rows))))
    ranks = rank_values(column, cuts_of(pa.chunked_array([shuffled])))
    assert ranks[0] == ranks[-1] == 0
    assert (np.diff(ranks[:-1].astype(np.int64)) >= 0).all()
    assert len(set(ranks.tolist())) == (3 if kind == "boolean" else 1_001)
    assert ranks.max() < 1 << hilbert_curve.BITS


def test_skew_and_few_values_take_as_many_ranks_as_all_others() -> None:
    chance = np.random.default_rng(1)
    skewed = pa.array((chance.random(50_000) ** 8 * 10**12).astype(np.int64))
    ranks = rank_values(skewed, cuts_of(pa.chunked_array([skewed])))
    assert np.bincount(ranks.astype(np.int64) // 256).min() > 10_000  # of 50,000 in four parts
    few = pa.array(chance.integers(0, 3, 1_000))
    assert set(rank_values(few, cuts_of(pa.chunked_array([few]))).tolist()) == {511, 767, 1023}


def test_columns_without_a_value_are_ranked() -> None:
    none = pa.array([None, None], pa.string())
    assert rank_values(none, cuts_of(pa.chunked_array([none]))).tolist() == [0, 0]
    assert rank_values(pa.array(["a"]), cuts_of(pa.chunked_array([none]))).tolist() == [1023]


@pytest.mark.parametrize("run_bytes", [2_000, 60_000, 10**9])
def test_rows_come_out_once_and_files_are_narrow_in_each_column(
    folder: Any, tmp_path: Any, run_bytes: int
) -> None:
    chance = random.Random(7)
    schema = pa.schema(
        [folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string()),
         folder.column("row", 3, pa.int64())]
    )  # fmt: skip
    rows = [
        {"k": chance.randrange(10**9) if chance.random() < 0.9 else None,
         "v": f"customer-{chance.randrange(10**6):07}", "row": number}
        for number in range(4_000)
    ]  # fmt: skip
    writer = folder.writer(schema, target_bytes=10**9)
    sorter = CurveWriter(writer, ["k", "v"], tmp_path, run_bytes)
    for at in range(0, len(rows), 100):
        batch = pa.RecordBatch.from_pylist(rows[at : at + 100], schema=schema)
        if at % 200:  # text may be a dictionary
            columns = [batch.column(0), batch.column(1).dictionary_encode(), batch.column(2)]
            batch = pa.RecordBatch.from_arrays(columns, names=schema.names)
        sorter.write_batch(batch)
    sorter.finish()
    found = [dict(zip(schema.names, row, strict=True)) for row in folder.rows_of(writer)]
    assert sorted(one["row"] for one in found) == list(range(4_000))
    assert all(one == rows[one["row"]] for one in found)
    parts = [found[at : at + 250] for at in range(0, 4_000, 250)]
    for name in ("k", "v"):
        known = sorted({one[name] for one in rows if one[name] is not None})
        place = {value: number / len(known) for number, value in enumerate(known)} | {None: 0.0}
        widths = [
            max(place[one[name]] for one in part) - min(place[one[name]] for one in part)
            for part in parts
        ]
        assert sum(widths) / len(widths) < 0.45  # a quarter, where cells are squares
    assert not list(tmp_path.glob("unsorted-*"))


def test_no_rows_are_no_error(folder: Any, tmp_path: Any) -> None:
    schema = pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.int64())])
    CurveWriter(folder.writer(schema, target_bytes=10**9), ["k", "v"], tmp_path).finish()
