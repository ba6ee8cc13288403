"""Turns results into commits: settle, examine, plan, commit, check. After a few attempts other
tables have their turn; open results are taken up again as they were left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.commit_plan import plan_commit
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.commits.conversion_progress import Marks
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import CatalogUnreachable, RetryLater, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import FORMAT_VERSION_4, RewriteFinished
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.hidden_history import KnownAncestries
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.commit.pinned_head import pin_head
from firnline_iceberg.commit.rewrite import CommitRejected, Committed, CommitUnknown, HeadMoved
from firnline_iceberg.commit.single_send import WrittenMetadata
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.table.loaded_table import LoadedTable, RefGone, SnapshotGone, TableGone

from firnline_committer.commit import events as reports
from firnline_committer.commit import post_commit_check
from firnline_committer.commit.attempts import (
    Attempt,
    AttemptProgress,
    Examined,
    ResultBatch,
    until_closed,
)
from firnline_committer.commit.found_commits import FoundCommit, find_committed, summary_notes
from firnline_committer.commit.held_catalog import HeldCalls, HeldCatalog
from firnline_committer.commit.sent_requests import as_requested, with_requested
from firnline_committer.commit.timing import BUSY_COMMITS, CommitTiming, head_is_busy
from firnline_committer.examine.conversion_progress import answered_at, marks_of
from firnline_committer.examine.conversions import ConversionBuilder
from firnline_committer.examine.delete_repair import Repairs
from firnline_committer.examine.examination import Examiner
from firnline_committer.examine.outputs import Outputs

ATTEMPTS_IN_A_ROW = 3  # then the thread is another table's
MAX_ATTEMPTS = 24  # of a batch against a head that moves, before what is old is refused
PATIENCE_MS = 8 * 60_000  # with a head that moves at every attempt; the lane's own is longer
FIRST_PAUSE_S = 0.02  # doubled at each attempt, times 0.5 to 1.5
MAX_PAUSE_S = 0.2  # a writer that commits every second leaves gaps to be hit, not waited for
HOLD_COMMITS_AFTER = 3  # failed attempts, after which others' commits are asked to wait
MAX_WAITS = 5  # of one batch, for a writer's commit
FEW_MANIFESTS = 100  # fewer are not merged; Iceberg's own default
MANY_MANIFESTS = 400  # more are merged under a busy writer, too
GONE = FoundCommit(())


class Committer:
    """A committer of batches. Safe for many threads, but only one at a time for a table."""

    def __init__(
        self,
        catalog: HeldCatalog,
        commits: TableCommits,
        log: Log,
        now_ms: Callable[[], int],
        sleep: Callable[[float], object] = time.sleep,
        lives: Lifetimes | None = None,
        keys: Keyring = UNSIGNED,
    ) -> None:
        """Build a committer. `keys`: of the write-ahead lists of repairs and conversions."""
        self._catalog = catalog
        self._tables = catalog.tables
        self._commits = commits
        self._outputs = Outputs(catalog.tables, log)
        self._repairs = Repairs(catalog.tables, log, now_ms, keys)
        self._examiner = Examiner(self._outputs, self._repairs, ConversionBuilder(now_ms, keys))
        self._timing = CommitTiming(catalog, now_ms, sleep)
        self._log = log
        self._now_ms = now_ms
        self._sleep = sleep
        self._lives = lives or Lifetimes()
        self._lineages = KnownAncestries()
        self._unknown: set[str] = set()  # tasks whose outputs may yet be committed: never swept
        self._unfinished: dict[tuple[str, str], ResultBatch] = {}  # by table's key and ref

    def commit_all(self, results: Sequence[RewriteFinished]) -> list[Any]:
        """Commit until each result has its event. Raises RetryLater."""
        return until_closed(self.advance, results)

    def advance(self, results: Sequence[RewriteFinished]) -> AttemptProgress:
        """Make a few attempts with results of one table and ref, no two with a task or an input in
        common. Leftovers of earlier attempts with other results are cleared up with these."""
        first = results[0]
        place = (first.table.key, first.ref)
        batch = self._unfinished.pop(place, None) or ResultBatch(first.table, first.ref, {})
        batch.table, batch.events = first.table, []
        batch.open = {result.task_id: result for result in results}
        try:
            pause_s, unreachable = self._attempt_a_few_times(batch), None
        except RetryLater as error:
            pause_s, unreachable = 0.0, error
        if not batch.open or unreachable is not None:
            self._clear_up(batch)
        if batch.open:
            self._unfinished[place] = batch
        return AttemptProgress(batch.events, tuple(batch.open.values()), pause_s, unreachable)

    def abandon(self, table_key: str, ref: str) -> None:
        """Clear up after results that were left open and will not be asked for again. Never raises
        for a table."""
        if (batch := self._unfinished.pop((table_key, ref), None)) is not None:
            self._clear_up(batch)

    def _attempt_a_few_times(self, batch: ResultBatch) -> float:
        """Return the seconds to the next attempt that has a chance; 0: nothing is open. Raises
        RetryLater."""
        pause_s = 0.0
        for _ in range(ATTEMPTS_IN_A_ROW):
            if pause_s:
                self._sleep(pause_s)
            why = self._attempt(batch)
            if not batch.open:
                return 0.0
            batch.failures.append(why)
            failures = len(batch.failures)
            if failures % MAX_ATTEMPTS == 0:
                self._refuse_old_after_failures(batch)
            pause_s = min(FIRST_PAUSE_S * 2 ** min(failures, 9), MAX_PAUSE_S)
            pause_s *= random.uniform(0.5, 1.5)
        return pause_s

    def _attempt(self, batch: ResultBatch) -> str:
        """Settle, examine, plan, commit, check. Return why it failed, if something is still open.
        If a writer's next commit is worth waiting for, the examination is of no use afterwards: it
        begins again at the new head. Raises RetryLater."""
        try:
            while batch.open:
                with self._catalog.load_held(batch.table, _choose_hold(batch)) as held:
                    self._close_committed(batch, held.table)
                    examined = self._examine(batch, held.table) if batch.open else None
                    if examined is None or not examined.plan:
                        return ""
                    interval_ms = self._wait_ms(batch, examined)
                    if interval_ms is None:
                        attempt = self._send(batch, examined)
                        held.commit_sent = attempt.was_sent
                if interval_ms is None:
                    return self._settle(batch, attempt)
                self._timing.wait_for_commit(examined.head.table, batch.ref, interval_ms)
                batch.waits, batch.writer_just_committed = batch.waits + 1, True
        except TableGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.TABLE_GONE, str(gone)), None)
        except RefGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.REF_GONE, str(gone)), None)
        except (MetadataFileGone, SnapshotGone) as gone:  # expired under our eyes: load again
            self._log.warning("metadata_moved", table=batch.table, why=gone)
            return str(gone)
        except TaskRefused as refused:
            if refused.reason != FORMAT_VERSION_4:  # it was upgraded since the task began
                raise
            self._refuse_all(batch, Conflict(ConflictReason.FORMAT_VERSION_4, str(refused)), None)
        return ""

    # ---- settle: what is in the table already

    def _close_committed(self, batch: ResultBatch, table: LoadedTable) -> None:
        """Close what is in the table, whichever committer sent it."""
        found = find_committed(table, list(batch.open.values()), batch.search)
        self._check_and_close(batch, table, as_requested(table, batch.ref, batch.requests, found))

    def _check_and_close(
        self, batch: ResultBatch, table: LoadedTable, commits: Mapping[str, FoundCommit]
    ) -> None:
        """Close what was committed, unless its commit has done harm."""
        harmed = self._revert_harmful(batch, table, commits)
        for task_id, one in commits.items():
            self._unknown.discard(task_id)
            if task_id in harmed:
                self._refuse(batch, task_id, harmed[task_id], table.head_id(batch.ref))
            else:
                self._report_committed(batch, task_id, table, one)

    def _revert_harmful(
        self, batch: ResultBatch, table: LoadedTable, commits: Mapping[str, FoundCommit]
    ) -> dict[str, Conflict]:
        """Revert commits of ours that removed deletes which their outputs need, if that harms no
        other commit: a guard has failed, and deleted rows are back. Return the conflict to report,
        by task id."""
        known = with_requested(table, batch.ref, batch.requests)
        lost = post_commit_check.lost_deletes(known, batch.open, commits, batch.sent)
        if not lost:
            return {}
        text = f"removed {next(iter(lost.values()))}, which an output needs; "
        if not post_commit_check.is_in_history(table, batch.ref, [commits[task] for task in lost]):
            return dict.fromkeys(lost, Conflict(ConflictReason.HAZARD_10312, text + "undone"))
        back = post_commit_check.plan_reversal(table, batch.ref, commits, lost)
        commits_of_table = self._commits.for_table(batch.table)
        done = back and commits_of_table.undo(batch.table, batch.ref, back.head, back.parent)
        text += "undone" if done else "NOT undone"
        self._log.error("delete_lost", table=batch.table, why=text)
        conflict = Conflict(ConflictReason.HAZARD_10312, text)
        return dict.fromkeys(back.tasks if back and done else lost, conflict)

    # ---- examine and plan

    def _examine(self, batch: ResultBatch, table: LoadedTable) -> Examined:
        """Refuse what cannot be committed onto this head, and plan the rest."""
        known = [marks for one in batch.open.values() if (marks := _read_marks(batch, table, one))]
        marked = {path for marks in known for path in marks.files}
        head = pin_head(table, batch.ref, batch.open.values(), marked, self._lineages)
        self._refuse_too_old(batch, head.snapshot_id)
        since_ms = self._now_ms()
        chosen = self._examiner.examine(head, batch.open.values(), batch.leftovers.deletes)
        fit = [batch.marks.get(one.task_id) for one in chosen.fit]
        answered = answered_at(head, [marks for marks in fit if marks is not None])
        made = plan_commit(chosen.fit, head.head, chosen.repairs, chosen.conversions, answered)
        self._refuse_unless_committed(batch, chosen.refused | made.refused, head.snapshot_id)
        still_open = all(one.task_id in batch.open for one in chosen.fit)
        snapshots = made.snapshots if still_open else ()
        starts = {one.task_id: one.start_snapshot_id for one in chosen.fit}
        noted = summary_notes(chosen.lost, chosen.repairs)
        planned = {task for one in snapshots for task in one.task_ids}
        lists = chosen.noted_lists(table, planned)
        return Examined(head, snapshots, starts, noted, since_ms, lists)

    def _refuse_too_old(self, batch: ResultBatch, head: int) -> None:
        """Refuse results whose files may be swept while the commit is under way
        (docs/decisions/0017)."""
        oldest_ms = self._now_ms() - self._lives.result_ms
        for result in list(batch.open.values()):
            if result.started_at_ms < oldest_ms:
                found = Conflict(ConflictReason.TOO_OLD, f"started at {result.started_at_ms}")
                self._refuse(batch, result.task_id, found, head)

    def _refuse_unless_committed(
        self, batch: ResultBatch, refused: Mapping[str, Conflict], head: int
    ) -> None:
        """Refuse results after one more read of the table: another committer that has committed a
        result clears its files away."""
        if refused:
            self._close_committed(batch, self._tables.load(batch.table))
        for task_id, conflict in refused.items():
            if task_id in batch.open:
                self._refuse(batch, task_id, conflict, head)

    def _wait_ms(self, batch: ResultBatch, examined: Examined) -> int | None:
        """Return the interval of a writer whose next commit is to be waited for; None: send now."""
        if batch.writer_just_committed or batch.waits == MAX_WAITS:
            return None
        return self._timing.interval_ms(examined.head.table, batch.ref)

    # ---- commit

    def _send(self, batch: ResultBatch, examined: Examined) -> Attempt:
        head = examined.head
        new = set(examined.noted_lists) - batch.noted
        self._outputs.note_sends(head.table, new)
        batch.noted |= new
        outcome = self._commits.for_table(batch.table).commit(
            batch.table,
            batch.ref,
            head.snapshot_id,
            head.java_rewrites(examined.plan, examined.starts, examined.notes),
            lambda: self._is_fresh(examined.since_ms),
            head.head.form,
            head.manifest_base,
            merges=self._merges_manifests(batch, examined),
        )
        return Attempt(head.snapshot_id, examined.plan, outcome, examined.notes)

    def _is_fresh(self, since_ms: int) -> bool:
        """Return False after a pause in which files may have been removed, or if the clock was set
        back."""
        return 0 <= self._now_ms() - since_ms <= self._lives.send_ms

    def _merges_manifests(self, batch: ResultBatch, examined: Examined) -> bool:
        """Return whether the commit merges small manifests: not if the head moves too often for
        that. If there are very many, a batch's first attempt does it all the same."""
        head = examined.head
        count = len(head.manifest_base.manifests)
        if count < FEW_MANIFESTS or batch.failures:
            return False
        newest = islice(head.table.ancestors(head.snapshot_id), BUSY_COMMITS)
        busy = head_is_busy([one.timestamp_ms for one in newest], self._now_ms())
        return not busy or count > MANY_MANIFESTS

    # ---- settle the outcome, and check what the commit did

    def _settle(self, batch: ResultBatch, attempt: Attempt) -> str:
        """Close or refuse what the attempt decided. Return why the rest stays open, to be tried
        again at the next head; "" if nothing does."""
        batch.requests += [request] if (request := attempt.request) is not None else []
        match attempt.outcome:
            case Committed():
                batch.sent.update(dict.fromkeys(attempt.task_ids, attempt.plan))
                self._check_landed(batch, attempt)
                return ""
            case HeadMoved(detail, written):
                return self._head_moved(batch, detail, written)
            case CommitRejected(_, detail, written) if self._has_head_moved(batch, attempt):
                # Java tried again by itself, on a head that nobody examined; or ours is there
                return self._head_moved(batch, detail, written)
            case CommitRejected(reason, detail, written):
                if written is not None:
                    batch.leftovers.refused.append(written)
                for task_id in attempt.task_ids:
                    self._refuse(batch, task_id, Conflict(reason, detail), attempt.head)
                return ""
            case CommitUnknown(detail, written):
                batch.leftovers.unknown += [written] if written is not None else []
                batch.sent.update(dict.fromkeys(attempt.task_ids, attempt.plan))
                self._unknown.update(attempt.task_ids)
                self._log.warning("outcome_unknown", table=batch.table, why=detail)
                return detail

    def _check_landed(self, batch: ResultBatch, attempt: Attempt) -> None:
        table = self._tables.load(batch.table)
        found = find_committed(table, [batch.open[task_id] for task_id in attempt.task_ids])
        landed = {task: found.get(task, GONE) for task in attempt.task_ids}
        self._check_and_close(batch, table, as_requested(table, batch.ref, batch.requests, landed))

    def _head_moved(self, batch: ResultBatch, why: str, written: WrittenMetadata | None) -> str:
        batch.writer_just_committed = False
        self._log.info("head_moved", table=batch.table, why=why)
        if written is not None:
            batch.leftovers.refused.append(written)
        return why

    def _has_head_moved(self, batch: ResultBatch, attempt: Attempt) -> bool:
        """Load the table anew, and return True if its head is not that of the attempt any more."""
        return self._tables.load(batch.table).head_id(batch.ref) != attempt.head

    # ---- events

    def _report_committed(
        self, batch: ResultBatch, task_id: str, table: LoadedTable, commit: FoundCommit
    ) -> None:
        redelivered = not batch.is_ours(task_id, commit)
        result = batch.open.pop(task_id)
        event = reports.committed_event(result, table, commit, redelivered, self._now_ms())
        batch.events.append(event)
        metrics.count("rewrites_committed", classification=event.classification)
        self._log.info(
            "committed",
            table=batch.table,
            task=task_id,
            snapshots=commit.snapshot_ids,
            redelivered=redelivered,
        )
        if not redelivered:  # else it may be another attempt's, whose outputs its list must name
            elapsed_ms = event.committed_at_ms - result.ordered_at_ms
            metrics.observe("order_to_commit_seconds", elapsed_ms / 1000)
            self._outputs.clear(table, result, commit.lost, batch.marks.get(task_id))

    def _refuse(
        self, batch: ResultBatch, task_id: str, conflict: Conflict, head: int | None
    ) -> None:
        result = batch.open.pop(task_id)
        batch.events.append(reports.conflicted_event(result, conflict, head, self._now_ms()))
        metrics.count("rewrites_conflicted", reason=conflict.reason)
        self._log.warning(
            "conflicted",
            table=batch.table,
            task=task_id,
            reason=conflict.reason,
            detail=conflict.detail,
        )

    def _refuse_all(self, batch: ResultBatch, conflict: Conflict, head: int | None) -> None:
        for task_id in list(batch.open):
            self._refuse(batch, task_id, conflict, head)

    def _refuse_old_after_failures(self, batch: ResultBatch) -> None:
        """Refuse old results after too many failures. An unknown outcome of the last attempt is
        settled by one more read of the table. Results that are young enough are tried again: their
        work is done, and a busy hour passes. Raises RetryLater."""
        why = next((failure for failure in reversed(batch.failures) if failure), "")
        text = f"{len(batch.failures)} tries came to nothing: {why}"
        try:
            self._close_committed(batch, self._tables.load(batch.table))
        except TableGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.TABLE_GONE, str(gone)), None)
        except (MetadataFileGone, SnapshotGone):
            return  # the next attempt loads it again
        since_ms = self._now_ms() - PATIENCE_MS
        for task_id, result in list(batch.open.items()):
            if result.finished_at_ms <= since_ms:
                self._refuse(batch, task_id, Conflict(ConflictReason.PIN_LOST, text), None)
        self._log.warning("still_open", table=batch.table, why=text, n=len(batch.open))
        self._clear_up(batch)
        batch.waits = 0

    def _clear_up(self, batch: ResultBatch) -> None:
        """Clear away what attempts have left. While an outcome is unknown, or a copy of a refused
        commit may be applied, the state of its repair is unknown: then the sweep clears it."""
        left = batch.leftovers
        if left.refused:
            with suppress(TaskRefused, CatalogUnreachable):  # then it has made no try
                # Else its next try would name what is removed here.
                self._commits.for_table(batch.table).abandon(batch.table)
            left.refused = self._outputs.remove_metadata(batch.table, left.refused, left.unknown)
        for repair in left.deletes[:]:
            if repair.task_id not in self._unknown and not left.refused:
                self._repairs.close(batch.table, repair)
                left.deletes.remove(repair)


def _read_marks(batch: ResultBatch, table: LoadedTable, result: RewriteFinished) -> Marks | None:
    """Read the marks of earlier slices, once per task; None if it has none. Raises RetryLater."""
    if result.task_id not in batch.marks:
        batch.marks[result.task_id] = marks_of(table, result)
    return batch.marks[result.task_id]


def _choose_hold(batch: ResultBatch) -> HeldCalls:
    """Choose the calls that the gateway holds. The hold is of the whole table, so there is none for
    another ref than its main branch. Right after a writer's commit: reads. After lost races:
    commits, unless they name files that we replace: a statement that waited would fail, an append
    that waited is applied to the head that we leave."""
    if batch.ref != MAIN:
        return HeldCalls.NOBODY
    if batch.writer_just_committed:
        return HeldCalls.READS
    lost_races = len(batch.failures) >= HOLD_COMMITS_AFTER and not batch.waits
    return HeldCalls.COMMITS if lost_races else HeldCalls.NOBODY
