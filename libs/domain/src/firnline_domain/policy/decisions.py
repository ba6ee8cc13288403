"""What was decided about a partition, and the reason."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.counters.debts import Debt
from firnline_domain.policy.cost_benefit import Action, CostBenefit
from firnline_domain.records.pauses import HoldReason
from firnline_domain.values import Value, field


class Reason(StrEnum):
    """Why a partition was, or was not, chosen. Stable: people and dashboards match on it."""

    # ordered
    EQUALITY_DELETES = "equality_deletes"
    POSITION_DELETES = "position_deletes"
    FRAGMENTS = "fragments"
    GLOBAL_DELETES = "global_deletes"
    UNDERSIZED = "undersized"  # files below their size fill one of the target size together
    SIZE_ERROR = "size_error"  # a merge brings sizes nearer to the target, by enough
    READ_DEBT = "read_debt"  # readers have paid for it what its rewrite costs
    OLD_DEBT = "old_debt"  # little, but for longer than max-age
    RECYCLING = "recycling"  # rows that are deleted by position alone outlast the retention
    # not ordered
    HEALTHY = "healthy"  # no debt
    ACCUMULATING = "accumulating"  # some debt, below every threshold
    FIXED_POINT = "fixed_point"  # the last rewrite left as much: another would change nothing
    MINIMUM_GAIN = "minimum_gain"  # its rewrite costs more than readers have paid so far
    QUIET_PERIOD = "quiet_period"  # it changes right now
    HOT = "hot"  # a writer changes rows of its files, and would fail
    IN_FLIGHT = "in_flight"
    COOLING = "cooling"
    BACKING_OFF = "backing_off"
    PARKED = "parked"
    UNDONE = "undone"  # a person took its last rewrite back
    PAUSED = HoldReason.PAUSED.value
    BLACKOUT = HoldReason.BLACKOUT.value
    OUTSIDE_WINDOW = HoldReason.OUTSIDE_WINDOW.value
    UNREADABLE_WINDOW = HoldReason.UNREADABLE_WINDOW.value
    OTHER_MAINTAINER = HoldReason.OTHER_MAINTAINER.value
    COMMIT_CEILING = HoldReason.COMMIT_CEILING.value
    BATCHING = HoldReason.BATCHING.value
    SHADOW = HoldReason.SHADOW.value
    WAITING_FOR_BUDGET = "waiting_for_budget"  # others spare more for what they cost
    TABLE_BUSY = "table_busy"  # as many orders of the table are out as max-in-flight lets
    WAITING_FOR_RESYNC = "waiting_for_resync"  # the counters may be wrong
    DISABLED = "disabled"  # firnline.enabled=false
    NAME_TOO_LONG = "name_too_long"  # a partition whose values no order could carry
    REMOVED = "removed"


STATUS = {
    Reason.IN_FLIGHT: "in_flight",
    Reason.COOLING: "cooling",
    Reason.BACKING_OFF: "backing_off",
    Reason.PARKED: "parked",
    Reason.UNDONE: "parked",
}


ORDERS = frozenset(
    {
        Reason.EQUALITY_DELETES,
        Reason.POSITION_DELETES,
        Reason.FRAGMENTS,
        Reason.GLOBAL_DELETES,
        Reason.UNDERSIZED,
        Reason.SIZE_ERROR,
        Reason.READ_DEBT,
        Reason.OLD_DEBT,
        Reason.RECYCLING,
    }
)


EVERY_FILE, NO_FILE = 0.0, 1.0  # that has a dead row; that has a living one
Assessment = tuple[Debt, Debt, CostBenefit]
"""All debt, what of it has grown since the last rewrite, and what a compaction weighs."""


class Decision(Value):
    """`until_ms`: when time alone may change the decision; None = only an event can.

    `assessment`: what it was made from; None where the partition was not weighed. `wanted`: of one
    that the table holds back, the decision that its partition alone asks for."""

    reason: Reason
    order: bool = False
    until_ms: int | None = None
    rank: float = 0.0  # of orders: the highest goes first (`cost_benefit.CostBenefit.paid_back`)
    numbers: dict[str, float] = field(default_factory=dict)  # see `explained`
    action: Action = Action.COMPACT
    min_dead_ratio: float = EVERY_FILE  # of the larger files that are rewritten
    assessment: Assessment | None = None
    wanted: Decision | None = None

    @property
    def status(self) -> str:
        """idle | in_flight | cooling | backing_off | parked"""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")
