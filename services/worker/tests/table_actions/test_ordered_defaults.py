"""A fleet's default is in no property of a table: a worker checks what its order carries."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import ActionWork, Table, TableWork
from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.base import TableAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.records.orders import TableOrder
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_worker.table_actions import archive_partitions, expire_partitions, upgrade_format

from tests.kit.partitions import table_input

NAME = TableName("u", ("db",), "t", "lake")
NOW_MS = 1_800_000_000_000
FLEET = Thresholds(
    partition_ttl_h=240.0, partition_grace_ms=3_000, format_version=3, upgrade_grace_ms=3_000,
    writer_hours=1.5,
)  # fmt: skip
ARCHIVING = replace(FLEET, archive_after_h=240.0)


def order_of(action: TableAction, fleet: Thresholds, announced_ms: int) -> TableOrder:
    """The one that follows an announcement, by a planner with these defaults."""
    counters = TableCounters(NAME, "main", head_snapshot_id=1, known=True, format_version=2)
    work = ActionWork(announced_ms=announced_ms)
    table = Table(counters, TableWork(actions={action.name: work}))
    _, order = action.plan_order(table_input(table, fleet, NOW_MS))
    assert order is not None
    return order


@pytest.mark.parametrize("settings", [{}, {"firnline.partitions.grace-ms": str(DAY_MS)}])
def test_a_fleets_grace_period_is_the_workers(settings: dict[str, str]) -> None:
    """Without it a worker would refuse each order for a day, and with a shorter interval for ever.
    What the owner says goes before."""
    for name, fleet, module, waits in (
        ("expire_partitions", FLEET, expire_partitions, "partitions_grace_period"),
        ("archive_partitions", ARCHIVING, archive_partitions, "archive_grace_period"),
    ):
        order = order_of(TABLE_ACTIONS[name], fleet, NOW_MS - 4_000)
        limits = resolve_thresholds(settings, module.ordered_defaults(order))
        refused = module.refusal(order, limits, NOW_MS)
        assert (refused or ("",))[0] == (waits if settings else "")


def test_a_fleets_format_version_is_the_workers() -> None:
    order = order_of(TABLE_ACTIONS["upgrade_format"], FLEET, NOW_MS - 4_000)
    limits = resolve_thresholds({}, upgrade_format.ordered_defaults(order))
    assert upgrade_format.refusal(order, limits, NOW_MS) is None
    assert limits.writer_hours == 1.5
    owner = resolve_thresholds(
        {"firnline.format-version": "2"}, upgrade_format.ordered_defaults(order)
    )
    refused = upgrade_format.refusal(order, owner, NOW_MS)
    assert refused is not None
    assert refused[0] == "not_wanted"
