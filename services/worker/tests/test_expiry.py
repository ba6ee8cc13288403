"""How old a snapshot must be, where the clocks of planner and worker do not agree."""

from __future__ import annotations

import pytest
from firnline_domain.commands import ExpireSnapshots
from firnline_domain.identity import TableName
from firnline_worker.expiry import agreed_ms

HOUR = 3_600_000
NOW, AGE = 1_000 * HOUR, 120 * HOUR


@pytest.mark.parametrize(
    ("ahead", "waited", "agreed"),
    [
        (0, 0, NOW - AGE),
        (0, HOUR, NOW - AGE),  # the order lay about: what it says still holds
        (HOUR, 0, NOW - AGE),  # the planner's clock is ahead: ours decides
        (-HOUR, 0, NOW - HOUR - AGE),  # it is behind: less is expired
    ],
)
def test_both_clocks_must_call_a_snapshot_old(ahead: int, waited: int, agreed: int) -> None:
    ordered = NOW + ahead
    order = ExpireSnapshots(
        "t", TableName("u", ("db",), "t"), ordered - AGE, 1, (), "old_snapshots", 1, 1, ordered
    )
    assert agreed_ms(order, NOW + waited) == agreed
