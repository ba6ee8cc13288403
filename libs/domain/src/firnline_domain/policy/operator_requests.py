"""Decide what a user, or a job of theirs, has requested: one action on one table, now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_domain.base.values import Value, replace
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import admit_rewrite, decide_rewrite
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.triggers.full_rewrites import FREEZE, freezes_at_ms, is_worth_freezing
from firnline_domain.policy.triggers.table import as_requested
from firnline_domain.records.orders import RewriteFiles, TableOrder

Order = RewriteFiles | TableOrder
POLICY = "policy"  # whatever the policy would order
ACTIONS = (POLICY, *(str(one) for one in Action), FREEZE, *TABLE_ACTIONS)


class RequestedAction(Value):
    """`partition`: its canonical text, in whatever spec. With neither that nor `every_partition`
    the policy chooses the partitions."""

    action: str  # one of `ACTIONS`
    partition: str | None = None
    every_partition: bool = False

    @property
    def names_partitions(self) -> bool:
        """Return True if the partitions were named, and the policy does not choose them."""
        return self.partition is not None or self.every_partition


def requested_rewrites(
    inputs: Iterable[PolicyInput], requested: RequestedAction
) -> Iterator[tuple[PolicyInput, Decision]]:
    """Yield each requested partition with its decision: a task, or why there is none.

    A named partition is rewritten at any debt and any time, unless its table is switched off or a
    task for it is running."""
    for given in inputs:
        name = given.partition.counters.scope.partition
        if requested.partition is None or name == requested.partition:
            yield given, _decide_requested(given, requested)


def _decide_requested(given: PolicyInput, requested: RequestedAction) -> Decision:
    if requested.action == Action.CONVERT and given.settings.streaming_readers:
        return Decision(Reason.STREAMING_READERS)
    at_once = replace(given.settings, quiet_ms=0, hot_ms=0)
    decision = decide_rewrite(replace(given, settings=at_once))
    if requested.action == FREEZE and decision.reason not in _BARS:
        return _decide_freeze(given, requested)
    if requested.names_partitions and decision.reason not in _BARS:
        action = decision.action if requested.action == POLICY else requested.action
        return replace(as_requested(action), order=True)
    if not decision.order:
        return decision
    return _with_action(requested.action, decision)


def _decide_freeze(given: PolicyInput, requested: RequestedAction) -> Decision:
    """Decide on a requested freeze: where partitions are named, no waiting time applies. None is
    rewritten in vain."""
    at_ms = freezes_at_ms(given)
    if not requested.names_partitions and at_ms is not None and at_ms > given.now_ms:
        return Decision(Reason.NOT_CLOSED, until_ms=at_ms)
    is_as_left = at_ms is None and not requested.names_partitions
    if is_as_left or not is_worth_freezing(given.holds, given.settings.target_bytes):
        return Decision(Reason.FROZEN)
    if requested.names_partitions:
        return replace(as_requested(Action.FULL), order=True)
    return admit_rewrite(given, as_requested(FREEZE))


def _with_action(action: str, decision: Decision) -> Decision:
    """Return the decision with the action that was requested."""
    if action in (POLICY, decision.action):
        return decision
    wanted = as_requested(action)
    return replace(decision, action=wanted.action, min_dead_ratio=wanted.min_dead_ratio)


_BARS = frozenset(
    {
        *(Reason.REMOVED, Reason.DISABLED, Reason.IN_FLIGHT, Reason.PAUSED),
        *(Reason.WAITING_FOR_RESYNC, Reason.NAME_TOO_LONG, Reason.PARKED, Reason.UNDONE),
    }
)
