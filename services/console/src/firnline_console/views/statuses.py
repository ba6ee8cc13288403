"""Status of a table: a code to filter by, and a few words to read."""

from __future__ import annotations

from firnline_domain.base.values import Value
from firnline_domain.policy.reasons import Reason
from firnline_domain.records.pauses import HoldReason
from firnline_domain.records.states import PartitionState, TableState

WORDS = {  # statuses of partitions, the most urgent first, and how they are called
    "parked": "suspended",
    "in_flight": "running",
    "would_order": "would order",
    "backing_off": "backing off",
    "cooling": "cooling",
}
CODES = {
    "parked": "stuck",
    "in_flight": "working",
    "would_order": "working",
    "backing_off": "failing",
    "cooling": "cooling",
}
# Kinds of files that are counted against a threshold, as they are named in a decision's numbers.
KINDS = {
    "fragments": "min_fragments",
    "equality_deletes": "min_equality_deletes",
    "position_deletes": "min_position_deletes",
    "global_deletes": "min_equality_deletes",
}


class TableStatus(Value):
    """The status of a table: a stable `code`, and a readable `text`."""

    code: str
    text: str


NOT_COUNTED = TableStatus("not_counted", "not counted yet")


def status_of(state: TableState) -> TableStatus:
    """Return the most urgent of the statuses that a state of the planner shows."""
    hold = state.hold.reason if state.hold else ""
    if hold == HoldReason.FAILING:
        return TableStatus("stuck", "planner error")
    if state.waiting_for_resync:
        return TableStatus("resync", "waiting for commits")
    if hold == HoldReason.UNREADABLE_WINDOW:
        return TableStatus("stuck", "unreadable window")
    if hold == HoldReason.FORMAT_VERSION_4:
        return TableStatus("off", "format version 4")
    if any(part.reason == Reason.DISABLED for part in state.partitions):
        return TableStatus("off", "off")
    if hold == HoldReason.PAUSED:
        return TableStatus("paused", "paused")
    if busy := [name for name in WORDS if state.statuses.get(name)]:
        text = ", ".join(f"{state.statuses[name]:,} {WORDS[name]}" for name in busy)
        return TableStatus(CODES[busy[0]], text)
    if hold and hold != HoldReason.SHADOW:
        return TableStatus("held", hold.replace("_", " "))
    if not state.debt_files:
        return TableStatus("healthy", "healthy")
    return TableStatus("waiting", _waiting_text(state))


def _waiting_text(state: TableState) -> str:
    """Return the progress of the partition that is nearest to its threshold."""
    found = [near for part in state.partitions if (near := _nearest_threshold(part))]
    if found:
        _, files, threshold = max(found)
        return f"waiting, {files:,.0f} of {threshold:,.0f}"
    reasons = [part.reason for part in state.partitions if part.debt_files]
    return f"waiting: {reasons[0].replace('_', ' ')}" if reasons else "waiting"


def _nearest_threshold(part: PartitionState) -> tuple[float, float, float] | None:
    """Return (share, files, threshold) of the kind of file that is nearest to its threshold; None
    unless the partition accumulates files."""
    if part.reason != Reason.ACCUMULATING:
        return None
    numbers, found = part.numbers, []
    for kind, least in KINDS.items():
        files, threshold = numbers.get(f"new_{kind}", numbers.get(kind, 0)), numbers.get(least)
        if threshold:
            found.append((files / threshold, files, threshold))
    return max(found, default=None)
