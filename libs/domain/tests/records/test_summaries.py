"""Counts of a summary, whatever its writer has put there."""

from __future__ import annotations

import pytest
from firnline_domain.records.summaries import number_in


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("-1", 0), ("²", 0), ("1.5", 0)])
def test_what_is_no_number_counts_as_none(text: str, number: int) -> None:
    assert number_in({"added-data-files": text}, "added-data-files") == number
    assert number_in({}, "added-data-files") == 0
