"""Old partitions are archived by their owner's word alone, and not before they were announced."""

from __future__ import annotations

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.aged_partitions import (
    AgeReason,
    PartitionArchiving,
    PartitionExpiry,
)
from firnline_domain.records.results import TableResult
from firnline_domain.settings.contradictions import find_contradictions
from firnline_domain.settings.in_force import unknown_names
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
NAME = TableName("u", ("db",), "t")
TABLE = Table(TableCounters(NAME, "main", known=True, head_snapshot_id=7))
LIMITS = Thresholds(archive_after_h=720)
ACTION = PartitionArchiving()


def test_nobody_who_has_said_nothing_is_asked() -> None:
    assert ACTION.plan_order(table_input(TABLE, Thresholds(), NOW))[1] is None


def test_it_is_announced_and_begins_when_the_grace_period_is_over() -> None:
    table, order = ACTION.plan_order(table_input(TABLE, LIMITS, NOW))
    assert order is not None
    assert (order.action, order.reason) == ("archive_partitions", AgeReason.ARCHIVE_ANNOUNCED)
    assert (order.numbers["announces"], order.numbers["archive_h"]) == (1, 720)
    numbers = {"going_files": 3.0, "archive_h": 720.0}
    result = TableResult(order.task_id, NAME, order.action, None, "w", NOW, numbers)
    table, word = ACTION.after_result(table, result, NOW)
    assert word == "announced"
    waiting, none = ACTION.plan_order(table_input(table, LIMITS, NOW + DAY_MS - 1))
    assert none is None
    assert waiting.work.actions[ACTION.name].reason == AgeReason.ARCHIVE_GRACE
    _, order = ACTION.plan_order(table_input(table, LIMITS, NOW + DAY_MS))
    assert order is not None
    assert (order.reason, order.numbers["announced_ms"]) == (AgeReason.ARCHIVE_DUE, NOW)
    _, order = ACTION.plan_order(
        table_input(table, replace(LIMITS, archive_after_h=1), NOW + DAY_MS)
    )
    assert order is not None
    assert order.reason == AgeReason.ARCHIVE_ANNOUNCED


def test_what_is_to_be_archived_does_not_leave_by_its_age() -> None:
    both = replace(LIMITS, partition_ttl_h=1_000)
    assert PartitionExpiry().plan_order(table_input(TABLE, both, NOW))[1] is None
    [said] = find_contradictions({}, both, Thresholds(), NOW)
    assert "firnline.partitions.ttl-hours=1000 has no effect" in said


def test_marks_of_rounds_are_no_misspelt_settings() -> None:
    marks = {"firnline.archive-of": "u", "firnline.archive-round": "r", "firnline.archive-rund": ""}
    assert len([*unknown_names(marks)]) == 1
