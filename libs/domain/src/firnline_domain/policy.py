"""Does a partition deserve a rewrite now, and why (or why not): a pure function of values."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.commands import RewriteFiles
from firnline_domain.evidence import counts, weights
from firnline_domain.heat import hot_until_ms
from firnline_domain.holds import HoldReason, rewrite_hold_of
from firnline_domain.identity import task_id
from firnline_domain.progress import Debt, Partition, RunningTask, Table, debt_of
from firnline_domain.schedule import earliest
from firnline_domain.sizes import mendable_error, size_error
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import Value, field, replace
from firnline_domain.worth import Action, Weighed, weigh, weigh_merge

BUDGET_LOOK_MS = 15 * 60_000  # a planner that starts has to find again who waits for the budget
PRESSING = 2  # at so many times a threshold, a hot partition is not left to cool any longer


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
    SHADOW = HoldReason.SHADOW.value
    WAITING_FOR_BUDGET = "waiting_for_budget"  # others spare more for what they cost
    TABLE_BUSY = "table_busy"  # max-in-flight orders of the table are out
    WAITING_FOR_RESYNC = "waiting_for_resync"  # the counters may be wrong
    DISABLED = "disabled"  # firnline.enabled=false
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
    }
)


class Decision(Value):
    """`until_ms`: when time alone may change the decision; None = only an event can."""

    reason: Reason
    order: bool = False
    until_ms: int | None = None
    rank: float = 0.0  # of orders: the highest goes first (`worth.Weighed.paid_back`)
    numbers: dict[str, float] = field(default_factory=dict)  # see `explained`
    action: Action = Action.COMPACT

    @property
    def status(self) -> str:
        """idle | in_flight | cooling | backing_off | parked"""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")


def decide(table: Table, partition: Partition, limits: Thresholds, now_ms: int) -> Decision:
    """The decision for one partition. Made with every change; few are told, with `explained`."""
    if barred := _barred(table, partition, limits, now_ms):
        return Decision(barred[0], until_ms=barred[1])
    return _on_its_merits(table, partition, _weighed(table, partition, limits), limits, now_ms)


def explained(table: Table, partition: Partition, limits: Thresholds, now_ms: int) -> Decision:
    """The decision with the numbers that it was made from."""
    debt, grown, _ = found = _weighed(table, partition, limits)
    numbers = counts(table, partition, debt, grown, limits)
    if barred := _barred(table, partition, limits, now_ms):
        decision = Decision(barred[0], until_ms=barred[1])
    else:
        decision = _on_its_merits(table, partition, found, limits, now_ms)
    weighed = weighed_for(table, partition, decision.action, limits)
    numbers |= weights(partition, limits, weighed, now_ms)
    return replace(decision, numbers=numbers)


Found = tuple[Debt, Debt, Weighed]  # all debt, what has grown since the last rewrite, its weight


def _weighed(table: Table, partition: Partition, limits: Thresholds) -> Found:
    debt, grown = debts(table, partition, limits.target_bytes)
    return debt, grown, weigh(partition, limits, debt, grown)


def weighed_for(table: Table, partition: Partition, action: Action, limits: Thresholds) -> Weighed:
    """What a decision's action costs and spares."""
    merge = weigh_merge(partition, limits) if action is Action.MERGE else None
    return merge or _weighed(table, partition, limits)[2]


def _on_its_merits(
    table: Table, partition: Partition, found: Found, limits: Thresholds, now_ms: int
) -> Decision:
    wanted = _wanted(partition, *found, limits, now_ms)
    if wanted.reason not in ORDERS:
        return wanted
    if hold := rewrite_hold_of(table, limits, now_ms):
        return Decision(Reason(hold.reason), until_ms=hold.until_ms)
    if len(table.work.running) >= limits.max_in_flight:
        return Decision(Reason.TABLE_BUSY)
    if limits.spending[1].binds and not limits.paid:
        until_ms = now_ms + BUDGET_LOOK_MS
        return replace(wanted, reason=Reason.WAITING_FOR_BUDGET, until_ms=until_ms)
    return replace(wanted, order=True, until_ms=now_ms + limits.deadline_ms)


def _barred(
    table: Table, partition: Partition, limits: Thresholds, now_ms: int
) -> tuple[Reason, int | None] | None:
    """What forbids an order, whatever the debt, and until when."""
    counters, work = table.counters, partition.work
    if counters.removed:
        return Reason.REMOVED, None
    if not limits.enabled:
        return Reason.DISABLED, None
    task = table.work.task_of(partition.counters.scope)
    if task and now_ms < task.deadline_ms:
        return Reason.IN_FLIGHT, task.deadline_ms
    if counters.waiting or not counters.known:
        return Reason.WAITING_FOR_RESYNC, None
    if work.until_ms is not None and now_ms < work.until_ms:
        return Reason(work.pause), work.until_ms
    return None


def _wanted(
    partition: Partition,
    debt: Debt,
    grown: Debt,
    weighed: Weighed,
    limits: Thresholds,
    now_ms: int,
) -> Decision:
    """What the debt alone asks for, and when time may make it ask for something else."""
    wanted = _compaction(partition, debt, grown, weighed, limits, now_ms)
    resting = wanted.reason in (Reason.HEALTHY, Reason.FIXED_POINT)
    if not grown.undersized or limits.max_size_error <= 0:
        return wanted
    if not resting and wanted.reason not in (Reason.ACCUMULATING, Reason.MINIMUM_GAIN):
        return wanted
    merge = weigh_merge(partition, limits)
    if merge is None:
        return wanted
    if now_ms < merge.from_ms:
        until_ms = earliest(wanted.until_ms, merge.from_ms)
        waits = Decision(Reason.MINIMUM_GAIN, action=Action.MERGE) if resting else wanted
        return replace(waits, until_ms=until_ms)
    if restless := _restless(partition, limits, now_ms, pressing=False):
        return Decision(restless[0], until_ms=restless[1])
    rank = merge.paid_back(now_ms)
    return Decision(Reason.UNDERSIZED, rank=rank, action=Action.MERGE)


def _compaction(
    partition: Partition,
    debt: Debt,
    grown: Debt,
    weighed: Weighed,
    limits: Thresholds,
    now_ms: int,
) -> Decision:
    reason = _due(partition, debt, grown, limits, now_ms)
    if reason is None and weighed.paid_ms <= now_ms:
        reason = Reason.READ_DEBT
    if reason is None:
        until_ms = earliest(_aging_until(partition, debt, grown, limits), weighed.paid_at)
        return Decision(_idle(debt, grown, limits), until_ms=until_ms)
    if now_ms < weighed.from_ms:
        return Decision(Reason.MINIMUM_GAIN, until_ms=weighed.from_ms)
    pressing = _over_threshold(_part(grown, PRESSING), limits) is not None
    if restless := _restless(partition, limits, now_ms, pressing):
        return Decision(restless[0], until_ms=restless[1])
    return Decision(reason, rank=weighed.paid_back(now_ms))


def _restless(
    partition: Partition, limits: Thresholds, now_ms: int, pressing: bool
) -> tuple[Reason, int] | None:
    """Writers are at work in it, and until when it is left to them."""
    quiet_at = partition.counters.changed_ms + limits.quiet_ms
    if now_ms < quiet_at and not pressing:
        return Reason.QUIET_PERIOD, quiet_at
    if hot_until := hot_until_ms(partition.work, limits, now_ms):
        return Reason.HOT, hot_until
    return None


def _due(
    partition: Partition, debt: Debt, grown: Debt, limits: Thresholds, now_ms: int
) -> Reason | None:
    """What counts, sizes and age ask for, whatever the price."""
    if reason := _over_threshold(grown, limits):
        return reason
    if grown.fragments > 0 and _ill_sized(partition, limits):
        return Reason.SIZE_ERROR
    since = partition.work.debt_since_ms
    if since is not None and now_ms >= since + limits.max_age_ms and _worth_it(debt, grown):
        return Reason.OLD_DEBT
    return None


def debts(table: Table, partition: Partition, target_bytes: int) -> tuple[Debt, Debt]:
    """(All debt of the partition, what has come since the last rewrite could do nothing more)."""
    has_data = partition.counters.holds.data.files > 0
    debt = debt_of(
        partition.counters.holds,
        target_bytes,
        table.counters.global_equality_deletes if has_data else 0,
    )
    return debt, debt.beyond(partition.work.floor)


def depth(table: Table, partition: Partition, limits: Thresholds) -> int:
    """Files of debt that have grown."""
    return sum(debts(table, partition, limits.target_bytes)[1].counts)


def _over_threshold(debt: Debt, limits: Thresholds) -> Reason | None:
    if debt.equality_deletes >= max(limits.min_equality_deletes, 1):
        return Reason.EQUALITY_DELETES
    if debt.position_deletes >= max(limits.min_position_deletes, 1):
        return Reason.POSITION_DELETES
    if debt.fragments >= max(limits.min_fragments, 2):
        return Reason.FRAGMENTS
    if debt.global_deletes >= max(limits.min_equality_deletes, 1):
        return Reason.GLOBAL_DELETES
    return None


def _worth_it(debt: Debt, grown: Debt) -> bool:
    """A lone fragment has nothing to be merged with; any delete file can be applied."""
    deletes = grown.equality_deletes + grown.position_deletes + grown.global_deletes
    return deletes > 0 or (grown.fragments > 0 and debt.fragments > 1)


def _idle(debt: Debt, grown: Debt, limits: Thresholds) -> Reason:
    if any(grown.counted):
        return Reason.ACCUMULATING
    left = debt.undersized > 0 or _over_threshold(debt, limits)
    return Reason.FIXED_POINT if left else Reason.HEALTHY


def _aging_until(partition: Partition, debt: Debt, grown: Debt, limits: Thresholds) -> int | None:
    since = partition.work.debt_since_ms
    if since is None or not _worth_it(debt, grown):
        return None
    return since + limits.max_age_ms


def _ill_sized(partition: Partition, limits: Thresholds) -> bool:
    """The partition is off its target, and a merge brings what it takes nearer by as much."""
    holds, target, most = partition.counters.holds, limits.target_bytes, limits.max_size_error
    return 0 < most <= min(size_error(holds, target), mendable_error(holds, target))


def _part(debt: Debt, divisor: int) -> Debt:
    return Debt(*(count // divisor for count in debt.counts))


def order_for(
    table: Table, partition: Partition, decision: Decision, limits: Thresholds, now_ms: int
) -> tuple[RewriteFiles, RunningTask]:
    """The order that an explained decision asks for, and what the planner keeps of it."""
    counters, scope = table.counters, partition.counters.scope
    assert counters.head_snapshot_id is not None  # a partition with debt has a snapshot
    text = f"{scope.spec_id}:{scope.partition}"
    head, action = counters.head_snapshot_id, decision.action
    identity = task_id(counters.table.uuid, counters.ref, text, action, head)
    task = RunningTask(
        task_id=identity,
        scope=scope,
        action=action,
        reason=decision.reason,
        trigger_snapshot_id=head,
        attempt=partition.work.attempt,
        ordered_at_ms=now_ms,
        deadline_ms=now_ms + limits.deadline_ms,
        numbers=decision.numbers,
    )
    order = RewriteFiles(
        task_id=identity,
        table=counters.table,
        ref=counters.ref,
        scope=scope,
        action=action,
        reason=decision.reason,
        trigger_snapshot_id=task.trigger_snapshot_id,
        attempt=task.attempt,
        ordered_at_ms=now_ms,
        deadline_ms=task.deadline_ms,
        numbers=decision.numbers,
    )
    return order, task
