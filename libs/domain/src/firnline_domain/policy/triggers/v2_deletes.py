"""Delete files of format version 2 in a table that was moved to v3: position-delete files, which
nobody may add there any more, and the equality deletes that were there before. A partition at a
time, deletion vectors take their place, where the owner has asked for v3
(`firnline.format-version`).

Equality deletes that writers bring afterwards are served as in any table. Nor is it about those
without a partition in a partitioned table: the files that they reach are rewritten, when there are
enough of them.
"""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.counters.state.work import ActionWork, RunningTask
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import EVERY_FILE, NO_FILE, Decision, TriggerState
from firnline_domain.policy.triggers.hot_partitions import wait_for_writers
from firnline_domain.settings.thresholds import Thresholds

VECTORS = 3  # the version from which on deletes by position are deletion vectors
UPGRADE = "upgrade_format"
V2_DELETE_FILES = "v2_delete_files"  # among the numbers of a decision
TAKES_DELETES = frozenset({Action.CONVERT, Action.COMPACT, Action.FULL})


def v2_files(given: PolicyInput) -> int:
    """Count those that a partition holds."""
    counters, partition = given.table.counters, given.partition
    if given.settings.format_version < VECTORS or counters.format_version < VECTORS:
        return 0
    holds, since_ms = partition.counters.holds, partition.work.equality_since_ms
    done_ms = given.table.work.actions.get(UPGRADE, ActionWork()).done_ms
    is_global = partition.counters.scope.is_unpartitioned and counters.global_equality_deletes > 0
    is_old = since_ms is not None and done_ms is not None and since_ms < done_ms
    equality = holds.equality_deletes.files if is_old and not is_global else 0
    return holds.position_deletes.files + equality


def v2_deletes_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Convert the position deletes of format v2 if the debt asks for nothing. Files that the last
    conversion left as they were are not tried again."""
    work, settings = given.partition.work, given.settings
    if v2_files(given) in (0, work.v2_left):
        return None
    if waits := wait_for_writers(given, work.positions_since_ms):
        return TriggerState(waits.until_ms)
    return TriggerState(decision=replace_v2_files(reason, settings))


def replace_v2_files(reason: ReasonCode, settings: Thresholds) -> Decision:
    """Return the decision that has vectors take their place, or rewrites their data files where no
    conversion is allowed."""
    if settings.may_convert:
        return Decision(reason, action=Action.CONVERT, min_dead_ratio=NO_FILE)
    return Decision(reason, action=Action.COMPACT, min_dead_ratio=EVERY_FILE)


def after_rewrite(given: PolicyInput, task: RunningTask) -> int:
    """Return the number of files for `PartitionWork.v2_left` when a task is done. A merge or a sort
    does not change it, nor does a slice that others follow; a slice that removed some may have left
    what the next one can remove."""
    work = given.partition.work
    if task.action not in TAKES_DELETES or work.unfinished is not None:
        return work.v2_left
    left = v2_files(given)
    return 0 if left < task.numbers.get(V2_DELETE_FILES, left) else left
