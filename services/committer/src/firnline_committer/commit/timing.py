"""Times commits to a table in which a writer deletes rows every second or so.

A DELETE, UPDATE or MERGE names the files that it has read, and fails when a rewrite replaces them
before it commits. Right after such a commit its writer has most probably not begun the next
statement: then our commit makes the fewest of theirs fail, and has the longest time until the head
moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import median

from firnline_domain.identity import MAIN
from firnline_domain.records.parts.summaries import TASK_ID, number_in
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Snapshot

from firnline_committer.commit.held_catalog import HeldCatalog

POLL_S = 0.02  # between two reads of the table
EARLY_S = 0.1  # before the next such commit is due, the table is read for the first time
LATE = 2  # commit intervals after which the next commit is not waited for any longer
SEEN_SNAPSHOTS = 64  # the newest, among which those of such a writer are looked for
REMEMBERED = 8  # commits that an interval is told from
FEWEST = 2  # that make an interval: waiting in vain costs seconds, a failed statement its work
LONGEST_MS = 2_500  # from one to the next; slower ones are rarely met, and long to wait for
ENDED_AFTER = 3  # intervals without a commit: the writer has ended
BUSY_COMMITS = 5  # commits that tell a head which moves while one of ours is made
BUSY_MS = 10_000  # within which they came, and since which the last one did
DRAIN_S = 1.2  # of the two seconds for which the gateway holds reads; the rest is for our commit
QUIET = 2  # intervals without a commit: no statement is under way any more
_ADDED = ("added-position-deletes", "added-dvs")


@dataclass(frozen=True)
class CommitTiming:
    """The timing of commits: reads the table, and sleeps."""

    catalog: HeldCatalog
    now_ms: Callable[[], int]
    sleep: Callable[[float], object]

    def interval_ms(self, table: LoadedTable, ref: str) -> int | None:
        """Return the interval at which rows of files are deleted now; None: there is nothing to
        wait for."""
        times = [one.timestamp_ms for one in _of_deleting_writers(table, ref)]
        return commit_interval_ms(times, self.now_ms())

    def wait_for_commit(self, table: LoadedTable, ref: str, interval_ms: int) -> None:
        """Wait until such a writer has committed once more, or is late: after `LATE` intervals by
        the clock, because a read of the table takes a busy host seconds. Its commit begins the hold
        of reads at the gateway: a writer without a pause reads again before this sees the commit.
        Raises TableGone, RetryLater."""
        last = next(_of_deleting_writers(table, ref), None)
        due_s = 0.0 if last is None else (last.timestamp_ms + interval_ms - self.now_ms()) / 1000
        # no longer than an interval, whatever the writer's clock says
        self.sleep(min(max(due_s - EARLY_S, 0.0), interval_ms / 1000))
        late_ms, head = self.now_ms() + LATE * interval_ms, table.head_id(ref)
        tables = self.catalog.holds_next_reads if ref == MAIN else self.catalog.tables
        for _ in range(int(LATE * interval_ms / 1000 / POLL_S)):
            loaded = tables.load(table.identity)
            newest = next(_of_deleting_writers(loaded, ref), None)
            if newest is not None and not table.retains(newest.snapshot_id):
                if ref == MAIN:
                    self._wait_for_others(loaded, ref, interval_ms)
                return
            if (moved := loaded.head_id(ref)) != head:  # an append has begun the hold
                head = moved
                self.catalog.releases.load(table.identity)
            if self.now_ms() >= late_ms:
                return
            self.sleep(POLL_S)

    def _wait_for_others(self, table: LoadedTable, ref: str, interval_ms: int) -> None:
        """Wait until other writers' statements that were under way have been committed, too. While
        the gateway holds reads none begins, so commits cease: with four writers without a pause 3
        of 4 statements would fail otherwise. Slower writers pause, and without a gateway a wait
        would lead out of the pause."""
        polls, quiet_ms = int(DRAIN_S / POLL_S), int(QUIET * interval_ms)
        if quiet_ms > DRAIN_S * 1000:
            return
        newest = next(_of_deleting_writers(table, ref), None)
        end_ms, calm_ms = self.now_ms() + int(DRAIN_S * 1000), self.now_ms() + quiet_ms
        for _ in range(polls):  # by the clock, too: a read takes a busy host seconds
            self.sleep(POLL_S)
            loaded = self.catalog.tables.load(table.identity)
            last = next(_of_deleting_writers(loaded, ref), None)
            if last != newest:
                newest, calm_ms = last, self.now_ms() + quiet_ms
            if self.now_ms() >= min(end_ms, calm_ms):
                return


def _of_deleting_writers(table: LoadedTable, ref: str) -> Iterator[Snapshot]:
    """Yield the snapshots in which rows were deleted from files that the writer had read, newest
    first."""
    for snapshot in islice(table.ancestors(table.head_id(ref)), SEEN_SNAPSHOTS):
        summary = snapshot.summary
        if summary is not None and names_rows(summary, summary.operation.value):
            yield snapshot


def names_rows(summary: Mapping[str, str], operation: str) -> bool:
    """Return whether a snapshot is of a writer that names files which it has read (see
    `hot_partitions`).
    Position deletes that come with equality deletes are a streaming writer's, of its own files;
    those of a `replace` are maintenance, as our own conversions are."""
    ours = operation == "replace" or summary.get(TASK_ID)  # PyIceberg's has every key
    if ours or number_in(summary, "added-equality-deletes"):
        return False
    rewritten = operation == "overwrite" and number_in(summary, "deleted-data-files")
    return bool(rewritten) or any(number_in(summary, name) for name in _ADDED)


def commit_interval_ms(newest_first: Sequence[int], now_ms: int) -> int | None:
    """Return the milliseconds from one such commit to the next, by their timestamps; None if they
    are too few, too slow, or over."""
    times = newest_first[:REMEMBERED]
    if len(times) < FEWEST:
        return None
    interval = int(median(a - b for a, b in pairwise(times)))
    alive = now_ms - times[0] < ENDED_AFTER * interval
    return interval if 0 < interval <= LONGEST_MS and alive else None


def head_is_busy(newest_first: Sequence[int], now_ms: int) -> bool:
    """Return whether a table's head moves every other second, by the timestamps of its last
    commits."""
    times = newest_first[:BUSY_COMMITS]
    return (
        len(times) == BUSY_COMMITS
        and times[0] - times[-1] < BUSY_MS
        and now_ms - times[0] < BUSY_MS
    )
