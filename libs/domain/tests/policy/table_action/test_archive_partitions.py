"""Old partitions are archived by their owner's word alone, and not before they were announced."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.aged_partitions import (
    PartitionArchiving,
    PartitionExpiry,
)
from firnline_domain.settings.contradictions import find_contradictions
from firnline_domain.settings.in_force import unknown_names
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
NAME = TableName("u", ("db",), "t")
TABLE = Table(TableCounters(NAME, "main", known=True, head_snapshot_id=7))
LIMITS = Thresholds(archive_after_h=720)
ACTION = PartitionArchiving()


def test_what_is_to_be_archived_does_not_leave_by_its_age() -> None:
    both = replace(LIMITS, partition_ttl_h=1_000)
    assert PartitionExpiry().plan_order(table_input(TABLE, both, NOW))[1] is None
    [said] = find_contradictions({}, both, Thresholds(), NOW)
    assert "firnline.partitions.ttl-hours=1000 has no effect" in said


def test_marks_of_rounds_are_no_misspelt_settings() -> None:
    marks = {"firnline.archive-of": "u", "firnline.archive-round": "r", "firnline.archive-rund": ""}
    assert len([*unknown_names(marks)]) == 1
