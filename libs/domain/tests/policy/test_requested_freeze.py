"""A person, or a job of theirs, has closed partitions frozen: `firnline run TABLE freeze`."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.operator_requests import RequestedAction, requested_rewrites
from firnline_domain.policy.reasons import Decision
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import policy_input

NOW = 1_795_000_000_000
TARGET = 100
LIMITS = Thresholds(freeze_after_h=48, target_bytes=TARGET)
TABLE = Table(TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7))
SMALL = FileTally(fragments=Tally(3, 3, 3))
FULL = FileTally(on_target=Tally(16, 16, 16 * TARGET))
DELETES = FileTally(position_deletes=Tally(1, 1, 1))


def asked(
    holds: FileTally,
    age_h: float,
    requested: RequestedAction | None = None,
    limits: Thresholds = LIMITS,
) -> Decision:
    """Of a partition that a commit changed so long ago."""
    changed_ms = NOW - int(age_h * HOUR_MS)
    counters = PartitionCounters(Scope(1, '["a"]'), 1, 1, holds, changed_ms=changed_ms)
    wanted = requested or RequestedAction("freeze")
    [(_, decision)] = requested_rewrites(
        [policy_input(TABLE, Partition(counters), limits, NOW)], wanted
    )
    return decision


def test_what_is_closed_is_rewritten_as_a_whole() -> None:
    decision = asked(FULL + SMALL, 48)
    assert (decision.order, decision.action, decision.reason) == (True, "full", "closed")
    decision = asked(FULL + SMALL, 47.9)
    assert (decision.order, decision.reason) == (False, "not_closed")
    assert decision.until_ms == NOW + HOUR_MS // 10


@pytest.mark.parametrize(
    ("holds", "order"),
    [
        (SMALL, True),
        (FULL, False),
        (FULL + DELETES, True),
        (FULL + SMALL, True),
        # what slices have left: as many again would be left by the next nightly run
        (FULL + FileTally(undersized=Tally(2, 2, 100)), False),
        # each below its size, and no fewer together
        (FileTally(undersized=Tally(2, 2, 150)), False),
        (FileTally(undersized=Tally(3, 3, 200)), True),
    ],
)
def test_nothing_is_rewritten_every_night(holds: FileTally, order: bool) -> None:
    decision = asked(holds, 100)
    assert (decision.order, decision.reason) == (order, "closed" if order else "frozen")


def test_a_named_partition_does_not_have_to_wait() -> None:
    off, named = replace(LIMITS, freeze_after_h=0.0), RequestedAction("freeze", '["a"]')
    decision = asked(SMALL, 0, named, off)
    assert (decision.order, decision.action, decision.reason) == (True, "full", "requested")
    assert asked(FULL, 0, named, off).reason == "frozen"
    assert not asked(SMALL, 100, limits=off).order


def test_a_window_is_a_window_unless_partitions_are_named() -> None:
    closed = replace(LIMITS, window="00:00-00:01")
    assert asked(SMALL, 100, limits=closed).reason == "outside_window"
    assert asked(SMALL, 100, RequestedAction("freeze", every_partition=True), closed).order
