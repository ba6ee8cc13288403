"""What is told of a result, whatever it claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from firnline_adapters.records.codec import encode_record
from firnline_committer.commit.events import handed_over_event
from firnline_domain.records.results import RewriteFinished


@pytest.mark.parametrize(
    ("took_ms", "worked_ms"), [(5, 5), (-1, None), (2**63 + 2**31, None), (-(2**63) - 2**31, None)]
)
def test_moments_that_are_no_work_stop_nobody(
    took_ms: int, worked_ms: int | None, result: Callable[..., RewriteFinished]
) -> None:
    told = handed_over_event(result(took_ms=took_ms, committed=8), None, 9)
    assert told.worked_ms == worked_ms
    assert encode_record(told)
