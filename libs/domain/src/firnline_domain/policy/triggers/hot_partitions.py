"""Partitions in which writers read, change and write back: hot for a while (writer-failure hazard,
H13).

Whoever plans a DELETE, UPDATE or MERGE reads files and names them in its commit; a rewrite that
replaces them meanwhile makes it fail. When such a writer was at work a moment ago, the next of its
statements is perhaps being planned. Appends and streaming upserts name no file: they never make a
partition hot.
"""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import PartitionWork
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.summaries import REPLACE

OVERWRITE = "overwrite"  # Iceberg's operation of copy-on-write


def names_files(change: FilesChanged, part: PartitionChange) -> bool:
    """Return True if a writer's commit changed rows of files that it had read in this partition.

    Position deletes that come with equality deletes are a streaming writer's: they name files of
    the same commit. Files that a `delete` removes whole were chosen by their metadata, unread."""
    if change.kind is not ChangeKind.DELTA or change.task_id or change.operation == REPLACE:
        return False
    added = part.added
    if added.positional_files:
        return not added.equality_deletes.files
    return change.operation == OVERWRITE and part.removed.data_files > 0


def after_writer_change(
    work: PartitionWork, change: FilesChanged, part: PartitionChange, now_ms: int
) -> PartitionWork:
    """Return the work after a writer's change. By the commit's own time: what is reported late is
    not hot any more."""
    if not names_files(change, part):
        return work
    return replace(work, touched_ms=max(work.touched_ms, min(change.timestamp_ms, now_ms)))


def hot_until_ms(given: PolicyInput) -> int | None:
    """Return when the partition has cooled, or its debt has waited long enough; None = it may be
    now."""
    work, settings, now_ms = given.partition.work, given.settings, given.now_ms
    waited_from = now_ms if work.hot_since_ms is None else work.hot_since_ms
    until_ms = min(work.touched_ms + settings.hot_ms, waited_from + settings.hot_max_ms)
    return until_ms if until_ms > now_ms else None


def wait_for_writers(
    given: PolicyInput, since_ms: int | None, pressing: bool = False
) -> Decision | None:
    """Return the decision that leaves the partition to its writers: not longer than the debt of
    `since_ms` may wait, or a writer that never rests would keep its partition from ever being
    rewritten."""
    now_ms = given.now_ms
    last_ms = None if since_ms is None else since_ms + given.settings.max_wait_ms
    if last_ms is not None and last_ms <= now_ms:
        return None
    quiet_at = given.partition.counters.changed_ms + given.settings.quiet_ms
    if now_ms < quiet_at and not pressing:
        return Decision(Reason.QUIET_PERIOD, until_ms=min(quiet_at, last_ms or quiet_at))
    if hot_until := hot_until_ms(given):
        return Decision(Reason.HOT, until_ms=min(hot_until, last_ms or hot_until))
    return None


def note_waiting(work: PartitionWork, now_ms: int) -> PartitionWork:
    """Note that its debt wants an order, and has to wait; from the first time on."""
    return work if work.hot_since_ms is not None else replace(work, hot_since_ms=now_ms)
