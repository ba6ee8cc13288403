from __future__ import annotations

import pytest
from firnline_domain.commits.schemas import Fields, first_unreadable
from firnline_domain.records.results import TableForm

THEN = {1: "int", 2: "decimal(9, 2)", 4: "struct", 5: "string"}


def verdict(now: Fields, last: int = 5) -> str | None:
    return first_unreadable(TableForm(2, 0, last), {0: THEN, 7: now}, 7)


@pytest.mark.parametrize(
    "now",
    [
        THEN,
        {**THEN, 6: "long"},  # added since: its default, or NULL, was always its value there
        {number: kind for number, kind in THEN.items() if number != 2},  # dropped
        {**THEN, 1: "long"},
        {**THEN, 2: "decimal(18, 2)"},
    ],
)
def test_what_a_writer_may_change_while_rows_are_copied(now: Fields) -> None:
    assert verdict(now) is None


@pytest.mark.parametrize(
    "now",
    [
        {**THEN, 3: "long"},  # dropped when the rows were copied, and read again
        {**THEN, 1: "string"},
        {**THEN, 2: "decimal(9, 3)"},
        {**THEN, 2: "decimal(8, 2)"},
        {**THEN, 5: "long"},
    ],
)
def test_what_would_be_read_wrong(now: Fields) -> None:
    assert verdict(now) is not None


def test_an_older_schema_with_narrower_types_is_no_way_back() -> None:
    schemas = {0: {1: "int"}, 1: {1: "long"}}
    assert first_unreadable(TableForm(2, 1, 1), schemas, 0) is not None
    assert first_unreadable(TableForm(2, 0, 1), schemas, 1) is None


def test_a_schema_that_nobody_knows_any_more() -> None:
    assert first_unreadable(TableForm(2, 9, 5), {0: THEN}, 0) is not None
