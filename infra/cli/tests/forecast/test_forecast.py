"""The policy on counters of one moment."""

from __future__ import annotations

from typing import Any

from firnline_cli.forecast.forecast import Forecast, SeenTable, forecast
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

NOW_MS = 1_795_000_000_000
A, B = Scope(0, '["a"]'), Scope(0, '["b"]')


def part(scope: Scope, **files: int) -> PartitionChange:
    tallies = {kind: Tally(count, count, count) for kind, count in files.items()}
    return PartitionChange(scope, FileTally(**tallies), FileTally())


def made(
    *partitions: PartitionChange,
    settings: dict[str, str] | None = None,
    fleet: Thresholds | None = None,
    age_ms: int = 60_000,
    **more: Any,
) -> Forecast:
    values: dict[str, Any] = {
        "table": TableName("u", ("db",), "t"),
        "settings": settings or {},
        "format_version": 2,
        "snapshot_id": 1,
        "snapshot_ms": NOW_MS - age_ms,
        "snapshot_count": 1,
        "oldest_snapshot_ms": NOW_MS - age_ms,
        "partitions": partitions,
    }
    return forecast(SeenTable(**values | more), fleet or Thresholds(), NOW_MS)


def reasons(found: Forecast) -> dict[str, str]:
    return {one.counters.scope.partition: decision.reason for one, decision in found.decisions}


def test_what_passes_a_threshold_is_ordered_the_deepest_in_debt_first() -> None:
    found = made(part(A, fragments=7), part(B, fragments=20))
    assert list(reasons(found).items()) == [('["b"]', "fragments"), ('["a"]', "accumulating")]
    assert [one.counters.scope for one, _ in found.orders] == [B]


def test_a_partition_is_closed_by_its_own_last_change() -> None:
    parts = (part(A, fragments=3), part(B, fragments=3))
    frozen = {"firnline.freeze.after-hours": "48"}
    times = {A: NOW_MS - 3 * DAY_MS, B: NOW_MS - DAY_MS}
    found = made(*parts, settings=frozen, changed_ms=times)
    assert reasons(found) == {'["a"]': "closed", '["b"]': "accumulating"}


def test_the_tables_settings_and_the_fleets_defaults_hold() -> None:
    parts = (part(A, fragments=7),)
    assert reasons(made(*parts, fleet=Thresholds(min_fragments=7))) == {'["a"]': "fragments"}
    own = {"firnline.rewrite.min-fragments": "8"}
    assert reasons(made(*parts, settings=own, fleet=Thresholds(min_fragments=7))) == {
        '["a"]': "accumulating"
    }
    assert reasons(made(*parts, settings={"firnline.enabled": "false"})) == {'["a"]': "disabled"}


def test_debt_is_as_old_as_the_snapshot() -> None:
    assert reasons(made(part(A, fragments=2), age_ms=HOUR_MS)) == {'["a"]': "old_debt"}
    assert reasons(made(part(A, fragments=2), age_ms=HOUR_MS - 1)) == {'["a"]': "accumulating"}


def test_a_partition_of_a_snapshot_of_this_moment_is_quiet() -> None:
    assert reasons(made(part(A, fragments=8), age_ms=10)) == {'["a"]': "quiet_period"}


def test_old_snapshots_would_be_expired() -> None:
    agreed = {"firnline.expire.enabled": "true"}
    old = {
        "snapshot_count": 2,
        "oldest_snapshot_ms": NOW_MS - 6 * DAY_MS,
        "settings": agreed,
    }
    assert made(**old).expiry.reason == "old_snapshots"
    assert made().expiry.reason == "too_few_snapshots"


def test_a_table_without_a_snapshot_has_nothing_to_do() -> None:
    none = {"snapshot_id": None, "snapshot_ms": 0, "oldest_snapshot_ms": None, "snapshot_count": 0}
    found = made(**none)
    assert (found.decisions, found.orders, found.expiry.reason) == ((), (), "snapshots_unknown")


def test_advice_comes_along() -> None:
    found = made(settings={"firnline.rewrite.min-fragment": "3"})
    assert [one.rule for one in found.advice] == ["unknown_settings"]
    assert [one.rule for one in made(manifests=500).advice] == ["many_manifests"]


def test_a_shadow_holds_nothing_back() -> None:
    found = made(part(A, fragments=8), settings={"firnline.shadow": "true"})
    assert len(found.orders) == 1
