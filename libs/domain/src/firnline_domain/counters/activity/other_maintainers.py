"""Other maintainers of the same table, known by their snapshots; what Firnline does about them.

Two that rewrite the same files only cost each other their work. Who repeats itself is yielded to
after each of its runs; a rewrite that somebody made once is only given the time to end.
"""

from __future__ import annotations

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import Value
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.parts.summaries import OPTIMIZE, PRODUCER, REPLACE

RUN_GAP_MS = 30 * 60_000  # commits of one run (partial progress, partition by partition) are closer
REPEATS_MS = 4 * DAY_MS  # a nightly job that rests at the weekend repeats itself; a weekly does not
SINGLE_RUN_YIELD_MS = 5 * 60_000


class OtherMaintainer(Value):
    """The newest run of somebody else's maintenance."""

    snapshot_id: int
    since_ms: int  # its first commit
    seen_ms: int  # its last
    before_ms: int | None  # the last commit of the run before
    maker: dict[str, str]  # what its summary says of who made it

    @property
    def is_repeated(self) -> bool:
        """Return True if this is more than a rewrite that was made once."""
        return self.before_ms is not None and self.since_ms - self.before_ms <= REPEATS_MS

    def until_ms(self, yield_ms: int) -> int:
        """Return when the table is ours again. 0 = it never belongs to another maintainer."""
        return self.seen_ms + (yield_ms if self.is_repeated else min(yield_ms, SINGLE_RUN_YIELD_MS))

    def describe(self) -> str:
        """Describe the snapshot, and what is known of its engine."""
        known = ", ".join(f"{name} {value}" for name, value in sorted(self.maker.items()))
        again = "runs again and again" if self.is_repeated else "ran once"
        return f"snapshot {self.snapshot_id} by {known or 'an unnamed engine'}, which {again}"


def is_others_maintenance(change: FilesChanged) -> bool:
    """Return True for a commit of another engine that replaced files. One that only rewrote
    manifests does not touch Firnline's rewrites."""
    if change.kind is not ChangeKind.DELTA or change.snapshot_id is None or change.task_id:
        return False
    replaced = change.operation == REPLACE or change.maker.get(PRODUCER) == OPTIMIZE
    return replaced and bool(change.partitions)


def notice_rewrite(
    known: OtherMaintainer | None, change: FilesChanged, now_ms: int
) -> OtherMaintainer | None:
    """Return the other maintainer after a change. By the commit's own time, so that one of long
    ago, reported late, holds nothing up."""
    if not is_others_maintenance(change) or change.snapshot_id is None:
        return known
    at_ms = min(change.timestamp_ms, now_ms)
    if known is None:
        return OtherMaintainer(change.snapshot_id, at_ms, at_ms, None, change.maker)
    if at_ms <= known.seen_ms + RUN_GAP_MS:
        seen_ms = max(at_ms, known.seen_ms)
        return OtherMaintainer(
            change.snapshot_id, known.since_ms, seen_ms, known.before_ms, change.maker
        )
    return OtherMaintainer(change.snapshot_id, at_ms, at_ms, known.seen_ms, change.maker)
