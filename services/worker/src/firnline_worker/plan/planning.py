"""Plans a rewrite: which files it takes, and how they are cut into groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_deletes.files.sorting import SortKey
from firnline_domain.counters.state.file_sizes import ROOM, fills_target, group_count, output_count
from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.parts.tallies import (
    DEFAULT_TARGET_BYTES,
    FileTally,
    SizeClass,
    Tally,
    size_class,
)
from firnline_domain.records.results import DUPLICATE_FILES, DeleteKind
from firnline_domain.settings.thresholds import WORKERS
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles, PlannedFile
from firnline_iceberg.storage.paths import UnclearPath, is_clear
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_worker.plan.dead_ratios import dead_ratios
from firnline_worker.plan.slices import (
    ANY_SIZE,
    NOTHING_LEFT,
    Costed,
    Cut,
    RemainingWork,
    SliceLimit,
    cut_slice,
)

# Rows of a stream lie in the order of time. A file of rows of minutes is left out by its bounds
# where a reader asks for another hour; merged across days it is read by everybody.
MAX_SPAN = "firnline.rewrite.max-span-ms"  # table property; 0 = any


def by_age(file: DataFileEntry) -> tuple[int, str]:
    """Return the key that sorts data files, the oldest first."""
    return file.sequence_number, file.normal_path


@dataclass(frozen=True)
class TimeSpanLimit:
    """A limit on the age span of one file. `max_ms` from the oldest to the newest file of a run;
    `times`: of snapshots, in ms, by their sequence numbers, as far as they are retained."""

    max_ms: int = 0
    times: Mapping[int, int] = field(default_factory=dict)

    def split_runs(self, files: Sequence[DataFileEntry]) -> Iterator[list[DataFileEntry]]:
        """Yield neighbours by age, as far as they may be in one file. Files older than all
        retained snapshots are as old as the oldest of these."""
        oldest_ms = min(self.times.values(), default=0)
        run, since_ms = list[DataFileEntry](), oldest_ms
        for file in sorted(files, key=by_age):
            at_ms = self.times.get(file.sequence_number, oldest_ms)
            if run and 0 < self.max_ms < at_ms - since_ms:
                yield run
                run = []
            since_ms = since_ms if run else at_ms
            run.append(file)
        if run:
            yield run


def time_span_limit(table: LoadedTable) -> TimeSpanLimit:
    """Return the limit from the table's property `firnline.rewrite.max-span-ms`."""
    times = {snapshot.sequence_number or 0: snapshot.timestamp_ms for snapshot in table.snapshots}
    return TimeSpanLimit(property_ms(table, MAX_SPAN, 0), times)


Group = tuple[DataFileEntry, ...]
ANY_SPAN = TimeSpanLimit()
# Of a task: 5 TB in files of the default size. Each output has two names on the write-ahead list
# and a path in the result, of which the topic takes 16 MB.
MAX_OUTPUTS = 10_000
MAX_POSITION_FILES = 4  # of one data file; a reader opens each of them for it


@dataclass(frozen=True)
class Plan:
    """The plan of one task. No groups = nothing to do."""

    groups: tuple[Group, ...]
    deletes: tuple[DeleteFileEntry, ...]
    converted: tuple[DataFileEntry, ...] = ()
    target_bytes: int = DEFAULT_TARGET_BYTES  # that outputs are to have
    left: RemainingWork = NOTHING_LEFT
    sort_keys: tuple[SortKey, ...] = ()  # that rows of a group are sorted by; () = as they come
    along_curve: bool = False  # by all keys alike, in place of one after the other
    sort_order_id: int = 0  # of the table, that rows are in then; 0 = none of its own

    @property
    def inputs(self) -> tuple[DataFileEntry, ...]:
        return tuple(file for group in self.groups for file in group)

    @property
    def outputs(self) -> int:
        """Return how many files these become if no row is dead."""
        sizes = (sum(file.bytes for file in group) for group in self.groups)
        return sum(output_count(size, self.target_bytes) for size in sizes)

    @property
    def files_to_read(self) -> tuple[DataFileEntry, ...]:
        """Return all files of which rows are read."""
        return (*self.inputs, *self.converted)


NOTHING = Plan((), ())


def refuse_duplicates(live: LiveFiles) -> None:
    """Raise TaskRefused `duplicate_files`. It is checked for the whole table, because a global
    delete, and Iceberg's own action, apply to all of it."""
    if live.repeated_paths:
        paths = live.repeated_paths
        text = f"{min(paths)} is in the table more than once ({len(paths)} such)"
        raise TaskRefused(DUPLICATE_FILES, text)


def refuse_unclear_paths(live: LiveFiles) -> None:
    """Raise UnclearPath if a path has two readings: ours and Iceberg's own action could read
    different files."""
    for file in (*live.data, *live.deletes):
        if not is_clear(file.path):
            raise UnclearPath(file.path)


def plan(
    live: LiveFiles,
    scope: Scope,
    target_bytes: int,
    action: str = Action.COMPACT,
    limit: TimeSpanLimit = ANY_SPAN,
    min_dead_ratio: float = 0.0,
    slice_limit: SliceLimit = ANY_SIZE,
    vectors: bool = False,
) -> Plan:
    """Take all fragments of the scope if there are at least two, or if any delete applies to them,
    and each larger file of whose rows `min_dead_ratio` is dead (`dead_ratios`); where small files
    fill one of the target size, a MERGE or CONVERT takes the undersized ones as well (`levels`).
    Apply every delete that applies to any of them. Of the other larger files

    - a CONVERT leaves them where they are: their equality deletes, or more than
      `MAX_POSITION_FILES` files of position deletes, become one file of positions, or a vector;
      in a table of `vectors`, from v3 on, any file of position deletes does,
    - a COMPACT or MERGE does nothing: their deletes stay,
    - a FULL takes all.

    Files whose ages `limit` keeps apart are not merged with each other. Of all that, as much as
    `slice_limit` allows.

    Where the inputs are all live data files of the snapshot there are at least two groups if
    there are two inputs: the committer can then commit them as two rewrites in one transaction,
    the first of which leaves an old file alive (Iceberg #10312).
    """
    whole = live.files_of_scope(scope)
    ratios = dead_ratios(whole, live)
    files = [f for f in whole if slice_limit.is_of_pass(f.data)]
    merged = _files_to_merge([f.data for f in files], target_bytes, action, limit)

    def is_dead_enough(file: PlannedFile) -> bool:
        ratio = ratios.get(file.data.normal_path)
        fragment = size_class(file.data.bytes, target_bytes) is SizeClass.FRAGMENT
        return ratio is not None and (fragment or ratio >= min_dead_ratio)

    every = action == Action.FULL
    chosen = {
        f.data.normal_path
        for f in files
        if every or f.data.normal_path in merged or is_dead_enough(f)
    }
    left = [f for f in files if f.data.normal_path not in chosen]
    kept = _files_to_convert(left, live, vectors) if action == Action.CONVERT else {}
    if action == Action.CONVERT:
        chosen |= {
            f.data.normal_path
            for f in left
            if _equality_deletes(f) and f.data.normal_path not in kept
        }
    rewritten = [f for f in files if f.data.normal_path in chosen]
    kept = {path: kept[path] for path in kept if path not in slice_limit.answered}
    cut = _slice_of(files, rewritten, kept, target_bytes, limit, slice_limit, every)
    rewritten = [f for f in rewritten if f.data.normal_path in cut.taken]
    kept = {path: deletes for path, deletes in kept.items() if path in cut.taken}
    applied = [delete for file in rewritten for delete in file.deletes]
    applied += [delete for deletes in kept.values() for delete in deletes]
    deletes = tuple({delete.key: delete for delete in applied}.values())
    inputs = [f.data for f in rewritten]
    goal = effective_target_bytes(target_bytes, inputs)
    groups = _split_groups(inputs, goal, len(inputs) == len(live.data), limit)
    if not every and not deletes and len(groups) >= len(inputs):
        groups = ()  # a merge that would not lessen the files changes nothing
    if not groups and not kept:
        return NOTHING
    converted = tuple(f.data for f in files if f.data.normal_path in kept)
    return Plan(groups, deletes, converted, goal, cut.left)


def effective_target_bytes(target_bytes: int, inputs: Sequence[DataFileEntry]) -> int:
    """Return the size that outputs are to have: the table's, or more if these would be too many."""
    return max(target_bytes, -(-sum(file.bytes for file in inputs) // MAX_OUTPUTS))


def _split_groups(
    inputs: Sequence[DataFileEntry], target_bytes: int, whole: bool, limit: TimeSpanLimit
) -> tuple[Group, ...]:
    runs = list(limit.split_runs(inputs))
    least = 2 if whole and len(runs) == 1 else 1
    return tuple(group for run in runs for group in split_evenly(run, target_bytes, least))


def _files_to_convert(
    files: Sequence[PlannedFile], live: LiveFiles, vectors: bool
) -> dict[str, tuple[DeleteFileEntry, ...]]:
    """Return files that are converted, with their equality deletes. A global delete that also
    reaches other scopes would stay, and have to be applied again each time: such files are
    rewritten."""
    alone = len(live.scopes) == 1
    found = dict[str, tuple[DeleteFileEntry, ...]]()
    for file in files:
        deletes = _equality_deletes(file)
        positions = [d for d in file.deletes if d.kind is DeleteKind.POSITION]
        if not alone and any(delete.is_global for delete in deletes):
            continue
        if deletes or len(positions) > (0 if vectors else MAX_POSITION_FILES):
            found[file.data.normal_path] = deletes
    return found


def _equality_deletes(file: PlannedFile) -> tuple[DeleteFileEntry, ...]:
    return tuple(delete for delete in file.deletes if delete.kind is DeleteKind.EQUALITY)


def _files_to_merge(
    files: Sequence[DataFileEntry], target_bytes: int, action: str, limit: TimeSpanLimit
) -> set[str]:
    fragments, undersized = (
        [file for file in files if size_class(file.bytes, target_bytes) is one]
        for one in (SizeClass.FRAGMENT, SizeClass.UNDERSIZED)
    )
    holds = FileTally(fragments=_tally_files(fragments), undersized=_tally_files(undersized))
    by_level = action != Action.COMPACT and fills_target(holds, target_bytes)
    taken = fragments + undersized if by_level else fragments
    return {file.normal_path for run in limit.split_runs(taken) if len(run) > 1 for file in run}


def _slice_of(
    files: Sequence[PlannedFile],
    chosen: Sequence[PlannedFile],
    kept: Mapping[str, object],
    target_bytes: int,
    limit: TimeSpanLimit,
    slice_limit: SliceLimit,
    every: bool,
) -> Cut:
    """Cut one slice. Files with deletes come first; the rest is only to be merged, and none of it
    alone. In a full rewrite all files count as those with deletes."""
    with_deletes = [Costed(f.data, f.data.bytes) for f in chosen if f.deletes or every]
    with_deletes += [
        Costed(f.data, int(f.data.bytes * KEY_SHARE), f.data.normal_path in slice_limit.void)
        for f in files
        if f.data.normal_path in kept
    ]
    runs = limit.split_runs([f.data for f in chosen if not (f.deletes or every)])
    by_need = sorted(with_deletes, key=lambda one: (one.again, by_age(one.file)))
    return cut_slice(by_need, runs, ROOM * target_bytes, slice_limit)


def _tally_files(files: Sequence[DataFileEntry]) -> Tally:
    return Tally(len(files), 0, sum(file.bytes for file in files))


def split_evenly(
    inputs: Sequence[DataFileEntry], target_bytes: int, least: int
) -> tuple[Group, ...]:
    """Group files that are sorted by age: neighbours go together, with equal bytes in each group;
    at least `least` groups, as far as there are files for them."""
    total = sum(file.bytes for file in inputs)
    wanted = group_count(total, target_bytes, least)
    groups: list[list[DataFileEntry]] = []
    before = 0
    for index, file in enumerate(inputs):
        due = before * wanted >= len(groups) * total  # the next even share begins here
        left = len(inputs) - index  # and no later group may be left without a file
        if len(groups) < wanted and (due or left <= wanted - len(groups)):
            groups.append([])
        groups[-1].append(file)
        before += file.bytes
    return tuple(tuple(group) for group in groups)


def property_ms(table: LoadedTable, name: str, default: int) -> int:
    """Return a property of `property.WORKERS`; a text that cannot be read counts as unset."""
    found = WORKERS[name].parse(table.properties.get(name, ""))
    return default if found is None else int(found)
