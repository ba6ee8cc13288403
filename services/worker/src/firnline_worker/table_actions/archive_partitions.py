"""Moves files whose rows are all older than the owner wants in the table to its archive: another
table, at another place. Or only counts them, to be announced.

Every step is decided by what table and archive say at that moment
(`firnline_domain.commits.archive_rounds`), and no step by what this process remembers: a worker
that comes after a killed one ends its round.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from firnline_domain.base.times import HOUR_MS, MINUTE_MS
from firnline_domain.base.values import Value
from firnline_domain.commits.archive_rounds import (
    Archive,
    Copy,
    GiveUp,
    NeedsOperator,
    Remove,
    Settled,
    SourceFile,
    Step,
    Withdraw,
    next_step,
)
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.aged_partitions import AgeReason, PartitionArchiving
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.archive_marks import FILES, GIVEN_UP, ROUND, SEAL, SETTLED
from firnline_domain.records.results import TableResult, table_result
from firnline_domain.records.signing import Keyring
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.archive.archive_table import archive_mark as source_of_archive
from firnline_iceberg.archive.archive_table import (
    archive_name,
    create_archive,
    find_archive,
    refuse_unfit,
    seal_archive,
    set_properties,
    spec_map,
    sync_archive,
)
from firnline_iceberg.archive.file_copies import copy_data_file, copy_json
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.commit.retries import CommitLost, commit_with_retries
from firnline_iceberg.commit.rewrite import CommitRejected as CommitRefused
from firnline_iceberg.commit.rewrite import Committed, CommitUnknown, Outcome, Rewrite
from firnline_iceberg.java.api import removal_json
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.scan.parquet_footers import Footers
from firnline_iceberg.scan.row_age import FileAges, time_column
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.shared_locations import refuse_shared

from firnline_worker.rewrite.preconditions import (
    in_grace_period,
    ordered_grace_ms,
    yield_to_writers,
)
from firnline_worker.table_actions.archive_state import AreOld, Held, archive_of, source_of
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out

MAX_FILES = 1_000  # of a round
MAX_BYTES = 16 << 30  # of a round: what a killed one has copied in vain
MAX_MS = 30 * MINUTE_MS  # then no other round is begun: an order is lost after an hour
COPIES_AT_ONCE = 4
MAX_KEPT = 30_000  # entries of manifests between two looks, with all bounds: 100 MB


@dataclass(frozen=True)
class Look:
    """Both tables at one moment; the table was loaded first."""

    table: LoadedTable
    head: int
    archive: LoadedTable | None
    held: Held
    state: Archive
    copies: Mapping[str, DataFileEntry]  # by key


@dataclass
class Archiver:
    """Carries out archive orders. The settings of table and namespace are read again at every
    step."""

    tables: Tables
    commits: TableCommits
    worker: str
    now_ms: Callable[[], int]
    keys: Keyring = write_ahead_list.UNSIGNED
    ask: Ask = ask_clocks

    def archive(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""
        run = _Running(self, order, FileCache(MAX_KEPT))
        if order.numbers.get("announces"):
            return run.build_result(run.preview_numbers())
        return run.build_result(run.archive_all())


@carries_out(PartitionArchiving.name)
def build_archiver(tools: ActionTools) -> CarryOut:
    return Archiver(tools.tables, tools.commits, tools.worker, tools.now_ms, tools.keys).archive


class _Running:
    """The run of one order. Manifests are read once: they do not change."""

    def __init__(self, of: Archiver, order: TableOrder, cache: FileCache) -> None:
        self.of, self.order, self.cache = of, order, cache
        self.footers = Footers()
        self.begun_ms = of.now_ms()
        self.done = dict.fromkeys(("files", "rows", "bytes", "rounds", "rounds_given_up"), 0.0)

    def build_result(self, numbers: Mapping[str, float]) -> TableResult:
        order, of = self.order, self.of
        found = {name: number for name, number in numbers.items() if number}
        return table_result(order, of.worker, of.now_ms(), found)

    def preview_numbers(self) -> dict[str, float]:
        """Return the numbers of what the order would archive, for the announcement."""
        look = self.read_state()
        files = [one for one in look.held.source.old if not one.has_deletes]
        return {
            "going_files": float(len(files)),
            "going_rows": float(sum(one.records for one in files)),
            "going_bytes": float(sum(one.bytes for one in files)),
            "going_partitions": float(len({one.scope for one in files})),
            "archive_h": archive_h(
                self.order, self.check_limits(look.table, self.now_ms(look.table))
            ),
        }

    def archive_all(self) -> dict[str, float]:
        """Take steps until nothing is left to archive, or time is up, and return the figures of the
        result. Leftovers of earlier runs are removed first."""
        self._sweep_archive()
        while not (figures := commit_with_retries(self._advance)):
            pass
        return figures

    def _advance(self) -> dict[str, float] | CommitLost:
        """Take one step; return the figures if it was the last one."""
        try:
            look = self.read_state()
            self._note_settled(look)
            step = next_step(look.held.source, look.state, MAX_FILES, MAX_BYTES)
            if isinstance(step, Settled):
                return self._final_numbers(step)
            if isinstance(step, Copy) and self.of.now_ms() > self.begun_ms + MAX_MS:
                return self._final_numbers(Settled())
            outcome = self._carry_out(look, step)
        except MetadataFileGone as error:  # expired meanwhile
            return CommitLost(str(error))
        if isinstance(outcome, CommitRefused):
            raise TaskRefused(outcome.reason, outcome.detail)
        return {} if isinstance(outcome, Committed) else CommitLost(getattr(outcome, "detail", ""))

    def _final_numbers(self, settled: Settled) -> dict[str, float]:
        archived = {f"{name}_archived": self.done[name] for name in ("files", "rows", "bytes")}
        return {
            **archived,
            "rounds": self.done["rounds"],
            "rounds_given_up": self.done["rounds_given_up"],
            "files_with_deletes": float(settled.with_deletes),
            "files_held_back": float(settled.held_back),
        }

    def read_state(self) -> Look:
        """Read the table, then the archive: what the archive received since is still in the
        table."""
        of, order = self.of, self.order
        table = replace(of.tables.load(order.table), cache=self.cache)
        now_ms = self.now_ms(table)
        limits = self.check_limits(table, now_ms)
        head = table.head(MAIN).snapshot_id
        archive = find_archive(of.tables, table, limits.archive_table, of.keys)
        archive = archive and replace(archive, cache=self.cache)
        state, copies = archive_of(table, archive)
        mine = {key for key, one in state.copies.items() if one.round == state.round}
        are_old = old_by(table, limits, order, now_ms, self.footers)
        held = source_of(table, head, are_old, mine)
        return Look(table, head, archive, held, state, copies)

    def _note_settled(self, look: Look) -> None:
        """Note a round in the archive, to which the table's writers may have no rights: at any
        value that they set the table's own marks to, a round that was removed from the table is
        never withdrawn."""
        archive, name = look.archive, look.state.round
        is_new = look.held.source.round == name != look.state.settled
        if archive is not None and is_new:
            set_properties(self.of.tables, archive, **{SETTLED: name})

    def now_ms(self, table: LoadedTable) -> int:
        """Return the time by several clocks. Raises TaskRefused `clocks_differ`,
        StorageUnreachable."""
        return table_now(table, self.of.now_ms, self.order.ordered_at_ms, self.of.ask)

    def check_limits(self, table: LoadedTable, now_ms: int) -> Thresholds:
        """Return the limits by the owner's current settings. Raises TaskRefused if these forbid the
        order."""
        limits = limits_of(self.of.tables, table, self.order)
        if refused := refusal(self.order, limits, now_ms):
            raise TaskRefused(*refused)
        return limits

    def _carry_out(self, look: Look, step: Step) -> Outcome:
        """Carry out one step. Raises TaskRefused, RetryLater, MetadataFileGone."""
        match step:
            case NeedsOperator(reason=reason, detail=detail):
                raise TaskRefused(reason, detail)
            case Copy(files=files):
                return self._copy_files(look, files)
            case Remove(files=files, round=name):
                return self._remove_files(look, files, name)
            case GiveUp(round=name):
                yield_to_writers(look.table, MAIN, self.of.now_ms())
                self.done["rounds_given_up"] += 1
                return self._commit(look.table, properties={GIVEN_UP: name}, appends=True)
            case Withdraw():
                return self._withdraw(look, step)
        raise AssertionError(step)

    def _copy_files(self, look: Look, files: Sequence[SourceFile]) -> Outcome:
        """Copy files into the archive. Every copy is on a write-ahead list of the archive before it
        can exist, is written, read back and compared. Then one commit adds all of them."""
        of, order = self.of, self.order
        yield_to_writers(look.table, MAIN, of.now_ms())
        archive = self._open_archive(look, files)
        specs = spec_map(look.table, archive)
        run = TaskRun(archive.identity.key, order.task_id, order.attempt, uuid.uuid4().hex[:8])
        entries = [look.held.entries[one.key] for one in files]
        names = (run.copy_name(at, files[at].key, one.format) for at, one in enumerate(entries))
        paths = [f"{archive.metadata.location.rstrip('/')}/data/{name}" for name in names]
        listed = self._write_ahead(archive, run, paths)
        try:
            _copy_all(look.table, entries, archive, paths)
            added = tuple(
                copy_json(entry, path, specs[entry.spec_id], self._field_count(look.table, entry))
                for entry, path in zip(entries, paths, strict=True)
            )
        except BaseException:
            removal.remove_unpublished(archive, run, paths, listed)
            raise
        marks = {ROUND: run.stem, FILES: str(len(files))}
        outcome = self._commit(archive, added=added, properties=marks, appends=True)
        if not isinstance(
            outcome, CommitUnknown
        ):  # of which the sweep finds out, when it is certain
            now = of.tables.for_table(archive.identity).load(archive.identity)
            since = archive.last_sequence_number
            removal.remove_uncommitted(now, order.task_id, paths, listed, since)
        return outcome

    def _open_archive(self, look: Look, files: Sequence[SourceFile]) -> LoadedTable:
        of, limits = self.of, self.check_limits(look.table, self.now_ms(look.table))
        archive = look.archive
        if archive is None:
            asked = limits.archive_table, limits.archive_location
            archive = create_archive(of.tables, look.table, *asked, of.keys, of.now_ms())
        archive = sync_archive(of.tables, look.table, archive, {one.scope.spec_id for one in files})
        if archive.head_id(MAIN) is None:
            of.commits.for_table(archive.identity).begin(archive.identity)
            archive = of.tables.for_table(archive.identity).load(archive.identity)
        return archive

    def _write_ahead(self, archive: LoadedTable, run: TaskRun, paths: Sequence[str]) -> str:
        of, order = self.of, self.order
        place = f"{folder_of(archive.metadata_location)}/{run.list_name}"
        listed = OutputList(
            task_id=order.task_id,
            attempt=order.attempt,
            table_key=archive.identity.key,
            worker=of.worker,
            written_at_ms=of.now_ms(),
            outputs=tuple(paths),
            deadline_ms=order.deadline_ms,
            sends_noted=removal.shares_files(archive),
        )
        write_ahead_list.write_list(archive.io, place, listed, of.keys)
        return place

    def _remove_files(self, look: Look, files: Sequence[SourceFile], name: str) -> Outcome:
        """Remove archived files from the table. The head that the commit is pinned to names their
        entries."""
        yield_to_writers(look.table, MAIN, self.of.now_ms())
        entries = [look.held.entries[one.key] for one in files]
        removed = tuple(removal_json(one, self._field_count(look.table, one)) for one in entries)
        outcome = self._commit(
            look.table, removed=removed, properties={ROUND: name}, drops=True, notes={ROUND: name}
        )
        if isinstance(outcome, Committed):
            self.done["rounds"] += 1
            self.done["files"] += len(files)
            self.done["rows"] += sum(one.records for one in files)
            self.done["bytes"] += sum(one.bytes for one in files)
        return outcome

    def _withdraw(self, look: Look, step: Withdraw) -> Outcome:
        archive = look.archive
        assert archive is not None
        entries = [look.copies[one.key] for one in step.copies]
        removed = tuple(removal_json(one, self._field_count(archive, one)) for one in entries)
        return self._commit(archive, removed=removed, properties={ROUND: step.round}, drops=True)

    def _commit(self, table: LoadedTable, **what: Any) -> Outcome:
        """Commit onto the head that the table was loaded with."""
        head = table.head(MAIN).snapshot_id
        number = table.last_sequence_number
        given = {"removed": (), "added": (), **what}
        rewrite = Rewrite((self.order.task_id,), number, head, **given)
        commits = self.of.commits.for_table(table.identity)
        return commits.commit(table.identity, MAIN, head, (rewrite,), merges=False)

    @staticmethod
    def _field_count(table: LoadedTable, entry: DataFileEntry) -> int:
        return len(table.spec(entry.spec_id).fields)

    def _sweep_archive(self) -> None:
        """Sweep leftovers of killed rounds from the archive, once they are old enough. Raises
        RetryLater."""
        of, table = self.of, self.of.tables.load(self.order.table)
        limits = self.check_limits(table, self.now_ms(table))
        refuse_shared(of.tables, table)
        archive = find_archive(of.tables, table, limits.archive_table, of.keys)
        if archive is not None:
            refuse_shared(of.tables, archive)
            self._seal_again(table, archive)
            sweeper = OutputSweeper(of.tables, of.now_ms, Lifetimes().sweep_ms, keys=of.keys)
            sweeper.sweep(archive.identity)

    def _seal_again(self, table: LoadedTable, archive: LoadedTable) -> None:
        """Renew the archive's seal with the newest key: the key of the old seal is removed some
        day."""
        of, source = self.of, source_of_archive(table.identity)
        where = archive.identity.uuid, archive.metadata.location
        sealed = seal_archive(*where, source, of.keys, of.now_ms())
        if sealed.partition(" ")[0] != archive.properties.get(SEAL, "").partition(" ")[0]:
            set_properties(of.tables, archive, **{SEAL: sealed})


class ArchivePreview(Value):
    """Files that would be archived now. `state`: of the archive, in words."""

    files: tuple[SourceFile, ...]
    waiting: int  # files that deletes reach
    archive: str
    state: str


def preview_archiving(
    tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int
) -> ArchivePreview | str:
    """Return what would be archived, or why nothing would be. Raises TaskRefused, RetryLater,
    MetadataFileGone."""
    limits = limits_of(tables, table, order)
    if why := refusal(order, limits, now_ms):
        return ": ".join(why)
    refuse_unfit(table)
    archive = find_archive(tables, table, limits.archive_table)
    state, _ = archive_of(table, archive)
    are_old = old_by(table, limits, order, now_ms, Footers())
    source = source_of(table, table.head(MAIN).snapshot_id, are_old).source
    step = next_step(source, state, MAX_FILES, MAX_BYTES)
    if isinstance(step, NeedsOperator):
        return f"{step.reason}: {step.detail}"
    clean = [one for one in source.old if not one.has_deletes]
    going = tuple(one for one in clean if one.scope not in state.foreign)
    at = "which would be made"
    if archive is not None:
        unsettled = ", where a round has not come to its end" * (state.round != source.round)
        at = f"at {archive.metadata.location}{unsettled}"
    elif limits.archive_location:
        at += f" at {limits.archive_location}"
    name = ".".join(archive_name(order.table, limits.archive_table))
    return ArchivePreview(going, len(source.old) - len(clean), name, at)


def _copy_all(
    table: LoadedTable,
    entries: Sequence[DataFileEntry],
    archive: LoadedTable,
    paths: Sequence[str],
) -> None:
    """Copy files in parallel. Raises what the first copy that fails raises, once no other is at
    work."""
    with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        pairs = zip(entries, paths, strict=True)
        made = [pool.submit(copy_data_file, table.io, one, archive.io, path) for one, path in pairs]
        try:
            for one in made:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def limits_of(tables: Tables, table: LoadedTable, order: TableOrder) -> Thresholds:
    """Return the limits by the owner's current settings; the deployment's are in the order."""
    settings = settings_of(tables, table, order.policies)
    return resolve_thresholds(settings, ordered_defaults(order))


def ordered_defaults(order: TableOrder) -> Thresholds:
    """Return the task's own thresholds, which hold if table and namespace set none."""
    return Thresholds(
        archive_after_h=order.numbers["archive_h"], partition_grace_ms=ordered_grace_ms(order)
    )


def old_by(
    table: LoadedTable, limits: Thresholds, order: TableOrder, now_ms: int, footers: Footers
) -> AreOld:
    """Return a function that finds old files. `footers`: what is known of them. Raises TaskRefused
    if the time of rows is unknown."""
    ages = FileAges(table, time_column(table, limits.partition_column.strip()), footers)
    before_ms = now_ms - int(archive_h(order, limits) * HOUR_MS)
    return partial(ages.decide_ages, before_ms=before_ms)


def archive_h(order: TableOrder, limits: Thresholds) -> float:
    """Return the longer one of the ordered age and the current setting."""
    return max(order.numbers["archive_h"], limits.archive_after_h)


def refusal(order: TableOrder, limits: Thresholds, now_ms: int) -> tuple[str, str] | None:
    """Return why nothing may be archived, by the current settings."""
    if not limits.enabled:
        return "disabled", "firnline.enabled=false"
    if limits.archive_after_h <= 0:
        text = "firnline.archive.after-hours is not set: it says at which age rows are archived"
        return "no_archive_age", text
    return in_grace_period(order, limits.partition_grace_ms, AgeReason.ARCHIVE_GRACE, now_ms)
