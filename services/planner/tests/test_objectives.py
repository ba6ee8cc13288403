"""An objective of a table whose readers pay nothing: ordered in time, and counted where missed."""

from __future__ import annotations

import pytest
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner import meters

from tests.kit.planner_world import A, B, PlannerWorld, only

MINUTE_MS = 60_000
GB = 1 << 30
OBJECTIVE = {
    "firnline.objective.oldest-debt-ms": str(10 * MINUTE_MS),
    "firnline.reads-per-hour": "0",
    "firnline.rewrite.max-wait-ms": "999999999999",
}


def world(**settings: str) -> PlannerWorld:
    found = PlannerWorld(now_ms=1_800_000_000_000, limits=Thresholds())
    found.more = {"settings": {**OBJECTIVE, **settings}}
    large = FileTally(on_target=Tally(20, 10**8, 10 * GB))
    found.commit(*(PartitionChange(scope, large, FileTally()) for scope in (A, B)))
    deletes = FileTally(equality_deletes=Tally(1, 1_000, 10_000))
    found.commit(PartitionChange(A, deletes, FileTally()))
    return found


def test_a_rewrite_goes_out_at_four_fifths_of_the_age_that_is_allowed() -> None:
    table = world()
    early = [one for _ in range(7) for one in table.tick(MINUTE_MS)]
    assert not [one for one in early if isinstance(one, RewriteFiles)]
    order = only([*table.tick(MINUTE_MS), *table.tick(1_000)])
    assert (order.reason, order.scope) == ("objective", A)
    assert order.numbers["objective_oldest_debt_s"] == 600


def test_partitions_that_miss_an_objective_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = dict[str, float]()
    monkeypatch.setattr(
        meters.metrics, "gauge", lambda name, value, **_: shown.update({name: value})
    )
    none = {"firnline.objective.oldest-debt-ms": "0"}
    for settings, missed in (({"firnline.shadow": "true"}, 1), (none, 0)):
        table = world(**settings)
        for _ in range(25):  # in shadow nothing is ordered, and the table is looked at now and then
            table.tick(MINUTE_MS)
        deletes = FileTally(equality_deletes=Tally(1, 1_000, 10_000))
        table.commit(PartitionChange(A, deletes, FileTally()))
        table.tick(2_000)
        meters.set_gauges([table.bucket])
        assert shown["partitions_off_objective"] == missed
