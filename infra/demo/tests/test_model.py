"""The model that judges Firnline must itself be right."""

from __future__ import annotations

from collections import Counter

from firnline_demo.model import Row, TableModel, compare_rows


def by_id(row: Row) -> Row:
    return row[:1]


def test_upsert_replaces_and_null_is_a_key() -> None:
    model = TableModel("t", by_id)
    model.upsert([(1, "a"), (None, "b")])
    model.upsert([(None, "c")])
    assert model.all_rows() == Counter([(1, "a"), (None, "c")])


def test_append_keeps_duplicates() -> None:
    model = TableModel("t", by_id)
    model.append([(1, "a"), (1, "a"), (1, "b")])
    assert model.all_rows() == Counter({(1, "a"): 2, (1, "b"): 1})


def test_delete_where() -> None:
    model = TableModel("t", by_id)
    model.append([(1, "a"), (2, "b"), (2, "b")])
    assert model.delete_where(lambda row: row[0] == 2) == 2
    assert model.all_rows() == Counter([(1, "a")])


def test_a_lost_and_a_resurrected_row_are_told_apart() -> None:
    found = compare_rows(Counter([(1,), (2,)]), Counter([(2,), (2,), (3,)]))
    assert (found.lost, found.resurrected, found.is_empty) == (1, 2, False)
    assert "lost (1,)" in found.examples
    assert compare_rows(Counter([(1,)]), Counter([(1,)])).is_empty
