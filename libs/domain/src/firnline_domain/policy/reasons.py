"""Record what was decided about a partition, and the reason."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Value, field
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.pauses import HoldReason


class Reason(ReasonCode):
    """Reasons why a partition or a table was, or was not, chosen, that stand in no other place.
    Those why a partition was: `policy.triggers.table`. Those of an action on a table: its module.
    """

    REQUESTED = (
        "requested",
        "A person requested it: `firnline run TABLE ACTION`.",
        "requested by a person (firnline run)",
    )
    HEALTHY = ("healthy", "No files to compact.", "nothing to do")
    ACCUMULATING = (
        "accumulating",
        "Some small or delete files, below every threshold.",
        "not enough yet",
    )
    FIXED_POINT = (
        "fixed_point",
        "The last rewrite left exactly this state. Another one would not improve it.",
        "another rewrite would not improve it",
    )
    NOT_CLOSED = (
        "not_closed",
        "`firnline run TABLE freeze` was requested, but a commit changed the partition within "
        "`firnline.freeze.after-hours`.",
        "a commit changed it within firnline.freeze.after-hours",
    )
    FROZEN = (
        "frozen",
        "No commit changed the partition for `firnline.freeze.after-hours`, and its final "
        "rewrite is done. The next commit to it ends this.",
        "frozen until a commit changes it (firnline.freeze.after-hours)",
    )
    MINIMUM_GAIN = (
        "minimum_gain",
        "The rewrite costs more than it has saved readers so far. It runs after "
        "`firnline.rewrite.max-wait-ms` at the latest.",
        "the rewrite costs {rewrite_cpu_s} CPU s and saves {read_s_spared} CPU s per scan; "
        "waits until it pays off, at most firnline.rewrite.max-wait-ms",
    )
    STREAMING_READERS = ConflictReason.STREAMING_READERS.entry
    QUIET_PERIOD = (
        "quiet_period",
        "The partition changed within `firnline.rewrite.quiet-ms`.",
        "a writer has just committed to it; waits for a pause",
    )
    HOT = (
        "hot",
        "A writer changed rows of its files within `firnline.rewrite.hot-ms`. A rewrite would "
        "make its next statement fail.",
        "a writer is running DELETE, UPDATE or MERGE and would fail; waits for a pause, at "
        "most firnline.rewrite.hot-max-ms",
    )
    IN_FLIGHT = ("in_flight", "A task is scheduled or running.", "a task is scheduled or running")
    COOLING = (
        "cooling",
        "The last rewrite was less than `firnline.rewrite.cool-down-ms` ago.",
        "waits after its last rewrite (firnline.rewrite.cool-down-ms)",
    )
    BACKING_OFF = (
        "backing_off",
        "The last task failed. The next one starts after 10 s, then after twice as long each "
        "time, at most 30 min.",
        "retry after {failures} failures in a row",
    )
    PARKED = (
        "parked",
        "It failed too often. The next try is after 24 h, or after `firnline unpark TABLE`. "
        "The events contain the errors.",
        "suspended after {failures} failures in a row",
    )
    UNDONE = (
        "undone",
        "A person reverted the last rewrite. The partition is left alone for 24 h, or until "
        "`firnline unpark TABLE`.",
        "its last rewrite was reverted by a person; `firnline unpark` continues",
    )
    PAUSED = HoldReason.PAUSED.entry
    FORMAT_VERSION_4 = HoldReason.FORMAT_VERSION_4.entry
    BLACKOUT = HoldReason.BLACKOUT.entry
    OUTSIDE_WINDOW = HoldReason.OUTSIDE_WINDOW.entry
    UNREADABLE_WINDOW = HoldReason.UNREADABLE_WINDOW.entry
    FAILING = HoldReason.FAILING.entry
    OTHER_MAINTAINER = HoldReason.OTHER_MAINTAINER.entry
    COMMIT_CEILING = HoldReason.COMMIT_CEILING.entry
    BATCHING = HoldReason.BATCHING.entry
    SHADOW = HoldReason.SHADOW.entry
    WAITING_FOR_BUDGET = (
        "waiting_for_budget",
        "Other tasks have a better ratio of benefit to cost. It waits for the budget.",
        "waiting for budget (FIRNLINE_BUDGET_GB_HOURS): other tasks have a better cost-benefit "
        "ratio",
    )
    TABLE_BUSY = (
        "table_busy",
        "The table has as many running tasks as `firnline.rewrite.max-in-flight` allows.",
        "{in_flight} tasks of this table are running, its maximum (firnline.rewrite.max-in-flight)",
    )
    WAITING_FOR_RESYNC = (
        "waiting_for_resync",
        "Events are missing. The enricher reads the table to restore its statistics.",
        "events are missing; the enricher is reading the table",
    )
    DISABLED = ("disabled", "`firnline.enabled=false` is set.", "switched off (firnline.enabled)")
    NAME_TOO_LONG = (
        "name_too_long",
        "The partition's values are longer than 2,000 characters. It is not maintained.",
        "partition values are longer than 2,000 characters: not maintained",
    )
    REMOVED = (
        "removed",
        "The partition or the table does not exist any more.",
        "the table is gone",
    )


STATUS: dict[ReasonCode, str] = {
    Reason.IN_FLIGHT: "in_flight",
    Reason.COOLING: "cooling",
    Reason.BACKING_OFF: "backing_off",
    Reason.PARKED: "parked",
    Reason.UNDONE: "parked",
}


TOP_RANK = 1e9  # before all that readers pay for: no debt comes to it
EVERY_FILE, NO_FILE = 0.0, 1.0  # that has a dead row; that has a living one
# No rewrite would help now: console and assessment call a table healthy that has no others.
NEEDS_NOTHING = frozenset({Reason.HEALTHY, Reason.FIXED_POINT, Reason.ACCUMULATING})
# Nothing is ordered, and nothing waits for writers: another trigger may still fire.
CALM = NEEDS_NOTHING | {Reason.FROZEN, Reason.MINIMUM_GAIN, Reason.STREAMING_READERS}


class Decision(Value):
    """`until_ms`: when time alone may change the decision; None = only an event can.

    `wanted`: of one that the table holds back, the decision that its partition alone asks for."""

    reason: ReasonCode
    order: bool = False
    until_ms: int | None = None
    rank: float = (
        0.0  # of orders: the highest goes first (`cost_benefit.CostBenefit.payback_ratio`)
    )
    numbers: dict[str, float] = field(default_factory=dict)  # see `decide.with_numbers`
    action: Action = Action.COMPACT
    min_dead_ratio: float = EVERY_FILE  # of the larger files that are rewritten
    wanted: Decision | None = None

    @property
    def status(self) -> str:
        """Return `idle` (healthy, waiting or held), `in_flight`, `cooling`, `backing_off` or
        `parked`."""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")


class TriggerState(Value):
    """State of a trigger that applies to a partition: when it fires, or what it decides now. None
    of both: only a commit can make it fire. A decision of `CALM` says why it does not fire yet."""

    at_ms: int | None = None
    decision: Decision | None = None
