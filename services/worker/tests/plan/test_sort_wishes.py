"""Texts of `firnline.sort`, which the table's owner writes: a worker reads them whole."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from firnline_domain.errors import TaskRefused
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.plan.sort_plan import sorting_of
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

NAMES = ("a", "desc", "x y")
SCHEMA = Schema(*(NestedField(n, name, LongType()) for n, name in enumerate(NAMES, 1)))
TABLE = cast("LoadedTable", SimpleNamespace(schema=SCHEMA, metadata=cast("Any", None)))


@pytest.mark.parametrize(
    ("text", "column", "descending"),
    [
        ("a", "a", False),
        ("a   DESC", "a", True),
        ("a asc", "a", False),
        ("desc", "desc", False),
        ("desc desc", "desc", True),
        ("x y", "x y", False),
    ],
)
def test_a_column_and_its_direction_are_read(text: str, column: str, descending: bool) -> None:
    [key] = sorting_of(TABLE, text).keys
    assert (key.column, key.descending) == (column, descending)


@pytest.mark.parametrize("text", ["a" + " " * 1_000_000 + "b", " desc" * 200_000, ",", "a,,a"])
def test_any_text_is_refused_at_once_and_in_few_words(text: str) -> None:
    """The whole worker waits for a regular expression that tries again from each blank."""
    began = time.monotonic()
    with pytest.raises(TaskRefused) as refused:
        sorting_of(TABLE, text)
    assert time.monotonic() - began < 5
    assert refused.value.reason == "unsortable_column"
    assert len(str(refused.value)) < 1_000
