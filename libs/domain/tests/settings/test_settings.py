"""Which setting holds, who says so, and what is wrong with what was said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from firnline_domain.records.states import SettingInForce
from firnline_domain.settings.contradictions import find_contradictions
from firnline_domain.settings.groups import parse_groups, unserved_text
from firnline_domain.settings.in_force import (
    READ_ELSEWHERE,
    settings_in_force,
    unknown_names,
    unreadable_values,
    with_namespace,
)
from firnline_domain.settings.thresholds import (
    ABOUT_WORKERS,
    PROPERTIES,
    WORKERS,
    Thresholds,
    resolve_thresholds,
)

FRAGMENTS = "firnline.rewrite.min-fragments"
MONDAY_MS = int(datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp() * 1000)


def in_force(
    table: dict[str, str],
    namespace: dict[str, str] | None = None,
    fleet: Thresholds | None = None,
    name: str = FRAGMENTS,
) -> tuple[str, str]:
    settings = with_namespace(table, namespace or {})
    found = settings_in_force(settings, fleet)[name]
    # What is shown is what holds.
    value = getattr(resolve_thresholds(settings, fleet), PROPERTIES[name].field)
    assert found.value == ("" if value in (None, "") else str(value).lower().removesuffix(".0"))
    return found.value, found.origin


def test_the_table_then_the_namespace_then_the_fleet_then_the_default() -> None:
    table, namespace = {FRAGMENTS: "2"}, {FRAGMENTS: "3"}
    fleet = Thresholds(min_fragments=4)
    assert in_force(table, namespace, fleet) == ("2", "table")
    assert in_force({}, namespace, fleet) == ("3", "namespace")
    assert in_force({}, {}, fleet) == ("4", "fleet")
    assert in_force({}, {}) == ("8", "default")


def test_what_cannot_be_read_gives_way_to_the_next_and_is_told() -> None:
    settings = with_namespace({FRAGMENTS: "many"}, {FRAGMENTS: "3"})
    assert settings_in_force(settings)[FRAGMENTS] == SettingInForce(
        FRAGMENTS, "3", "namespace", "'many' of the table property cannot be read"
    )
    assert resolve_thresholds(settings).min_fragments == 3
    [said] = unreadable_values(settings)
    assert said == f"{FRAGMENTS}=many cannot be read and counts as unset: " + (
        "write a whole number from 0 to 1,000,000,000"
    )


def test_a_namespaces_names_are_never_a_tables() -> None:
    assert with_namespace({"a": "1"}, {"a": "2"}) == {"namespace:a": "2", "a": "1"}


def test_what_the_workers_read_is_told_too() -> None:
    name = "firnline.rewrite.hold-off-ms"
    [said] = unreadable_values({name: "an hour"})
    assert said.startswith(f"{name}=an hour cannot be read")
    assert [*unreadable_values({name: " 0"})] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("firnline.rewrite.min-fragment", "firnline.rewrite.min-fragments is meant?"),
        ("firnline.rewrite.min_fragments", "firnline.rewrite.min-fragments is meant?"),
        ("firnline.windows", "firnline.window is meant?"),
        ("firnline.zzz", "docs/reference/properties.md lists all there are"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, hint: str) -> None:
    assert [*unknown_names({name: "1"})] == [f"{name} is no setting: {hint}"]
    assert [*unknown_names({f"namespace:{name}": "1"})] == [
        f"{name} (of the namespace) is no setting: {hint}"
    ]


def test_known_names_are_not_told() -> None:
    every = (*PROPERTIES, *READ_ELSEWHERE, "write.delete.mode")
    assert [*unknown_names(dict.fromkeys(every, "1"))] == []


@pytest.mark.parametrize(
    ("settings", "group"),
    [
        ({}, ""),
        ({"firnline.group": "etl"}, "etl"),
        ({"namespace:firnline.group": "etl"}, "etl"),
        ({"namespace:firnline.group": "adhoc", "firnline.group": "etl"}, "etl"),
        ({"namespace:firnline.group": "etl", "firnline.group": "default"}, ""),
        ({"firnline.group": "bi"}, ""),
    ],
)
def test_whose_workers_get_a_tables_orders(settings: dict[str, str], group: str) -> None:
    fleet = Thresholds(groups=parse_groups("etl,adhoc"))
    assert resolve_thresholds(settings, fleet).served_by == group
    assert settings_in_force(settings, fleet)["firnline.group"].problem == (
        unserved_text("bi", fleet.groups) if "bi" in settings.values() else ""
    )


def test_what_only_a_table_can_say_is_told_of_a_namespace() -> None:
    [said] = unknown_names({"namespace:firnline.rewrite.hold-off-ms": "0"})
    assert said.endswith("is read from the table's own properties alone")


def found_in(settings: dict[str, str], fleet: Thresholds | None = None) -> list[str]:
    fleet = fleet or Thresholds()
    limits = resolve_thresholds(settings, fleet)
    return [*find_contradictions(settings, limits, fleet, MONDAY_MS)]


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        (FRAGMENTS, "1", "2"),
        ("firnline.rewrite.min-equality-deletes", "0", "1"),
        ("firnline.rewrite.min-position-deletes", "0", "1"),
        ("firnline.rewrite.max-in-flight", "0", "1"),
        ("firnline.window", "2026-01-01T00:00Z/2026-01-02T00:00Z", "Mon 22:00-23:00"),
    ],
)
def test_a_number_that_nobody_can_mean(name: str, bad: str, good: str) -> None:
    [said] = found_in({name: bad})
    assert said.startswith(f"{name}={bad}")
    assert found_in({name: good}) == []


def test_a_window_within_the_blackout() -> None:
    blackout = {"firnline.blackout": "Mon-Fri 20:00-08:00"}
    [said] = found_in({"firnline.window": "Mon-Thu 22:00-06:00", **blackout})
    assert said.startswith("firnline.window=Mon-Thu 22:00-06:00 opens only within")
    assert found_in({"firnline.window": "Mon-Thu 22:00-08:01", **blackout}) == []
    assert found_in({"firnline.window": "Mon-Thu 19:59-06:00", **blackout}) == []
    assert found_in({"firnline.window": "00:00-24:00", **blackout}) == []
    assert found_in({"firnline.window": "22:00-06:00", "firnline.blackout": "at night"}) == []


def test_a_window_that_opens_much_later_is_not_over() -> None:
    assert found_in({"firnline.window": "2027-12-24T00:00Z/2027-12-27T00:00Z"}) == []


def test_tags_that_nothing_takes_away() -> None:
    made = {"firnline.tags.create": "daily-{date}; m-{month}"}
    [said] = found_in({**made, "firnline.expire.tags": "daily-* 30d"})
    assert " m-20" in said
    assert "daily-20" not in said
    assert found_in({**made, "firnline.expire.tags": "daily-* 30d; m-* never"}) == []
    assert found_in({"firnline.tags.create": "daily", "firnline.expire.tags": "x"}) == []


def test_two_retentions_at_one_place() -> None:
    hours = {"firnline.retain.hours": "24"}
    age = {"history.expire.max-snapshot-age-ms": "1000"}
    [said] = found_in({**hours, **age})
    assert said.startswith("history.expire.max-snapshot-age-ms=1000 has no effect")
    assert found_in(with_namespace(age, hours)) == []
    assert found_in(age) == found_in(hours) == []
    [said] = found_in({**hours, "gc.enabled": "false"})
    assert said.startswith("firnline.retain.hours=24 has no effect: gc.enabled=false")


def test_ten_properties_are_common_and_all_have_a_meaning() -> None:
    assert len([one for one in PROPERTIES.values() if one.is_common]) == 10
    assert all(one.about for one in PROPERTIES.values())
    assert set(ABOUT_WORKERS) == set(WORKERS)
