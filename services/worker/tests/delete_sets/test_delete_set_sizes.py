from __future__ import annotations

from types import SimpleNamespace

import pytest
from firnline_worker.delete_sets import build as delete_sets
from pyiceberg.types import LongType, StringType

KINDS = {1: LongType(), 2: StringType()}


@pytest.fixture
def asked(monkeypatch):
    found = []
    monkeypatch.setattr(delete_sets, "find_type", lambda _, n: found.append(n) or KINDS[n])
    return found


def delete(ids, records, size=0):
    return SimpleNamespace(equality_ids=ids, records=records, bytes=size)


def test_types_are_looked_up_once_for_all_files_of_a_set(asked):
    assert delete_sets.set_bytes(None, [delete((1,), 10)] * 3) == 3 * 10 * 30  # 1.5 x (12 + 8)
    assert asked == [1]


def test_texts_count_as_they_are_stored_if_that_is_more(asked):
    assert delete_sets.set_bytes(None, [delete((2,), 10, 10)]) == 10 * 99  # 1.5 x (12 + 54)
    assert delete_sets.set_bytes(None, [delete((2,), 10, 1000)]) == 10 * 168  # 1.5 x (12 + 100)
