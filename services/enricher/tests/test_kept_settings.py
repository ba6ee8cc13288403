"""What travels of a table's properties is bounded, and nothing is cut into another value."""

from __future__ import annotations

import json

import pytest
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.fleet.holds import find_hold
from firnline_domain.records.pauses import HoldReason
from firnline_domain.settings.in_force import (
    PERIODS,
    REF_RULES,
    unknown_names,
    unreadable_values,
    with_namespace,
)
from firnline_domain.settings.parquet import PARQUET
from firnline_domain.settings.thresholds import PROPERTIES, WORKERS, Thresholds, resolve_thresholds
from firnline_enricher.kept_settings import KNOWN, select_namespace_settings, select_table_settings

from tests.kit.partitions import table_input

LONG = "7" * 2_400_000
MAX_BYTES = 250_000  # a quarter of what a topic takes


@pytest.mark.parametrize("text", [LONG, "🏔" * 600_000, "\ud800" * 5_000])
def test_whatever_is_in_properties_they_stay_small(text: str) -> None:
    names = [*KNOWN, *(f"firnline.x{n}" for n in range(100_000)), "firnline." + "y" * 1_000_000]
    settings = dict.fromkeys(names, text)
    kept = with_namespace(select_table_settings(settings), select_namespace_settings(settings))
    assert len(json.dumps(kept, ensure_ascii=False).encode(errors="replace")) < MAX_BYTES


# where they cannot be read nothing is done, so that what they would have forbidden is not
WITHHOLD = {
    name for name, one in PROPERTIES.items() if one.field in (*PERIODS, *REF_RULES, "create_tags")
}
# any text is a name: who looks for the group, the column or the place tells
NAMES = (
    *("group", "sort", "partition_column", "orphan_inventory", "statistics"),
    *("archive_table", "archive_location"),
)


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_a_value_that_is_too_long_is_unset_and_told(name: str) -> None:
    text = "Mon 22:00-23:00; " * 1_000
    for huge in (text, LONG, "true" + " " * 10_000, " " * 10_000 + "5"):
        kept = select_table_settings({name: huge})
        if PROPERTIES[name].field in NAMES:
            continue
        [said] = unreadable_values(kept)
        assert said.startswith(f"{name}=")
        if name not in WITHHOLD:
            assert resolve_thresholds(kept) == Thresholds()


@pytest.mark.parametrize("name", ["firnline.window", "firnline.blackout"])
def test_a_period_is_never_cut_into_a_shorter_one(name: str) -> None:
    kept = select_table_settings({name: "Mon 22:00-23:00; " * 1_000})
    table = Table(TableCounters(TableName("u", ("db",), "t"), "main"))
    hold = find_hold(table_input(table, resolve_thresholds(kept), 1_795_270_002_000))
    assert hold is not None
    assert hold.reason == HoldReason.UNREADABLE_WINDOW


def test_what_fits_is_kept_as_it_is() -> None:
    settings = dict.fromkeys(KNOWN, "x" * 1000) | {"firnline.rewrite.min-fragment": "9"}
    assert select_table_settings({**settings, "owner": "me"}) == settings
    assert [*unknown_names(select_table_settings({"firnline.rewrite.min-fragment": "9"}))]


def test_every_property_of_a_number_reaches_the_planner() -> None:
    """Advice about what is not told would never be given."""
    assert {name for name, one in PROPERTIES.items() if one.range} <= set(KNOWN)
    assert {*WORKERS, *PARQUET} <= set(KNOWN)
