"""How long writers of other branches are waited for, by a table's own property."""

from __future__ import annotations

import pytest
from firnline_worker.writers_first import HOLD_OFF_MS, _hold_off_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), (" 2000 ", 2_000), ("", HOLD_OFF_MS), ("²", HOLD_OFF_MS), ("-1", HOLD_OFF_MS)],
)
def test_what_cannot_be_read_counts_as_unset(text: str, expected: int) -> None:
    assert _hold_off_ms(text) == expected
