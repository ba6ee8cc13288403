from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from firnline_domain.settings.thresholds import Thresholds
from firnline_worker.table_actions.create_tags import wanted_tags

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("at_ms", [-(10**18), -62_135_596_800_001, -1, 2**63 - 1])
@pytest.mark.parametrize("logged", [True, False])
def test_no_time_of_a_snapshot_fails_the_tags(at_ms: int, logged: bool) -> None:
    one = SimpleNamespace(snapshot_id=1, timestamp_ms=at_ms)
    metadata = SimpleNamespace(snapshot_log=[one] if logged else [], refs={})
    table: Any = SimpleNamespace(
        metadata=metadata, retains=lambda _: True, head_id=lambda _: 1, snapshot=lambda _: one
    )
    for name in ("hour", "date", "week", "month", "year"):
        [found] = wanted_tags(table, Thresholds(create_tags=f"t-{{{name}}}"), NOW_MS)
        assert found.snapshot_id == (1 if at_ms < NOW_MS else None)
