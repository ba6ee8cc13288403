"""What workers read of a table's own properties."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from firnline_worker.plan.planning import MAX_SPAN, property_ms
from firnline_worker.rewrite.preconditions import HOLD_OFF


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), (" 2000 ", 2_000), ("", 60), ("²", 60), ("-1", 60)]
)
def test_what_cannot_be_read_counts_as_unset(text: str, expected: int) -> None:
    table: Any = SimpleNamespace(properties={HOLD_OFF: text})
    assert property_ms(table, HOLD_OFF, 60) == expected
    assert property_ms(table, MAX_SPAN, 7) == 7
