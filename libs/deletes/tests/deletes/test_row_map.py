"""A row map says where each row went: checked against rows that carry their own names."""

from __future__ import annotations

import io

import numpy as np
import pytest
from firnline_deletes.deletes import row_map, vectors
from firnline_deletes.deletes.row_map import MaskedRows, Moves
from firnline_deletes.files import puffin
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile

masks = st.lists(st.lists(st.booleans(), min_size=1, max_size=30), min_size=1, max_size=4)


def array(*positions: int) -> row_map.Positions:
    return np.array(positions, dtype=np.int64)


def written(masked: dict[str, bytes], marked: dict[str, row_map.Positions]) -> bytes:
    sink = io.BytesIO()
    assert row_map.write_map(sink, masked, marked) == len(sink.getvalue())
    return sink.getvalue()


@given(masks, st.data())
def test_every_living_row_is_found_where_it_went(
    keeps: list[list[bool]], data: st.DataObject
) -> None:
    living = [(n, at) for n, keep in enumerate(keeps) for at, kept in enumerate(keep) if kept]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(living)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(living)], strict=True))
    outputs = [living[a:b] for a, b in bounds if b > a]
    masked = MaskedRows()
    for number, keep in enumerate(keeps):
        middle = len(keep) // 2  # two row groups
        masked.add_group(f"f{number}", 0, np.array(keep[:middle], dtype=np.bool_))
        masked.add_group(f"f{number}", middle, np.array(keep[middle:], dtype=np.bool_))
    found = row_map.read_map(written(masked.to_blobs(), {}), "map")
    inputs = [(f"f{number}", len(keep)) for number, keep in enumerate(keeps)]
    moves = Moves.from_map(found, inputs, [len(rows) for rows in outputs])
    for number, keep in enumerate(keeps):
        path, every = f"f{number}", np.arange(len(keep))
        asked = moves.living_positions(path, every)
        assert asked.tolist() == [at for at, kept in enumerate(keep) if kept]
        went = [
            outputs[owner][place]
            for owner, places in moves.move_positions(path, asked)
            for place in places.tolist()
        ]
        assert went == [(number, at) for at in asked.tolist()]


def test_rows_that_were_marked_when_planned_are_told_apart() -> None:
    masked = MaskedRows()
    masked.add_group("a", 100, np.array([True, False, False]))
    found = row_map.read_map(written(masked.to_blobs(), {"a": array(102), "b": array()}), "map")
    assert found["a"].masked.tolist() == [101, 102]
    assert found["a"].marked.tolist() == [102]
    assert "b" not in found


def test_a_row_group_without_deletes_adds_nothing() -> None:
    masked = MaskedRows()
    masked.add_group("a", 0, None)
    masked.add_group("a", 7, np.array([True]))
    assert masked.to_blobs() == {}


def test_a_wholly_dead_row_group_is_a_run() -> None:
    masked = MaskedRows()
    masked.add_group("a", 10, np.zeros(1_000_000, dtype=np.bool_))
    (blob,) = masked.to_blobs().values()
    assert len(blob) < 1_000  # 16 runs, not a bit per row
    assert len(vectors.decode_positions(blob, "a")) == 1_000_000


def test_numbers_that_do_not_add_up_are_no_map() -> None:
    with pytest.raises(ValueError, match="10 living rows"):
        Moves.from_map({}, [("a", 10)], [9])


@pytest.mark.parametrize("cut", [0, 3, 20, -1])
def test_a_damaged_map_is_refused(cut: int) -> None:
    masked = MaskedRows()
    masked.add_group("a", 0, np.array([False, True]))
    with pytest.raises(ValueError, match="the place"):
        row_map.read_map(written(masked.to_blobs(), {})[:cut], "the place")


def test_pyiceberg_reads_our_puffin() -> None:
    blob = puffin.Blob(
        vectors.BLOB_KIND,
        vectors.encode_positions(vectors.to_bitmap(array(5, 3))),
        (1,),
        {"a": "b"},
    )
    sink = io.BytesIO()
    made = puffin.write_puffin(sink, [blob, blob], "test")
    read = PuffinFile(sink.getvalue())
    assert [(one.offset, one.length) for one in read.footer.blobs] == list(made.places)
    assert read.get_blob_payload(read.footer.blobs[1]) == blob.payload
    assert list(puffin.read_blobs(sink.getvalue(), "x")) == [blob, blob]
    assert vectors.decode_positions(blob.payload, "x").tolist() == [3, 5]
