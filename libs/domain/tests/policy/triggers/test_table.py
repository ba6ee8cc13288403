"""What every trigger of a rewrite would do, also those that are asked after the first one."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.work import Partition, PartitionWork
from firnline_domain.policy.reasons import CALM, Reason
from firnline_domain.policy.triggers.table import (
    ORDERS,
    TRIGGERS,
    TriggerReason,
    first_due,
    forecast_triggers,
)
from firnline_domain.records.states import TriggerForecast
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import AN_HOUR_AGO, LIMITS, NOW, partition, policy_input, table

STATES = [
    partition(fragments=7),
    partition(fragments=8),
    partition(NOW - 400, fragments=15),
    partition(fragments=99, equality_deletes=4),
    partition(0, PartitionWork(debt_since_ms=AN_HOUR_AGO + 1_000), fragments=2),
    partition(0, PartitionWork(floor=Debt(fragments=20)), fragments=20),
    partition(0, PartitionWork(debt_since_ms=0), on_target=9, position_deletes=5),
    partition(on_target=1),
]
SETTINGS = [LIMITS, replace(LIMITS, freeze_after_h=1.0), replace(LIMITS, sort="at")]


def forecasts(
    of_it: Partition, limits: Thresholds = LIMITS
) -> dict[str, tuple[bool, int | None, str]]:
    given = policy_input(table(), of_it, limits, NOW)
    return {one.reason: (one.due, one.at_ms, one.waits_for) for one in forecast_triggers(given)}


def test_those_that_do_not_fire_are_forecast_next_to_those_that_do() -> None:
    found = forecasts(partition(fragments=99, equality_deletes=4))
    assert found[TriggerReason.EQUALITY_DELETES] == (True, None, "")
    assert found[TriggerReason.FRAGMENTS] == (True, None, "")
    assert found[TriggerReason.GLOBAL_DELETES] == (False, None, "")
    assert TriggerReason.UNSORTED not in found


def test_time_makes_old_debt_fire_and_writers_keep_a_threshold_back() -> None:
    young = partition(0, PartitionWork(debt_since_ms=AN_HOUR_AGO + 1_000), fragments=2)
    assert forecasts(young)[TriggerReason.OLD_DEBT] == (False, NOW + 1_000, "")
    hot = partition(NOW - 400, fragments=15)
    assert forecasts(hot)[TriggerReason.FRAGMENTS] == (False, NOW + 600, Reason.QUIET_PERIOD)


@pytest.mark.parametrize("limits", SETTINGS)
@pytest.mark.parametrize("of_it", STATES)
def test_the_first_that_is_due_is_the_decision(of_it: Partition, limits: Thresholds) -> None:
    given = policy_input(table(), of_it, limits, NOW)
    found: list[TriggerForecast] = [*forecast_triggers(given)]
    order = iter([trigger.reason for trigger in TRIGGERS])
    assert all(one.reason in order for one in found)  # each after the one before it
    wanted = first_due(given)
    stopped = [one for one in found if one.due or one.waits_for not in ("", *CALM)]
    if wanted.reason in ORDERS:
        assert (stopped[0].reason, stopped[0].due) == (wanted.reason, True)
    else:
        assert not stopped or stopped[0].waits_for == wanted.reason
