"""The plan of a commit: one snapshot per data sequence number (shared-number hazard, H6), safe from
Iceberg issue 10312.

Iceberg 1.12 (`MergingSnapshotProducer.apply`), with every commit that removes a file, drops the
delete files whose number is below that of every data file that *remains*. Files that the commit
adds do not count there, though their sequence number may be older: a delete that they still need
is dropped, and deleted rows come back (iceberg-rules 1.4 a). So each snapshot is simulated before
it is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from firnline_domain.base.values import Value, replace
from firnline_domain.commits.conflicts import Conflict, replaced_files
from firnline_domain.commits.pinned_head import Head, LiveDelete, applies_to, reaches_scope
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import DeleteKind, InputFile, RewriteFinished, RewriteGroup


class AddedDelete(Value):
    """A delete file to commit. `sequence_number` None: the new snapshot's own."""

    content_file_json: str
    sequence_number: int | None = None


class Repair(Value):
    """Position deletes and vectors about a result's inputs, written anew for its outputs
    (repair-start hazard, H4; unpaired-repair hazard, H5).

    `removed`: the head's delete files that named inputs; `added`: those of the outputs, and what
    the removed ones said of other files. `touched`: numbers of the groups that it is about, which
    may be committed only together with it. `files`: paths that were written for it, the write-ahead
    list last. `since`: last sequence number of the table that it was made for."""

    task_id: str
    since: int
    touched: frozenset[int]
    removed: tuple[LiveDelete, ...]
    added: tuple[AddedDelete, ...]
    rows: int
    files: tuple[str, ...]


class Conversion(Value):
    """Delete files that say of a result's converted files what equality deletes said.

    `removed`: the head's vectors and position deletes of one of these files alone, whose positions
    are in `added`, too. `files` and `since` as of a `Repair`.
    """

    task_id: str
    since: int
    removed: tuple[LiveDelete, ...]
    added: tuple[AddedDelete, ...]
    files: tuple[str, ...]


class Leftover(Value):
    """Rest of a repair or a conversion that could not be made whole. Fields as of a `Repair`."""

    task_id: str
    since: int
    files: tuple[str, ...]


Written = Repair | Conversion | Leftover
"""Delete files that were written for a commit, which has to be cleared up after."""


class PlannedGroup(Value):
    """One group of one result, where it lies."""

    task_id: str
    scope: Scope
    group: RewriteGroup
    touched: bool = False  # needs the repair in the same snapshot


class PlannedSnapshot(Value):
    """One snapshot of the commit: all its outputs get the data sequence number `sequence_number`.

    `is_conversion`: it replaces no data file. From now on its inputs count as files of that number:
    no equality delete up to it applies to them any more. It is committed as a `RowDelta`, which
    another engine's rewrite that has begun already looks at, as it does not at a rewrite
    (convert-as-replace hazard, H3)."""

    sequence_number: int
    parts: tuple[PlannedGroup, ...]
    removed_deletes: tuple[LiveDelete, ...] = ()
    added_deletes: tuple[AddedDelete, ...] = ()

    @property
    def is_conversion(self) -> bool:
        """Return True if all of its parts convert; all do, or none (`_by_sequence_number`)."""
        return any(part.group.converts for part in self.parts)

    @property
    def needs_repair(self) -> bool:
        """Return True if a group of it was touched by later position deletes or vectors."""
        return any(part.touched for part in self.parts)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Tasks that it serves, in order."""
        return tuple(dict.fromkeys(part.task_id for part in self.parts))

    @property
    def output_scopes(self) -> frozenset[Scope]:
        """Scopes that get an output, or keep what is converted."""
        kept = (part.scope for part in self.parts if part.group.outputs or self.is_conversion)
        return frozenset(kept)

    @property
    def input_paths(self) -> frozenset[str]:
        """Normal paths that it replaces, or converts."""
        files = (file for part in self.parts for file in part.group.inputs)
        return frozenset(normal_path(file.path) for file in files)

    def still_needs(self, delete: LiveDelete) -> bool:
        """Return True if an output of this rewrite comes under an equality delete."""
        return any(applies_to(delete, scope, self.sequence_number) for scope in self.output_scopes)


class CommitPlan(Value):
    """The snapshots of one commit, in order, and the results that have no safe form."""

    snapshots: tuple[PlannedSnapshot, ...]
    refused: dict[str, Conflict]


NO_REPAIRS: Mapping[str, Repair] = {}
NO_CONVERSIONS: Mapping[str, Conversion] = {}
NO_MARKS: Mapping[str, int] = {}


def plan_commit(
    results: Sequence[RewriteFinished],
    head: Head,
    repairs: Mapping[str, Repair] = NO_REPAIRS,
    conversions: Mapping[str, Conversion] = NO_CONVERSIONS,
    answered: Mapping[str, int] = NO_MARKS,
) -> CommitPlan:
    """Plan snapshots of `results`, each of which `judge` has passed on `head`, no two
    sharing an input. `repairs` and `conversions`: by task id, of the former no two of one scope.
    Conversions come last, for what they free equality deletes of may need to be rewritten first.
    `answered`: by normal path of files that earlier slices have converted
    (`conversion_progress.answered`).

    Only the first snapshot, with the lowest sequence number, is exposed: its outputs protect the
    later ones. So where no form is safe, its results are refused and the rest is tried again."""
    refused: dict[str, Conflict] = {}
    left = list(results)
    while left:
        snapshots = _by_sequence_number(left, repairs, converts=False) + _by_sequence_number(
            left, {}, converts=True
        )
        last = (
            *snapshots[:-1],
            replace(snapshots[-1], removed_deletes=spent_deletes(left, head, answered)),
        )
        if safe := next(
            (form for form in alternative_plans(last) if not lost_deletes(form, head)), None
        ):
            whole = _attach_conversions(_attach_repairs(safe, repairs), conversions)
            return CommitPlan(_without_dropped(whole, head), refused)
        lost = lost_deletes(last, head)
        number = snapshots[0].sequence_number
        text = f"drops {lost[0].path} ({lost[0].sequence_number}) below sequence number {number}"
        for task_id in snapshots[0].task_ids:
            refused[task_id] = Conflict(ConflictReason.HAZARD_10312, text)
        left = [result for result in left if result.task_id not in refused]
    return CommitPlan((), refused)


def _by_sequence_number(
    results: Iterable[RewriteFinished], repairs: Mapping[str, Repair], converts: bool
) -> tuple[PlannedSnapshot, ...]:
    parts: dict[int, list[PlannedGroup]] = defaultdict(list)
    for result in results:
        repair = repairs.get(result.task_id)
        touched = repair.touched if repair is not None else frozenset[int]()
        parts[result.start_sequence_number] += (
            PlannedGroup(result.task_id, result.scope, group, number in touched)
            for number, group in enumerate(result.groups)
            if group.converts is converts
        )
    output_numbers = sorted(number for number in parts if parts[number])
    return tuple(PlannedSnapshot(number, tuple(parts[number])) for number in output_numbers)


def plan_single(result: RewriteFinished) -> tuple[PlannedSnapshot, ...]:
    """Plan a result by itself: its replaced files in one rewrite, the converted ones in another."""
    return _by_sequence_number([result], {}, converts=False) + _by_sequence_number(
        [result], {}, converts=True
    )


def _attach_repairs(
    snapshots: tuple[PlannedSnapshot, ...], repairs: Mapping[str, Repair]
) -> tuple[PlannedSnapshot, ...]:
    """Attach each repair to the one rewrite that holds its touched groups; what a repair takes out
    is not taken out a second time."""
    own = {delete.normal_path for repair in repairs.values() for delete in repair.removed}
    return tuple(_with_repairs(snapshot, own, repairs) for snapshot in snapshots)


def _with_repairs(
    snapshot: PlannedSnapshot, own: set[str], repairs: Mapping[str, Repair]
) -> PlannedSnapshot:
    tasks = dict.fromkeys(part.task_id for part in snapshot.parts if part.touched)
    mine = [repairs[task] for task in tasks]
    spent = (delete for delete in snapshot.removed_deletes if delete.normal_path not in own)
    return replace(
        snapshot,
        removed_deletes=(*spent, *(delete for repair in mine for delete in repair.removed)),
        added_deletes=tuple(delete for repair in mine for delete in repair.added),
    )


def _attach_conversions(
    snapshots: tuple[PlannedSnapshot, ...], conversions: Mapping[str, Conversion]
) -> tuple[PlannedSnapshot, ...]:
    """Attach each conversion's delete files, which are about no other rewrite's files."""
    return tuple(
        _with_conversions(snapshot, conversions) if snapshot.is_conversion else snapshot
        for snapshot in snapshots
    )


def _with_conversions(
    snapshot: PlannedSnapshot, conversions: Mapping[str, Conversion]
) -> PlannedSnapshot:
    mine = [conversions[task] for task in snapshot.task_ids]
    removed = [delete for conversion in mine for delete in conversion.removed]
    own = {delete.normal_path for delete in removed if delete.kind is DeleteKind.POSITION}
    spent = (delete for delete in snapshot.removed_deletes if delete.normal_path not in own)
    return replace(
        snapshot,
        removed_deletes=(*spent, *removed),
        added_deletes=tuple(delete for conversion in mine for delete in conversion.added),
    )


def alternative_plans(
    snapshots: tuple[PlannedSnapshot, ...],
) -> Iterator[tuple[PlannedSnapshot, ...]]:
    """Yield the snapshots as given; then with one rewrite in two, where the first leaves an old
    file alive and the second is protected by the first's outputs (iceberg-rules 2.4, probe E).
    Touched groups stay together: no snapshot may be without their repair."""
    yield snapshots
    for number, snapshot in enumerate(snapshots):
        if halves := _split_rewrite(snapshot):
            yield (*snapshots[:number], *halves, *snapshots[number + 1 :])


def _split_rewrite(snapshot: PlannedSnapshot) -> tuple[PlannedSnapshot, PlannedSnapshot] | None:
    whole = (part for part in snapshot.parts if part.group.outputs and not part.touched)
    first = next(whole, None)
    rest = tuple(part for part in snapshot.parts if part is not first)
    if first is None or not rest:
        return None
    return PlannedSnapshot(snapshot.sequence_number, (first,)), replace(snapshot, parts=rest)


def lost_deletes(snapshots: Iterable[PlannedSnapshot], head: Head) -> tuple[LiveDelete, ...]:
    """Return the equality deletes that Iceberg drops although an output of the same rewrite needs
    them; () without a loss."""
    losses = (
        tuple(delete for delete in dropped if snapshot.still_needs(delete))
        for snapshot, dropped in _simulate_drops(snapshots, head)
    )
    return next((lost for lost in losses if lost), ())


def _simulate_drops(
    snapshots: Iterable[PlannedSnapshot], head: Head
) -> Iterator[tuple[PlannedSnapshot, list[LiveDelete]]]:
    """Yield each rewrite, in order, with the delete files that Iceberg drops with it by itself."""
    numbers = {path: file.sequence_number for path, file in head.data.items()}
    vector = DeleteKind.DELETION_VECTOR  # goes with its data file alone
    deletes = {d.normal_path: d for d in head.deletes if d.kind is not vector}
    last = head.last_sequence_number
    rest = last if head.rest.as_listed is None else head.rest.as_listed
    for snapshot in snapshots:
        for path in () if snapshot.is_conversion else snapshot.input_paths:
            numbers.pop(path, None)
        oldest = min(last, rest, min(numbers.values(), default=last))
        dropped = [d for d in deletes.values() if 0 < d.sequence_number < oldest]
        yield snapshot, dropped
        for delete in (*dropped, *snapshot.removed_deletes):
            deletes.pop(delete.normal_path, None)
        numbers.update(_outputs_by_scope(snapshot))
        last += 1


def _without_dropped(
    snapshots: tuple[PlannedSnapshot, ...], head: Head
) -> tuple[PlannedSnapshot, ...]:
    """Leave out of each rewrite what Iceberg drops with one before it."""
    gone, left = set[str](), list[PlannedSnapshot]()
    for snapshot, dropped in _simulate_drops(snapshots, head):
        kept = (delete for delete in snapshot.removed_deletes if delete.normal_path not in gone)
        left.append(replace(snapshot, removed_deletes=tuple(kept)))
        gone |= {delete.normal_path for delete in dropped}
    return tuple(left)


def _outputs_by_scope(snapshot: PlannedSnapshot) -> dict[str, int]:
    files = (file for part in snapshot.parts for file in part.group.outputs)
    return {normal_path(file.path): snapshot.sequence_number for file in files}


def spent_deletes(
    results: Sequence[RewriteFinished], head: Head, answered: Mapping[str, int] = NO_MARKS
) -> tuple[LiveDelete, ...]:
    """Return the delete files of the results' scopes, and global ones, that apply to nothing
    afterwards.

    An equality delete: number <= the lowest of the live data in its scope, outputs included, and
    converted files as if they were outputs, also those of earlier slices; for a global one in all
    specs. A position delete: no file is left that it may name; outputs are new, so it cannot name
    them. In v3 a file with a vector does not count, because the vector hides the delete, nor does a
    converted one: its vector contains the rows. Iceberg itself removes DVs with their data file."""
    gone = {normal_path(file.path) for result in results for file in replaced_files(result)}
    kept = {path: file for path, file in head.data.items() if path not in gone}
    rest = tuple(head.rest.by_scope.items())
    converted = {normal_path(file.path) for result in results for file in _converted_inputs(result)}
    hidden = (
        converted | head.paths_with_vector if head.form.format_version >= 3 else frozenset[str]()
    )
    named = ((one.scope, one.sequence_number) for path, one in kept.items() if path not in hidden)
    left = _lowest_by_scope([*named, *rest])
    unconverted = {path: file for path, file in kept.items() if path not in converted}
    output_numbers = [
        (result.scope, result.start_sequence_number)
        for result in results
        if any(group.outputs or group.converts for group in result.groups)
    ]
    numbers = [
        (file.scope, max(file.sequence_number, answered.get(path, 0)))
        for path, file in unconverted.items()
    ]
    after = _lowest_by_scope([*numbers, *output_numbers, *rest])
    everywhere = [number for number in (head.rest.lowest,) if number is not None]
    scopes = {result.scope for result in results}
    return tuple(
        delete
        for delete in head.deletes
        if any(reaches_scope(delete, scope) for scope in scopes)
        and (
            _nothing_below(delete, after, everywhere)
            if delete.kind is DeleteKind.EQUALITY
            else _names_nothing(delete, left, gone)
        )
    )


def _converted_inputs(result: RewriteFinished) -> Iterator[InputFile]:
    return (file for group in result.groups if group.converts for file in group.inputs)


def _lowest_by_scope(numbers: Iterable[tuple[Scope, int]]) -> dict[Scope, int]:
    lowest: dict[Scope, int] = {}
    for scope, number in numbers:
        lowest[scope] = min(number, lowest.get(scope, number))
    return lowest


def _nothing_below(delete: LiveDelete, after: dict[Scope, int], everywhere: list[int]) -> bool:
    """Return True if no live file has a lower number than the delete that reaches it. `everywhere`:
    numbers of the files of unknown scope."""
    concerned = [number for scope, number in after.items() if reaches_scope(delete, scope)]
    concerned += everywhere if delete.is_global else []
    return delete.sequence_number <= min(concerned, default=delete.sequence_number)


def _names_nothing(delete: LiveDelete, left: dict[Scope, int], gone: set[str]) -> bool:
    if delete.kind is DeleteKind.DELETION_VECTOR:
        return False
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file in gone
    return left.get(delete.scope, delete.sequence_number + 1) > delete.sequence_number
