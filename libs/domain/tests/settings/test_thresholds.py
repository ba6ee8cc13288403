"""Table properties, then defaults."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.settings.thresholds import PROPERTIES, Thresholds, resolve_thresholds


@pytest.mark.parametrize(
    ("property_name", "text", "field", "value"),
    [
        ("firnline.enabled", "false", "enabled", False),
        ("firnline.enabled", " FALSE", "enabled", False),
        ("firnline.rewrite.min-fragments", "3", "min_fragments", 3),
        ("firnline.rewrite.min-equality-deletes", "2", "min_equality_deletes", 2),
        ("firnline.rewrite.min-position-deletes", "5", "min_position_deletes", 5),
        ("firnline.rewrite.max-age-ms", "9", "max_age_ms", 9),
        ("gc.enabled", "false", "gc_enabled", False),
        ("history.expire.max-snapshot-age-ms", "77", "max_snapshot_age_ms", 77),
        ("history.expire.min-snapshots-to-keep", "12", "min_snapshots", 12),
        ("firnline.retain.hours", "0.5", "retain_hours", 0.5),
        # what cannot be read counts as unset
        ("firnline.enabled", "maybe", "enabled", True),
        ("firnline.rewrite.min-fragments", "many", "min_fragments", 8),
        ("firnline.rewrite.min-fragments", "-1", "min_fragments", 8),
        ("firnline.rewrite.min-fragments", "1.5", "min_fragments", 8),
        ("firnline.retain.hours", "-3", "retain_hours", None),
        ("firnline.retain.hours", "nan", "retain_hours", None),
        ("firnline.rewrite.deadline-ms", "604800000", "deadline_ms", 7 * 86_400_000),
        ("firnline.rewrite.deadline-ms", "604800001", "deadline_ms", 30 * 60_000),
        ("some.other.property", "1", "min_fragments", 8),
    ],
)
def test_a_property(property_name: str, text: str, field: str, value: object) -> None:
    assert getattr(resolve_thresholds({property_name: text}), field) == value


def test_defaults_of_the_fleet_hold_where_the_table_says_nothing() -> None:
    fleet = Thresholds(min_fragments=20, min_equality_deletes=30)
    found = resolve_thresholds({"firnline.rewrite.min-fragments": "5"}, fleet)
    assert (found.min_fragments, found.min_equality_deletes) == (5, 30)


def test_retention_is_in_hours_where_the_table_says_so() -> None:
    age = {"history.expire.max-snapshot-age-ms": "1000"}
    agreed = {**age, "firnline.expire.enabled": "true"}
    assert resolve_thresholds(agreed).retention_ms == 1000
    assert (
        resolve_thresholds(age).retention_ms == 24 * HOUR_MS
    )  # readers of streams go on after a day
    assert resolve_thresholds({**age, "firnline.retain.hours": "2"}).retention_ms == 2 * HOUR_MS
    assert Thresholds().retention_ms == 5 * 24 * HOUR_MS


def test_every_threshold_has_a_property() -> None:
    of_the_fleet = {"groups", "budget"}  # no table sets them
    assert {*(one.field for one in PROPERTIES.values()), *of_the_fleet} == set(
        Thresholds.__struct_fields__
    )
