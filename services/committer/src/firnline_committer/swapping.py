"""Settle, examine, commit, look again: a few times, then other tables have their turn.

What a turn leaves open is taken up by the next one as it was left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_domain.commits.commit_plan import PlannedSnapshot, plan
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.commits.lifetimes import Lifetimes
from firnline_domain.errors import RetryLater
from firnline_domain.identity import MAIN
from firnline_domain.records.events import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.commits import JavaCommits, Landed, Moved, Outcome, Refused, Unknown
from firnline_iceberg.heads import Pinned, pinned
from firnline_iceberg.one_try import Attempt
from firnline_iceberg.tables import LoadedTable, RefGone, SnapshotGone, TableGone

from firnline_committer import aftermath, reports
from firnline_committer.batch import Batch, Turn, to_the_end
from firnline_committer.choosing import Chooser, Chosen
from firnline_committer.conversions import Conversions
from firnline_committer.latching import Catalog
from firnline_committer.moments import RACE, races
from firnline_committer.outputs import Outputs
from firnline_committer.repairs import Repairs
from firnline_committer.settlement import Settled, notes, settled
from firnline_committer.timing import Timing

TURN = 3  # tries in a row; then the thread is another table's
TRIES = 24  # of a batch against a head that moves, before what is old is refused
PATIENCE_MS = 8 * 60_000  # with a head that moves at every try; the lane's own is longer
FIRST_PAUSE_S = 0.02  # doubled at each try, times 0.5 to 1.5
LONGEST_PAUSE_S = 0.2  # a writer that commits every second leaves gaps to be hit, not waited for
LOST = 3  # tries, after which others' commits are asked to wait
MOST_WAITS = 5  # of one batch, for a moment that disturbs nobody
FEW_MANIFESTS = 100  # fewer are not merged; Iceberg's own default
MANY_MANIFESTS = 400  # more are merged under a busy writer, too
GONE = Settled(())


class Swapper:
    """Commits batches. Many threads, but for one table one at a time."""

    def __init__(
        self,
        catalog: Catalog,
        commits: JavaCommits,
        outputs: Outputs,
        repairs: Repairs,
        log: Log,
        now_ms: Callable[[], int],
        sleep: Callable[[float], None],
        lives: Lifetimes | None = None,
    ) -> None:
        self._catalog = catalog
        self._tables = catalog.tables
        self._commits = commits
        self._outputs = outputs
        self._repairs = repairs
        self._chooser = Chooser(outputs, repairs, Conversions(now_ms, repairs.keys))
        self._timing = Timing(catalog.tables, now_ms, sleep)
        self._log = log
        self._now_ms = now_ms
        self._sleep = sleep
        self._lives = lives or Lifetimes()
        self._unknown: set[str] = set()  # tasks whose outputs may yet land: never swept
        self._unfinished: dict[tuple[str, str], Batch] = {}  # by table's uuid and ref

    def swap(self, results: Sequence[RewriteFinished]) -> list[Any]:
        """Turn after turn, until each has its event. Raises RetryLater."""
        return to_the_end(self.turn, results)

    def turn(self, results: Sequence[RewriteFinished]) -> Turn:
        """A few tries with results of one table and ref, no two with a task or an input in common.
        What the last turn left of others is cleared away with these."""
        first = results[0]
        place = (first.table.uuid, first.ref)
        batch = self._unfinished.pop(place, None) or Batch(first.table, first.ref, {})
        batch.table, batch.events = first.table, []
        batch.open = {one.task_id: one for one in results}
        try:
            pause_s, away = self._tried(batch), None
        except RetryLater as error:
            pause_s, away = 0.0, error
        if not batch.open or away is not None:
            self._tidy(batch)
        if batch.open:
            self._unfinished[place] = batch
        return Turn(batch.events, tuple(batch.open.values()), pause_s, away)

    def let_go(self, table_uuid: str, ref: str) -> None:
        """Nobody will ask again with what the last turn left open. Never raises for a table."""
        if (batch := self._unfinished.pop((table_uuid, ref), None)) is not None:
            self._tidy(batch)

    def _tried(self, batch: Batch) -> float:
        """Seconds until the next one has a chance; 0 where nothing is open. Raises RetryLater."""
        pause_s = 0.0
        for _ in range(TURN):
            if pause_s:
                self._sleep(pause_s)
            self._try_in_its_moment(batch)
            if not batch.open:
                return 0.0
            batch.tries += 1
            if batch.tries % TRIES == 0:
                self._refuse_worn(batch)
            pause_s = min(FIRST_PAUSE_S * 2 ** min(batch.tries, 9), LONGEST_PAUSE_S)
            pause_s *= random.uniform(0.5, 1.5)
        return pause_s

    def _try_in_its_moment(self, batch: Batch) -> None:
        """A try that has waited for a moment did nothing else: the next one is of that moment."""
        waits = -1
        while batch.open and waits != batch.waits:
            waits = batch.waits
            self._try(batch)

    def _try(self, batch: Batch) -> None:
        try:
            with self._read(batch) as table:
                self._settle(batch, table)
                if batch.open:
                    self._commit(batch, pinned(table, batch.ref, batch.open.values()))
        except TableGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.TABLE_GONE, str(gone)), None)
        except RefGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.REF_GONE, str(gone)), None)
        except (MetadataFileGone, SnapshotGone) as gone:  # expired under our eyes: load again
            batch.why = str(gone)
            self._log.warning("metadata_moved", table=batch.table.dotted, why=gone)

    @contextmanager
    def _read(self, batch: Batch) -> Iterator[LoadedTable]:
        """The table as it is now. In step with its writers, those who would read it next wait; the
        latch is of the table, so it is not for what its main branch's readers do not see. After
        lost races those wait who would commit, unless they name files that we replace: a statement
        that waited would fail, an append that waited is applied to the head that we leave."""
        held = batch.tries >= LOST and not batch.waits
        if not (batch.in_step or held) or batch.ref != MAIN:
            yield self._tables.load(batch.table)
            return
        batch.latched = True
        try:
            load = self._catalog.load_latched if batch.in_step else self._catalog.load_held
            yield load(batch.table)
        finally:
            if batch.latched:
                self._catalog.let_go(batch.table)
            batch.latched = False

    def _tidy(self, batch: Batch) -> None:
        """Clear away what tries have left. While an outcome is unknown, or a copy of a refused
        commit may be applied, nothing is known of its repair: then it is the sweep's."""
        if batch.attempts:
            self._commits.abandon(batch.table)  # or its next try would name what is removed here
            batch.attempts = self._outputs.forget(batch.table, batch.attempts, batch.doubtful)
        for repair in batch.repairs[:]:
            if repair.task_id not in self._unknown and not batch.attempts:
                self._repairs.close(batch.table, repair)
                batch.repairs.remove(repair)

    def _settle(self, batch: Batch, table: LoadedTable) -> None:
        """Close what is in the table already, whoever put it there."""
        self._close(batch, table, settled(table, list(batch.open.values()), batch.looked))

    def _close(self, batch: Batch, table: LoadedTable, found: dict[str, Settled]) -> None:
        """Close what was committed, unless its commit has done harm."""
        harmed = self._reverted(batch, table, found)
        for task_id, one in found.items():
            if task_id in harmed:
                self._unknown.discard(task_id)
                self._refuse(batch, task_id, harmed[task_id], table.head_id(batch.ref))
            else:
                ours = batch.made(task_id, one)
                self._committed(batch, task_id, table, one, redelivered=not ours)

    def _reverted(
        self, batch: Batch, table: LoadedTable, found: dict[str, Settled]
    ) -> dict[str, Conflict]:
        """A guard has failed where a commit of ours took out what its outputs need: rows are back
        that were deleted. Take it back, if that harms nobody. By task id, what to say of it."""
        lost = aftermath.losses(table, batch.open, found, batch.sent)
        if not lost:
            return {}
        text = f"removed {next(iter(lost.values()))}, which an output needs; "
        if not aftermath.is_in_history(table, batch.ref, [found[task] for task in lost]):
            return dict.fromkeys(lost, Conflict(ConflictReason.HAZARD_10312, text + "undone"))
        back = aftermath.reversal(table, batch.ref, found, lost)
        done = back and self._commits.undo(batch.table, batch.ref, back.head, back.parent)
        text += "undone" if done else "NOT undone"
        self._log.error("delete_lost", table=batch.table.dotted, why=text)
        conflict = Conflict(ConflictReason.HAZARD_10312, text)
        return dict.fromkeys(back.tasks if back and done else lost, conflict)

    def _commit(self, batch: Batch, at: Pinned) -> None:
        """Refuse what cannot be committed onto this head, and try to commit the rest."""
        self._refuse_old(batch, at)
        seen_ms = self._now_ms()  # outputs are looked at from here on
        chosen = self._chooser.choose(at, batch.open.values(), batch.repairs)
        made = plan(chosen.fit, at.head, chosen.repairs, chosen.conversions)
        self._refuse_chosen(batch, at, chosen.refused | made.refused)
        if not made.snapshots or not all(one.task_id in batch.open for one in chosen.fit):
            return
        if self._disturbs_nobody(batch, at):
            self._send(batch, at, chosen, made.snapshots, seen_ms)

    def _disturbs_nobody(self, batch: Batch, at: Pinned) -> bool:
        """False after a wait for the moment to try again: what was read now is not read then."""
        if batch.in_step or batch.waits == MOST_WAITS:
            return True
        beat = self._timing.beat_ms(at.table, batch.ref)
        if beat is None:
            return True
        self._timing.wait(at.table, batch.ref, beat)
        batch.waits, batch.in_step = batch.waits + 1, True
        batch.why = f"rows are deleted every {beat} ms"
        return False

    def _refuse_old(self, batch: Batch, at: Pinned) -> None:
        """Their files may be swept while the commit is on its way (docs/decisions/0010)."""
        oldest_ms = self._now_ms() - self._lives.result_ms
        for result in list(batch.open.values()):
            if result.started_at_ms < oldest_ms:
                found = Conflict(ConflictReason.TOO_OLD, f"started at {result.started_at_ms}")
                self._refuse(batch, result.task_id, found, at.head.snapshot_id)

    def _refuse_chosen(self, batch: Batch, at: Pinned, refused: dict[str, Conflict]) -> None:
        """Not before a second look: files that are gone may have been cleared away by another
        committer, after its commit."""
        if refused:
            self._settle(batch, self._tables.load(batch.table))
        for task_id, conflict in refused.items():
            if task_id in batch.open:
                self._refuse(batch, task_id, conflict, at.head.snapshot_id)

    def _send(
        self,
        batch: Batch,
        at: Pinned,
        chosen: Chosen,
        swaps: tuple[PlannedSnapshot, ...],
        seen_ms: int,
    ) -> None:
        starts = {one.task_id: one.start_snapshot_id for one in chosen.fit}
        rewrites = at.rewrites(swaps, starts, notes(chosen.lost, chosen.repairs))
        head = at.head.snapshot_id
        outcome = self._commits.commit(
            batch.table,
            batch.ref,
            head,
            rewrites,
            lambda: self._is_fresh(seen_ms),
            at.head.form,
            at.footing,
            merges=self._merges(batch, at),
        )
        if isinstance(outcome, Landed | Unknown) or outcome.attempt is not None:
            batch.latched = False  # the answer to our commit has let go
        self._take(batch, at, swaps, outcome)

    def _merges(self, batch: Batch, at: Pinned) -> bool:
        """Whether small manifests are merged on the way: not where the head moves too often for
        that. Where there are very many, the first try of a batch is for it all the same."""
        count = len(at.footing.manifests)
        if count < FEW_MANIFESTS or batch.tries:
            return False
        newest = islice(at.table.ancestors(at.head.snapshot_id), RACE)
        hot = races([one.timestamp_ms for one in newest], self._now_ms())
        return not hot or count > MANY_MANIFESTS

    def _is_fresh(self, seen_ms: int) -> bool:
        """False after a pause in which files may have gone, or where the clock was set back."""
        return 0 <= self._now_ms() - seen_ms <= self._lives.send_ms

    def _take(
        self, batch: Batch, at: Pinned, swaps: tuple[PlannedSnapshot, ...], outcome: Outcome
    ) -> None:
        """What stays open is tried again at the next head."""
        tasks = tuple(dict.fromkeys(task_id for swap in swaps for task_id in swap.task_ids))
        match outcome:
            case Landed():
                batch.sent.update(dict.fromkeys(tasks, swaps))
                self._landed(batch, tasks)
            case Moved(detail, attempt):
                self._look_again(batch, detail, attempt)
            case Refused(_, detail, attempt) if self._moved(batch, at):
                # Java tried again by itself, on a head that nobody examined; or ours is there
                self._look_again(batch, detail, attempt)
            case Refused(reason, detail, attempt):
                if attempt is not None:
                    batch.attempts.append(attempt)
                for task_id in tasks:
                    self._refuse(batch, task_id, Conflict(reason, detail), at.head.snapshot_id)
            case Unknown(detail, attempt):
                batch.why = detail
                batch.doubtful += [attempt] if attempt is not None else []
                batch.sent.update(dict.fromkeys(tasks, swaps))
                self._unknown.update(tasks)
                self._log.warning("outcome_unknown", table=batch.table.dotted, why=detail)

    def _look_again(self, batch: Batch, why: str, attempt: Attempt | None) -> None:
        batch.why, batch.in_step = why, False
        self._log.info("head_moved", table=batch.table.dotted, why=why)
        if attempt is not None:
            batch.attempts.append(attempt)

    def _moved(self, batch: Batch, at: Pinned) -> bool:
        return self._tables.load(batch.table).head_id(batch.ref) != at.head.snapshot_id

    def _landed(self, batch: Batch, tasks: tuple[str, ...]) -> None:
        table = self._tables.load(batch.table)
        found = settled(table, [batch.open[task_id] for task_id in tasks])
        self._close(batch, table, {task_id: found.get(task_id, GONE) for task_id in tasks})

    def _committed(
        self, batch: Batch, task_id: str, table: LoadedTable, found: Settled, redelivered: bool
    ) -> None:
        result = batch.open.pop(task_id)
        self._unknown.discard(task_id)
        event = reports.committed(result, table, found, redelivered, self._now_ms())
        batch.events.append(event)
        metrics.count("rewrites_committed", classification=event.classification)
        if not redelivered:
            elapsed_ms = event.committed_at_ms - result.ordered_at_ms
            metrics.observe("order_to_commit_seconds", elapsed_ms / 1000)
        self._log.info(
            "committed",
            table=batch.table.dotted,
            task=task_id,
            snapshot=",".join(map(str, found.snapshot_ids)),
            redelivered=redelivered,
        )
        if not redelivered:  # else it may be another attempt's, whose outputs its list must name
            self._outputs.clear(table, result, found.lost)

    def _refuse(self, batch: Batch, task_id: str, conflict: Conflict, head: int | None) -> None:
        result = batch.open.pop(task_id)
        batch.events.append(reports.conflicted(result, conflict, head, self._now_ms()))
        metrics.count("rewrites_conflicted", reason=conflict.reason)
        self._log.warning(
            "conflicted",
            table=batch.table.dotted,
            task=task_id,
            reason=conflict.reason,
            detail=conflict.detail,
        )

    def _refuse_all(self, batch: Batch, conflict: Conflict, head: int | None) -> None:
        for task_id in list(batch.open):
            self._refuse(batch, task_id, conflict, head)

    def _refuse_worn(self, batch: Batch) -> None:
        """An unknown outcome of the last try is settled by one more look at the table. What is
        young enough is tried again: its work is done, and a busy hour passes.

        Raises RetryLater.
        """
        text = f"{batch.tries} tries came to nothing: {batch.why}"
        try:
            self._settle(batch, self._tables.load(batch.table))
        except TableGone as gone:
            self._refuse_all(batch, Conflict(ConflictReason.TABLE_GONE, str(gone)), None)
        except (MetadataFileGone, SnapshotGone):
            return  # the next try loads it again
        since_ms = self._now_ms() - PATIENCE_MS
        for task_id, result in list(batch.open.items()):
            if result.finished_at_ms <= since_ms:
                self._refuse(batch, task_id, Conflict(ConflictReason.PIN_LOST, text), None)
        self._log.warning("still_open", table=batch.table.dotted, why=text, n=len(batch.open))
        self._tidy(batch)
        batch.waits = 0
