"""A table that is read as a stream (`firnline.streaming-readers`) is never converted."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.work import Partition, PartitionWork
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.operator_requests import RequestedAction, requested_rewrites
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.table import TriggerReason, forecast_triggers
from firnline_domain.policy.triggers.v2_deletes import replace_v2_files
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import ConversionPolicy, resolve_thresholds

from tests.kit.partitions import LIMITS, NOW, SCOPE, decide, policy_input, table

MB, DAY_MS = 1 << 20, 86_400_000
AS_ANY = replace(LIMITS, target_bytes=128 * MB, cheap_bytes=64 * MB, reads_per_hour=6.0)
STREAMED = replace(AS_ANY, streaming_readers=True)
LARGE = Tally(25, 100_000_000, 25 * 128 * MB)
UPSERTED = FileTally(on_target=LARGE, equality_deletes=Tally(4, 200_000, 1_600_000))
MARKED = FileTally(on_target=LARGE, position_deletes=Tally(33, 600, 6_000))


def holding(holds: FileTally) -> Partition:
    counters = PartitionCounters(SCOPE, 1, 1, holds)
    return Partition(counters, PartitionWork(debt_since_ms=NOW))


def test_the_property_is_the_owners() -> None:
    assert resolve_thresholds({"firnline.streaming-readers": "true"}).streaming_readers
    assert not resolve_thresholds({}).streaming_readers


@pytest.mark.parametrize("asked", [ConversionPolicy.AUTO, ConversionPolicy.ALWAYS])
def test_a_rewrite_takes_the_place_of_a_conversion_when_it_pays_off(
    asked: ConversionPolicy,
) -> None:
    """And until then the reason tells why it waits longer than the conversion would have."""
    partition = holding(UPSERTED)
    sooner = decide(table(), partition, replace(AS_ANY, convert=asked), NOW).until_ms
    assert sooner is not None
    converted = decide(table(), partition, replace(AS_ANY, convert=asked), sooner)
    assert (converted.order, converted.action) == (True, Action.CONVERT)
    limits = replace(STREAMED, convert=asked)
    held = decide(table(), partition, limits, sooner)
    assert (held.order, held.reason) == (False, Reason.STREAMING_READERS)
    assert held.until_ms is not None
    assert sooner < held.until_ms <= NOW + DAY_MS
    later = decide(table(), partition, limits, held.until_ms)
    assert (later.order, later.reason) == (True, TriggerReason.EQUALITY_DELETES)
    assert later.action is Action.COMPACT


def test_a_table_that_never_converts_has_no_such_reason() -> None:
    never = replace(STREAMED, convert=ConversionPolicy.NEVER)
    for holds, reason in ((UPSERTED, Reason.MINIMUM_GAIN), (MARKED, Reason.FIXED_POINT)):
        assert decide(table(), holding(holds), never, NOW + 60_000).reason is reason


def test_position_deletes_that_only_a_conversion_would_join_are_left() -> None:
    found = decide(table(), holding(MARKED), AS_ANY, NOW + 60_000)
    assert (found.order, found.action) == (True, Action.CONVERT)
    held = decide(table(), holding(MARKED), STREAMED, NOW + 60_000)
    assert (held.order, held.reason) == (False, Reason.STREAMING_READERS)
    given = policy_input(table(), holding(MARKED), STREAMED, NOW + 60_000)
    waiting = {one.reason: one.waits_for for one in forecast_triggers(given) if one.waits_for}
    assert waiting == {TriggerReason.POSITION_DELETES: Reason.STREAMING_READERS}


def test_delete_files_of_v2_are_rewritten_and_a_requested_conversion_is_refused() -> None:
    decision = replace_v2_files(TriggerReason.V2_DELETES, STREAMED)
    assert decision.action is Action.COMPACT
    wanted = RequestedAction("convert", every_partition=True)
    orders = {}
    for limits in (AS_ANY, STREAMED):
        given = policy_input(table(), holding(UPSERTED), limits)
        found = requested_rewrites([given], wanted)
        orders[limits.streaming_readers] = [(one.order, one.reason) for _, one in found]
    assert orders == {
        False: [(True, Reason.REQUESTED)],
        True: [(False, Reason.STREAMING_READERS)],
    }
