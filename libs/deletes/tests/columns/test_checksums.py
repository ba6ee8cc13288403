"""The checksum is of the values and of nothing else, and a rewrite that errs does not balance."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from firnline_deletes import apply
from firnline_deletes.apply import write_live_rows
from firnline_deletes.columns.checksums import SUMS, Leaves, checksum, key_sums
from firnline_deletes.columns.fields import with_id
from firnline_deletes.columns.hashing import BLOCK_ROWS, index_values
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import build as building
from firnline_deletes.deletes import positions
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.files import pending_batch
from firnline_deletes.files.projection import Projection
from firnline_deletes.files.writer import RollingWriter
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = st.none() | st.text(max_size=30) | st.sampled_from(["", "a" * 600, "b" * 8, "c" * 16])
ROWS = st.lists(st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), TEXTS), max_size=30)


def columns(rows: list[tuple[Any, ...]], *kinds: pa.DataType) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_form_order_and_neighbours_do_not_count(
    rows: list[tuple[Any, ...]], shuffle: random.Random, before: int
) -> None:
    one = checksum(columns(rows, pa.int64(), pa.string()))
    alone = [checksum(columns([row], pa.int64(), pa.string())) for row in rows]
    assert one == sum(alone) % SUMS
    mixed = shuffle.sample(rows, len(rows))
    number, text = columns(mixed, pa.int32(), pa.large_string())
    assert checksum([number, text]) == one
    assert checksum([number, text.dictionary_encode()]) == one
    filled = columns([(1, "x" * n) for n in range(before)] + mixed, pa.int64(), pa.string())
    assert checksum([column.slice(before) for column in filled]) == one


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False, None]),
        (pa.date32(), [0, 1, -1]),
        (pa.timestamp("us", "UTC"), [0, 1, None]),
        (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")]),
        (pa.binary(16), [bytes(16), b"\1" + bytes(15), bytes(15) + b"\1"]),
        (pa.binary(3), [b"abc", b"abd", None]),
        (pa.binary(), [b"", b"\0", b"\0\0", bytes(8), bytes(9), bytes(16), None]),
        (pa.string(), ["a" * n for n in range(40)]),
        (pa.string(), ["a" * 520 + "b" + "a" * n for n in (0, 1, 8, 9000)]),
    ],
)
def test_every_value_has_a_hash_of_its_own(kind: pa.DataType, values: list[Any]) -> None:
    found = [checksum([pa.array([value], kind)]) for value in values]
    assert len(set(found)) == len(values)
    assert checksum([pa.array(values, kind)]) == sum(found) % SUMS


def test_more_rows_than_a_block_and_a_mask_across_blocks() -> None:
    rows = 2 * BLOCK_ROWS + 5
    whole = pa.array(range(rows), pa.int64())
    dead = [0, BLOCK_ROWS - 1, BLOCK_ROWS, rows - 1]
    keep = pa.array([n not in dead for n in range(rows)]).to_numpy(zero_copy_only=False)
    sums = key_sums(index_values([whole]), keep)
    assert sums.masked == checksum([pa.array(dead, pa.int64())])
    assert sums.read == checksum([whole])
    assert (sums.read - sums.masked) % SUMS == checksum([whole.filter(pa.array(keep))])


def test_what_a_number_of_rows_does_not_tell() -> None:
    """Also that two rows have exchanged one of their two columns."""
    pairs = [(1, "a"), (2, "b"), (3, "c")]
    right = checksum(columns(pairs, pa.int64(), pa.string()))
    for wrong in (
        [(1, "a"), (2, "b"), (2, "b")],
        [(1, "b"), (2, "a"), (3, "c")],
        [(1, "a"), (2, "b"), (3, None)],
        [(0, "a"), (2, "b"), (4, "c")],
    ):
        assert checksum(columns(wrong, pa.int64(), pa.string())) != right


def test_columns_inside_structs_and_of_extension_types() -> None:
    inner = with_id(pa.field("k", pa.int64()), 2)
    schema = pa.schema(
        [
            with_id(pa.field("u", pa.uuid()), 3),
            with_id(pa.field("s", pa.struct([inner])), 1),
        ]
    )
    structs = pa.array([{"k": 1}, None, {"k": None}], schema.field("s").type)
    names = pa.array([bytes([n] * 16) for n in range(3)], pa.binary(16))
    table = pa.Table.from_arrays([names.cast(pa.uuid()), structs], schema=schema)
    keys = pa.array([1, None, None], pa.int64())
    assert Leaves.from_ids(schema, (2, 3)).checksum(table) == checksum([keys, names])
    assert Leaves.from_ids(schema, ()).checksum(table) == 0
    with pytest.raises(ValueError, match="4"):
        Leaves.from_ids(schema, (4,))


# ---- a rewrite of two files, by equality deletes and by positions, that errs


def table(folder: Any) -> pa.Schema:
    return pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string())])


def balance(folder: Any, threads: int = 1) -> int:
    """read - masked - written; 0 = it adds up."""
    keys = pa.schema([folder.column("k", 1, pa.int64())])
    dead = building.build_delete_set(
        [folder.file(2, keys, [(3,), (6,)])], [KeyField(1, pa.int64())], folder.open
    )
    old = folder.file(1, table(folder), [(n, f"a{n}") for n in range(9)])
    new = folder.file(3, table(folder), [(n, f"b{n}") for n in range(6)])
    marks = [folder.position_deletes(4, [(old.path, 1), (new.path, 2)])]
    where = positions.build_position_set(marks, [old, new], folder.open, str)
    target = TargetSchema(table(folder), proved=(1,))
    writer = folder.writer(target.output_schema, proved=target.proved)
    tally = write_live_rows(
        [old, new], Deletes([dead], where), target, folder.open, writer, threads
    )
    out = sum(file.keys for file in writer.close())
    assert tally.keys.masked == checksum([pa.array([1, 3, 6, 2], pa.int64())])
    return (tally.keys.read - tally.keys.masked - out) % SUMS


@pytest.mark.parametrize("threads", [1, 2])
def test_it_adds_up(folder: Any, threads: int) -> None:
    assert balance(folder, threads) == 0


def test_a_swapped_key_is_seen(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Projection.apply

    def other(self: Projection, batch: pa.RecordBatch, where: Any) -> pa.RecordBatch:
        made = apply(self, batch, where)
        wrong = pa.array([7, *made.column(0).to_pylist()[1:]], pa.int64())
        return pa.RecordBatch.from_arrays([wrong, made.column(1)], schema=made.schema)

    monkeypatch.setattr(Projection, "apply", other)
    assert balance(folder) != 0


def test_a_row_in_place_of_another_is_seen(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows is right: one is there twice and one is not."""
    write = RollingWriter.write_batch

    def twice(self: RollingWriter, batch: pa.RecordBatch) -> None:
        first = batch.slice(0, 1)
        write(self, pa.concat_batches([first, batch.slice(0, batch.num_rows - 1)]))

    monkeypatch.setattr(RollingWriter, "write_batch", twice)
    assert balance(folder) != 0


def test_a_row_lost_in_the_cut_is_seen(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    take = pending_batch.PendingBatches.take_rows
    monkeypatch.setattr(
        pending_batch.PendingBatches,
        "take_rows",
        lambda self, rows: [b.slice(1) for b in take(self, rows)],
    )
    assert balance(folder) != 0


def test_a_mask_in_the_wrong_place_is_seen(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes out as many rows as it should."""

    def shifted(mask: Any) -> pa.Array:
        return pa.array([*mask[1:], mask[0]])

    class Fake:
        def __getattr__(self, name: str) -> Any:
            return shifted if name == "array" else getattr(pa, name)

    monkeypatch.setattr(apply, "pa", Fake())
    assert balance(folder) != 0
