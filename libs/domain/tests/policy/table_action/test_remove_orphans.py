"""When a table's location is looked through."""

from __future__ import annotations

from firnline_domain.base.times import DAY_MS
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.settings.thresholds import resolve_thresholds

from tests.kit.names import TABLE
from tests.kit.partitions import table_input

HELD = Table(TableCounters(TABLE, MAIN, known=True, head_snapshot_id=7))


def asked(**properties: str) -> dict[str, float] | None:
    limits = resolve_thresholds({name.replace("_", "."): text for name, text in properties.items()})
    _, order = OrphanRemoval().plan_order(table_input(HELD, limits, DAY_MS))
    return None if order is None else order.numbers


def test_only_where_the_owner_has_agreed() -> None:
    assert asked() is None
    known = asked(firnline_orphans_enabled="true") or {}
    assert {"min_age_h": 72.0, "quarantine_h": 168.0}.items() <= known.items()
    assert asked(firnline_orphans_enabled="true", gc_enabled="false") is None


def test_nothing_is_looked_for_that_is_younger_than_a_day() -> None:
    limits = resolve_thresholds(
        {"firnline.orphans.enabled": "true", "firnline.orphans.min-age-ms": "1000"}
    )
    _, order = OrphanRemoval().plan_order(table_input(HELD, limits, DAY_MS))
    assert order is not None
    assert order.numbers["min_age_h"] == 24.0
