from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from firnline_domain.errors import TaskRefused
from firnline_worker.rewrite.preconditions import HOLD_OFF, HOLD_OFF_MS, yield_to_writers
from pyiceberg.table.refs import SnapshotRefType

NOW = 1_800_000_000_000


def held_by(at_ms: int, staged: bool, **properties: str) -> str:
    """The reason for which a table waits whose branch, or staged snapshot, is of that time."""
    head = SimpleNamespace(snapshot_id=1, timestamp_ms=NOW - 10 * HOLD_OFF_MS, summary=None)
    ahead = SimpleNamespace(
        snapshot_id=2, timestamp_ms=at_ms, summary={"wap.id": "w"} if staged else None
    )
    main = SimpleNamespace(snapshot_id=1, snapshot_ref_type=SnapshotRefType.BRANCH)
    audit = SimpleNamespace(snapshot_id=2, snapshot_ref_type=SnapshotRefType.BRANCH)
    refs = {"main": main} if staged else {"main": main, "audit": audit}
    table: Any = SimpleNamespace(
        head_id=lambda _: 1,
        metadata=SimpleNamespace(refs=refs),
        ancestors=lambda at: [head] if at == 1 else [ahead, head],
        snapshots=[head, ahead],
        properties=properties,
    )
    try:
        yield_to_writers(table, "main", NOW)
    except TaskRefused as refused:
        return refused.reason
    return ""


@pytest.mark.parametrize(("staged", "reason"), [(True, "unpublished_wap"), (False, "open_branch")])
def test_a_hold_ends_whatever_a_writers_clock_says(staged: bool, reason: str) -> None:
    for at_ms in (NOW, NOW - HOLD_OFF_MS + 1, NOW + HOLD_OFF_MS):
        assert held_by(at_ms, staged) == reason
    for at_ms in (NOW - HOLD_OFF_MS, NOW + HOLD_OFF_MS + 1, 1_000 * NOW):  # in microseconds
        assert held_by(at_ms, staged) == ""
    assert held_by(NOW + 300_001, staged, **{HOLD_OFF: "1000"}) == ""
