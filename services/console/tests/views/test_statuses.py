"""A table's status in one word and a few: what keeps it as it is, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from firnline_console.views.statuses import status_of
from firnline_domain.base.values import replace
from firnline_domain.records.pauses import TableHold

Make = Callable[..., Any]
NEAR = {"fragments": 7, "new_fragments": 5, "min_fragments": 8, "equality_deletes": 1}
IDLE = {"status": "idle", "task_id": None, "numbers": {}}
ONE = {"statuses": {"idle": 1}, "debt_files": 2}


@pytest.mark.parametrize(
    ("table", "partition", "code", "text"),
    [
        ({"waiting_for_resync": True}, {}, "resync", "waiting for commits"),
        ({"hold": TableHold("unreadable_window")}, {}, "stuck", "unreadable window"),
        ({"hold": TableHold("failing"), "waiting_for_resync": True}, {}, "stuck", "planner error"),
        ({"statuses": {"parked": 2, "in_flight": 1}}, {}, "stuck", "2 suspended, 1 running"),
        ({**ONE, "hold": TableHold("paused")}, {}, "paused", "paused"),
        ({"statuses": {"in_flight": 1}, "hold": TableHold("blackout")}, {}, "working", "1 running"),
        ({**ONE, "hold": TableHold("outside_window")}, IDLE, "held", "outside window"),
        ({"statuses": {"backing_off": 1}}, {}, "failing", "1 backing off"),
        ({"statuses": {"cooling": 3}}, {}, "cooling", "3 cooling"),
        (ONE, {**IDLE, "reason": "disabled"}, "off", "off"),
        (ONE, {**IDLE, "reason": "accumulating", "numbers": NEAR}, "waiting", "waiting, 5 of 8"),
        (ONE, {**IDLE, "reason": "quiet_period", "debt_files": 2}, "waiting",
         "waiting: quiet period"),
        ({**ONE, "debt_files": 0}, {**IDLE, "reason": "accumulating"}, "healthy", "healthy"),
    ],
)  # fmt: skip
def test_a_table_has_one_status(
    make: Make, table: dict[str, Any], partition: dict[str, Any], code: str, text: str
) -> None:
    state = make("table_state/in_flight")
    parts = (replace(state.partitions[0], **partition),)
    found = status_of(replace(state, partitions=parts, **table))
    assert (found.code, found.text) == (code, text)


def test_the_partition_nearest_to_its_threshold_is_told(make: Make) -> None:
    state = make("table_state/in_flight")
    far = {**NEAR, "new_fragments": 1}
    parts = tuple(
        replace(state.partitions[0], **{**IDLE, "reason": "accumulating", "numbers": numbers})
        for numbers in (far, NEAR, far)
    )
    assert status_of(replace(state, partitions=parts, **ONE)).text == "waiting, 5 of 8"
