"""The delete-apply rewrite: check, plan, write ahead, build delete sets, run groups, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from firnline_deletes.deletes import row_map
from firnline_deletes.deletes.row_map import Positions
from firnline_deletes.files.writer_properties import from_table
from firnline_deletes.unsupported_files import UnsupportedFile
from firnline_domain.base import values
from firnline_domain.commits.row_count_proof import find_flaw
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.v2_deletes import VECTORS
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.records.results import RewriteFinished, RewriteGroup
from firnline_domain.records.signing import Keyring
from firnline_domain.settings.parquet import readable_properties
from firnline_domain.settings.thresholds import resolve_thresholds
from firnline_iceberg.commit.hidden_history import KnownAncestries
from firnline_iceberg.outputs import conversion_progress as mark_files
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal import removal
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.storage.file_io import TableStorage
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import Locations
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from firnline_worker.delete_sets import send_to_executors
from firnline_worker.delete_sets.build import (
    Published,
    file_count,
    publish_sets,
    to_sequenced_files,
)
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.plan import conversion_progress as pass_marks
from firnline_worker.plan.columns import proving_ids, target_schema
from firnline_worker.plan.conversion_progress import PassMarks, marks_after
from firnline_worker.plan.dead_ratios import dead_rows_left
from firnline_worker.plan.live_files import LiveFilesCache
from firnline_worker.plan.planning import (
    Plan,
    plan,
    refuse_duplicates,
    refuse_unclear_paths,
    time_span_limit,
)
from firnline_worker.plan.slices import slice_limit, slice_of
from firnline_worker.plan.sort_plan import sort_plan, sort_wish
from firnline_worker.rewrite import outputs
from firnline_worker.rewrite import result as report
from firnline_worker.rewrite.eligibility import HANDED_OVER, unsupported_reasons
from firnline_worker.rewrite.iceberg_fallback import Handover, refusal_after
from firnline_worker.rewrite.outputs import TaskFiles
from firnline_worker.rewrite.preconditions import refuse_stale, yield_to_writers
from firnline_worker.rewrite.result import TaskClock, TaskContext
from firnline_worker.spark import executor_delete_sets
from firnline_worker.spark.executor_delete_sets import LiveSets, SetFile
from firnline_worker.spark.java_api import JavaTable, JavaTables
from firnline_worker.spark.stage import (
    GroupDone,
    GroupLacksFile,
    GroupOrder,
    GroupRefused,
    GroupResult,
    StageOrder,
)

Note = Callable[[int], None]
"""Called with the start snapshot as soon as it is known, so that no expiry removes it."""


class Stage(Protocol):
    """A place where groups run. `is_remote`: on hosts that do not see this one's disk. `tries`: how
    often a group may be begun."""

    is_remote: bool
    tries: int

    def run(self, name: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        """Run groups. Blocks until all have ended."""

    def remove_unused_sets(self, live: LiveSets) -> None:
        """Remove the sets that no task holds from other hosts. Does not block."""


class OutsideLocations(Exception):
    """The table's location provider would put an output where nothing of ours may be committed."""


@dataclass(frozen=True)
class Rewriter:
    """The rewrite of a partition, which turns a `RewriteFiles` into a `RewriteFinished`."""

    tables: Tables
    java: JavaTables
    cache: DeleteSetCache
    stage: Stage
    handover: Handover
    worker: str
    set_budget_bytes: int
    now_ms: Callable[[], int]
    snapshots: LiveFilesCache = field(default_factory=LiveFilesCache)
    lineages: KnownAncestries = field(default_factory=KnownAncestries)
    keys: Keyring = write_ahead_list.UNSIGNED

    def rewrite(self, order: RewriteFiles, note: Note) -> RewriteFinished:
        """Carry out a rewrite. Raises TaskRefused, RetryLater; any other exception is a failure of
        this attempt. The start snapshot is the head of the order's ref; outputs get its sequence
        number."""
        clock = TaskClock(self.now_ms())
        table = self.tables.load(order.table)
        self._refuse_conversion(table, order)
        head = table.head(order.ref)
        note(head.snapshot_id)
        files = partial(self.snapshots.get_or_read, table, head.snapshot_id)
        refuse_stale(table, order, files, self.lineages)
        yield_to_writers(table, order.ref, self.now_ms())
        live = files()
        refuse_duplicates(live)
        refuse_unclear_paths(live)
        known = pass_marks.read_marks(table, order, live)
        task = TaskContext(order, table, head, self.worker, clock)
        if order.action == Action.SORT:
            return self._sort(task, live)
        chosen = plan(
            live,
            order.scope,
            target_bytes(table),
            order.action,
            time_span_limit(table),
            order.min_dead_ratio,
            slice_limit(order, known, table.format_version > 1),
            table.format_version >= VECTORS,
        )
        clock.lap("plan")
        if not chosen.files_to_read:
            dead = dead_rows_left(live, order.scope, (), target_bytes(table))
            return report.native_result(task, (), (), None, self.now_ms(), None, dead)
        reason: str | None = next(unsupported_reasons(table, chosen), None)
        why = HANDED_OVER.get(reason or "", "")
        if reason is None:
            try:
                return self._rewrite_natively(task, chosen, live, known)
            except UnsupportedFile as refused:
                reason, why = refused.reason, refused.detail
            except OutsideLocations:
                reason = "outside_locations"
                why = HANDED_OVER[reason]
        clock.first_byte_ms = clock.first_byte_ms or self.now_ms()
        try:
            snapshot_id = self.handover.rewrite_data_files(order, table, reason)
        except (Py4JJavaError, CapturedException) as error:
            raise refusal_after(reason, why, error) from error
        return report.handed_over_result(task, reason, snapshot_id, self.now_ms())

    def _refuse_conversion(self, table: LoadedTable, order: RewriteFiles) -> None:
        """Raise TaskRefused if streaming readers were set since a conversion was ordered."""
        if order.action != Action.CONVERT:
            return
        if resolve_thresholds(settings_of(self.tables, table, order.policies)).streaming_readers:
            text = "they would stop at the snapshot (firnline.streaming-readers)"
            raise TaskRefused(Reason.STREAMING_READERS, text, retryable=True)

    def _sort(self, task: TaskContext, live: LiveFiles) -> RewriteFinished:
        """Sort, or return a result without groups if nothing is to be sorted: no file is, or they
        cannot be, and the result contains the reason. Iceberg's own action is not used: it would
        sort all. Raises TaskRefused instead if an operator requested the sort."""
        order, table = task.order, task.table
        settings = settings_of(self.tables, table, order.policies)
        wanted = sort_wish(settings)
        try:
            chosen, depth = sort_plan(table, live, order, wanted, target_bytes(table))
            if (reason := next(unsupported_reasons(table, chosen), None)) is not None:
                raise TaskRefused("sort_unsupported", reason)
            task.clock.seconds["overlap_depth"] = float(depth.most)
            task.clock.seconds["mean_overlap_depth"] = round(depth.mean, 2)
            task.clock.lap("plan")
            if chosen.groups:
                return self._rewrite_natively(task, chosen, live, pass_marks.NO_MARKS)
            why = None
        except (UnsupportedFile, OutsideLocations) as error:
            why = str(error) or "outside_locations"
        except TaskRefused as error:
            if error.retryable or order.reason == Reason.REQUESTED:
                raise
            why = error.reason
        if why is not None and order.reason == Reason.REQUESTED:
            raise TaskRefused("sort_unsupported", why)
        dead = dead_rows_left(live, order.scope, (), target_bytes(table))
        result = report.native_result(task, (), (), None, self.now_ms(), None, dead)
        return values.replace(result, handover_reason=why)

    def _rewrite_natively(
        self, task: TaskContext, chosen: Plan, live: LiveFiles, known: PassMarks
    ) -> RewriteFinished:
        """Rewrite the plan's files. Every output is on the write-ahead list before it can exist; if
        the attempt fails they are removed, because no result has named them."""
        order, table = task.order, task.table
        java = self.java.load(order.table)
        run = outputs.new_run(order)
        groups = _group_orders(chosen, java, run, task, self.stage.tries)
        files = outputs.files_of(run, table.metadata_location)
        paths = [path for group in groups for path in group.output_paths]
        of_sets = self._set_places(task, chosen, java, run)
        if not all(map(Locations.from_table(table).contains, [*paths, *of_sets])):
            raise OutsideLocations
        listed_paths = [*paths, *of_sets, files.row_map, files.marks]
        self._write_ahead(task, files.list, listed_paths)
        try:
            try:
                done = self._run_groups(task, chosen, groups, files.row_map, run, of_sets)
            except FileNotFoundError as gone:  # removed by somebody, or expired since
                raise TaskRefused("unreadable_file", str(gone), retryable=True) from gone
            ids = proving_ids(table, chosen.deletes)
            described = tuple(
                report.describe_group(java, order.scope, chosen, one, ids) for one in done
            )
            _refuse_unproved(described)
            slice_done = _result_slice(task, chosen, files, live, known, described)
        except BaseException:
            ended = not self.stage.is_remote  # an executor that is lost may go on for a while
            removal.remove_unpublished(table, run, listed_paths, files.list, ended)
            raise
        unused = set(paths) - {file.path for one in done for file in one.files}
        task.clock.lap("describe")
        task.clock.seconds["names_unused"] = float(len(unused))
        key_bytes = sum(one.tally.key_bytes for one in done)
        dead = dead_rows_left(live, order.scope, described, target_bytes(table))
        at_ms = self.now_ms()
        result = report.native_result(
            task, described, chosen.deletes, files, at_ms, slice_done, dead, key_bytes
        )
        if chosen.sort_keys:  # a delete of positions that came meanwhile is a conflict then
            result = values.replace(result, row_map=None)
        if any(one.tried and one.files for one in done):
            return values.replace(result, output_list=None)  # the sweep's: it names the lost tries'
        return result

    def _write_ahead(self, task: TaskContext, path: str, listed_paths: Sequence[str]) -> None:
        order = task.order
        listed = OutputList(
            task_id=order.task_id,
            attempt=order.attempt,
            table_key=order.table.key,
            worker=self.worker,
            written_at_ms=self.now_ms(),
            outputs=tuple(listed_paths),
            deadline_ms=self.now_ms() + order.run_ms,
            sends_noted=removal.shares_files(task.table),
        )
        write_ahead_list.write_list(task.table.io, path, listed, self.keys)

    def _set_places(
        self, task: TaskContext, chosen: Plan, java: JavaTable, run: TaskRun
    ) -> Sequence[str]:
        """Return paths for the delete sets of executors on other hosts."""
        if not self.stage.is_remote or not chosen.deletes:
            return ()
        count = file_count(task.table, chosen, self.set_budget_bytes)
        return java.locations(task.order.scope, [run.set_name(one) for one in range(count)])

    def _run_groups(
        self,
        task: TaskContext,
        chosen: Plan,
        groups: Sequence[GroupOrder],
        row_map_path: str,
        run: TaskRun,
        of_sets: Sequence[str],
    ) -> list[GroupDone]:
        task.clock.lap("prepare")
        task.clock.first_byte_ms = self.now_ms()
        with publish_sets(self.cache, task.table, chosen, self.set_budget_bytes) as sets:
            task.clock.lap("sets")
            with self._sets_for_executors(task.table, sets, run, of_sets) as files:
                stage = self._stage_order(task, chosen, sets, files)
                results = self.stage.run(task.order.task_id, stage, groups)
            task.clock.lap("stage")
            for one in results:
                if isinstance(one, GroupRefused):
                    raise UnsupportedFile(one.reason, one.detail)
                if isinstance(one, GroupLacksFile):
                    raise FileNotFoundError(one.detail)
            done = [one for one in results if isinstance(one, GroupDone)]
            if not chosen.sort_keys:  # rows that change places cannot be found again by it
                _write_row_map(task.table, row_map_path, done, sets.open_positions(chosen))
        if self.stage.is_remote and chosen.deletes:
            self.stage.remove_unused_sets(self.cache.live_sets())
        return sorted(done, key=lambda one: one.index)

    def _sets_for_executors(
        self, table: LoadedTable, sets: Published, run: TaskRun, of_sets: Sequence[str]
    ) -> AbstractContextManager[tuple[SetFile, ...]]:
        if self.stage.is_remote:
            return send_to_executors.send_sets(sets.paths, table, run, of_sets)
        return nullcontext(executor_delete_sets.local_files(sets.paths))

    def _stage_order(
        self, task: TaskContext, chosen: Plan, sets: Published, files: Sequence[SetFile]
    ) -> StageOrder:
        table = task.table
        target = target_schema(table, task.order.scope)
        equality = len(sets.set_paths)
        return StageOrder(
            storage=TableStorage.from_io(table.io, table.metadata.location),
            target=replace(target, proved=proving_ids(table, chosen.deletes)),
            properties=from_table(readable_properties(table.properties)),
            target_bytes=chosen.target_bytes,
            sets=tuple(files[:equality]),
            positions=files[equality] if sets.positions_path else None,
            together=sets.together,
            live=self.cache.live_sets() if self.stage.is_remote else None,
            tries=self.stage.tries,
        )


def target_bytes(table: LoadedTable) -> int:
    return target_bytes_of(table.properties)


def _group_orders(
    chosen: Plan, java: JavaTable, run: TaskRun, task: TaskContext, tries: int
) -> list[GroupOrder]:
    orders = []
    for index, group in enumerate(chosen.groups):
        names = outputs.name_count(group, chosen.target_bytes) * tries
        wanted = [run.output_name(index, number) for number in range(names)]
        paths = tuple(java.locations(task.order.scope, wanted))
        keys, along = chosen.sort_keys, chosen.along_curve
        orders.append(
            GroupOrder(index, to_sequenced_files(group), paths, sort_keys=keys, along_curve=along)
        )
    first = len(orders)
    orders += [
        GroupOrder(first + number, to_sequenced_files([file]), (), converts=True)
        for number, file in enumerate(chosen.converted)
    ]
    return orders


def _write_row_map(
    table: LoadedTable, path: str, done: Sequence[GroupDone], marked: Mapping[str, Positions]
) -> None:
    masked = {name: blob for one in done for name, blob in one.masked.items()}
    with table.io.new_output(path).create(overwrite=True) as sink:
        row_map.write_map(sink, masked, marked)


def _result_slice(
    task: TaskContext,
    chosen: Plan,
    files: TaskFiles,
    live: LiveFiles,
    known: PassMarks,
    groups: Sequence[RewriteGroup],
) -> Slice | None:
    """Return the slice for the next order, with its marks on storage."""
    order, start = task.order, task.head.sequence_number or 0
    done = slice_of(order, start, chosen.left)
    if done is None or order.action != Action.CONVERT:
        return done
    marks = marks_after(order, start, live, known, groups)
    stored = mark_files.write_marks(task.table.io, files.marks, marks)
    return slice_of(order, start, chosen.left, stored)


def _refuse_unproved(groups: Sequence[RewriteGroup]) -> None:
    """Raise TaskRefused unless the rows in are those of the manifests, and in - masked = out."""
    if found := find_flaw(groups):
        raise TaskRefused(found.reason, found.detail)
