"""Rows of the bench's tables: the same for the same shape, with NULL keys where asked for."""

from __future__ import annotations

from dataclasses import replace

from bench.rewrite.rows import batches
from bench.rewrite.shapes import NULLS, WARM

SHAPE = replace(NULLS, base_rows=2_000, upserts=2_000, commits=2)


def test_the_same_shape_gives_the_same_rows():
    first, again = list(batches(SHAPE, 1)), list(batches(SHAPE, 1))
    assert len(first) == SHAPE.commits + 1
    assert all(a.rows.equals(b.rows) for a, b in zip(first, again, strict=True))
    assert not first[0].rows.equals(next(batches(SHAPE, 0)).rows)


def test_a_commit_deletes_the_keys_that_it_writes():
    for batch in list(batches(WARM, 0))[1:]:
        assert batch.deleted.equals(batch.rows.select(["id"]))


def test_keys_have_nulls_in_one_column_in_the_other_and_in_both():
    deleted = list(batches(SHAPE, 1))[1].deleted.to_pylist()
    found = {(row["tenant"] is None, row["order_id"] is None) for row in deleted}
    assert found == {(False, False), (True, False), (False, True), (True, True)}


def test_other_shapes_have_none():
    assert all(batch.rows["id"].null_count == 0 for batch in batches(WARM, 0))
