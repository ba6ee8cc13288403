"""How examined results are swapped in: one rewrite per distinct stamp (H6), safe from issue 10312.

Iceberg 1.12 (`MergingSnapshotProducer.apply`), with every commit that removes a file, drops the
delete files whose number is below that of every data file that *remains*. Files that the commit
adds do not count there, though their stamp may be older: a delete that they still need is dropped,
and deleted rows come back (iceberg-rules 2.4 a). So each rewrite is played through before it is
made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from firnline_domain.commits.conflicts import Conflict, replaced
from firnline_domain.commits.live import Head, LiveDelete, outlives, reaches
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.events import ConflictReason
from firnline_domain.records.results import DeleteKind, InputFile, RewriteFinished, RewriteGroup
from firnline_domain.values import Value, replace


class AddedDelete(Value):
    """A delete file to commit. `sequence_number` None: the new snapshot's own."""

    content_file_json: str
    sequence_number: int | None = None


class Repair(Value):
    """What position deletes and vectors said of a result's inputs, said of its outputs (H4, H5).

    `removed`: the head's delete files that named inputs; `added`: those of the outputs, and what
    the removed ones said of other files. `touched`: numbers of the groups that it is about, which
    may be committed only together with it. `files`: paths that were written for it, the
    write-ahead list last. `since`: last sequence number of the table that it was made for.
    """

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
    """What there is of a repair or a conversion that could not be made whole. As of a `Repair`."""

    task_id: str
    since: int
    files: tuple[str, ...]


Written = Repair | Conversion | Leftover
"""Delete files that were written for a commit, which has to be cleared up after."""


class Replacement(Value):
    """One group of one result, where it lies."""

    task_id: str
    scope: Scope
    group: RewriteGroup
    touched: bool = False  # needs the repair in the same snapshot


class Swap(Value):
    """One rewrite of the commit: all its outputs get the data sequence number `stamp`.

    `converts`: it replaces no data file. Its parts' inputs are from now on as if they were stamped:
    no equality delete up to `stamp` has anything to say of them any more. It is committed as a
    `RowDelta`, for a rewrite that another engine has begun would not look at it else (H3).
    """

    stamp: int
    parts: tuple[Replacement, ...]
    removed_deletes: tuple[LiveDelete, ...] = ()
    added_deletes: tuple[AddedDelete, ...] = ()

    @property
    def converts(self) -> bool:
        """All of its parts do, or none (`_by_stamp`)."""
        return any(part.group.converts for part in self.parts)

    @property
    def repaired(self) -> bool:
        """Whether a group of it was touched by later position deletes or vectors."""
        return any(part.touched for part in self.parts)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Tasks that it serves, in order."""
        return tuple(dict.fromkeys(part.task_id for part in self.parts))

    @property
    def output_scopes(self) -> frozenset[Scope]:
        """Scopes that get an output, or keep what is converted."""
        kept = (part.scope for part in self.parts if part.group.outputs or self.converts)
        return frozenset(kept)

    @property
    def input_paths(self) -> frozenset[str]:
        """Normal paths that it replaces, or converts."""
        files = (file for part in self.parts for file in part.group.inputs)
        return frozenset(normal_path(file.path) for file in files)

    def still_needs(self, delete: LiveDelete) -> bool:
        """Whether an output of this rewrite comes under an equality delete."""
        return any(outlives(delete, scope, self.stamp) for scope in self.output_scopes)


class Plan(Value):
    """The rewrites of one commit, in order, and the results that no safe form was found for."""

    swaps: tuple[Swap, ...]
    refused: dict[str, Conflict]


NO_REPAIRS: Mapping[str, Repair] = {}
NO_CONVERSIONS: Mapping[str, Conversion] = {}


def plan(
    results: Sequence[RewriteFinished],
    head: Head,
    repairs: Mapping[str, Repair] = NO_REPAIRS,
    conversions: Mapping[str, Conversion] = NO_CONVERSIONS,
) -> Plan:
    """Swaps of `results`, each of which `judge` has passed on `head`, no two sharing an input.
    `repairs` and `conversions`: by task id, of the former no two of one scope. Conversions come
    last, for what they free equality deletes of may need to be rewritten first.

    Only the rewrite that comes first, with the lowest stamp, is exposed: its outputs protect the
    later ones. So where no form is safe, its results are refused and the rest is tried again.
    """
    refused: dict[str, Conflict] = {}
    left = list(results)
    while left:
        swaps = _by_stamp(left, repairs, converts=False) + _by_stamp(left, {}, converts=True)
        last = (*swaps[:-1], replace(swaps[-1], removed_deletes=spent_deletes(left, head)))
        if safe := next((form for form in forms(last) if not lost_deletes(form, head)), None):
            whole = _converted(_repaired(safe, repairs), conversions)
            return Plan(_without_dropped(whole, head), refused)
        lost = lost_deletes(last, head)
        text = f"drops {lost[0].path} ({lost[0].sequence_number}), stamp {swaps[0].stamp}"
        for task_id in swaps[0].task_ids:
            refused[task_id] = Conflict(ConflictReason.HAZARD_10312, text)
        left = [result for result in left if result.task_id not in refused]
    return Plan((), refused)


def _by_stamp(
    results: Iterable[RewriteFinished], repairs: Mapping[str, Repair], converts: bool
) -> tuple[Swap, ...]:
    parts: dict[int, list[Replacement]] = defaultdict(list)
    for result in results:
        repair = repairs.get(result.task_id)
        touched = repair.touched if repair is not None else frozenset[int]()
        parts[result.start_sequence_number] += (
            Replacement(result.task_id, result.scope, group, number in touched)
            for number, group in enumerate(result.groups)
            if group.converts is converts
        )
    stamps = sorted(stamp for stamp in parts if parts[stamp])
    return tuple(Swap(stamp, tuple(parts[stamp])) for stamp in stamps)


def uncut(result: RewriteFinished) -> tuple[Swap, ...]:
    """What a result would be by itself: its replaced files in one rewrite, the converted ones in
    another."""
    return _by_stamp([result], {}, converts=False) + _by_stamp([result], {}, converts=True)


def _repaired(swaps: tuple[Swap, ...], repairs: Mapping[str, Repair]) -> tuple[Swap, ...]:
    """A repair goes with the one rewrite that holds its touched groups; what a repair takes out is
    not taken out a second time."""
    own = {delete.normal for repair in repairs.values() for delete in repair.removed}
    return tuple(_with_repairs(swap, own, repairs) for swap in swaps)


def _with_repairs(swap: Swap, own: set[str], repairs: Mapping[str, Repair]) -> Swap:
    tasks = dict.fromkeys(part.task_id for part in swap.parts if part.touched)
    mine = [repairs[task] for task in tasks]
    spent = (delete for delete in swap.removed_deletes if delete.normal not in own)
    return replace(
        swap,
        removed_deletes=(*spent, *(delete for repair in mine for delete in repair.removed)),
        added_deletes=tuple(delete for repair in mine for delete in repair.added),
    )


def _converted(swaps: tuple[Swap, ...], conversions: Mapping[str, Conversion]) -> tuple[Swap, ...]:
    """With each conversion's delete files, which are about no other rewrite's files."""
    return tuple(_with_conversions(swap, conversions) if swap.converts else swap for swap in swaps)


def _with_conversions(swap: Swap, conversions: Mapping[str, Conversion]) -> Swap:
    mine = [conversions[task] for task in swap.task_ids]
    removed = [delete for one in mine for delete in one.removed]
    return replace(
        swap,
        removed_deletes=(*swap.removed_deletes, *removed),
        added_deletes=tuple(delete for one in mine for delete in one.added),
    )


def forms(swaps: tuple[Swap, ...]) -> Iterator[tuple[Swap, ...]]:
    """As given; then with one rewrite in two, where the first leaves an old file alive and the
    second is protected by the first's outputs (iceberg-rules 2.4, probe E). Touched groups stay
    together: no snapshot may be without their repair."""
    yield swaps
    for number, swap in enumerate(swaps):
        if halves := _halves(swap):
            yield (*swaps[:number], *halves, *swaps[number + 1 :])


def _halves(swap: Swap) -> tuple[Swap, Swap] | None:
    whole = (part for part in swap.parts if part.group.outputs and not part.touched)
    first = next(whole, None)
    rest = tuple(part for part in swap.parts if part is not first)
    if first is None or not rest:
        return None
    return Swap(swap.stamp, (first,)), replace(swap, parts=rest)


def lost_deletes(swaps: Iterable[Swap], head: Head) -> tuple[LiveDelete, ...]:
    """Equality deletes that Iceberg drops although an output of the same rewrite needs them."""
    found = (
        tuple(delete for delete in dropped if swap.still_needs(delete))
        for swap, dropped in _played(swaps, head)
    )
    return next((lost for lost in found if lost), ())


def _played(swaps: Iterable[Swap], head: Head) -> Iterator[tuple[Swap, list[LiveDelete]]]:
    """Each rewrite, in order, with the delete files that Iceberg drops with it by itself."""
    numbers = {path: file.sequence_number for path, file in head.data.items()}
    vector = DeleteKind.DELETION_VECTOR  # goes with its data file alone
    deletes = {d.normal: d for d in head.deletes if d.kind is not vector}
    last = head.last_sequence_number
    rest = last if head.rest.as_listed is None else head.rest.as_listed
    for swap in swaps:
        for path in () if swap.converts else swap.input_paths:
            numbers.pop(path, None)
        oldest = min(last, rest, min(numbers.values(), default=last))
        dropped = [d for d in deletes.values() if 0 < d.sequence_number < oldest]
        yield swap, dropped
        for delete in (*dropped, *swap.removed_deletes):
            deletes.pop(delete.normal, None)
        numbers.update(_outputs(swap))
        last += 1


def _without_dropped(swaps: tuple[Swap, ...], head: Head) -> tuple[Swap, ...]:
    """What Iceberg drops with one rewrite is not there to be removed by the next."""
    gone, left = set[str](), list[Swap]()
    for swap, dropped in _played(swaps, head):
        kept = (delete for delete in swap.removed_deletes if delete.normal not in gone)
        left.append(replace(swap, removed_deletes=tuple(kept)))
        gone |= {delete.normal for delete in dropped}
    return tuple(left)


def _outputs(swap: Swap) -> dict[str, int]:
    files = (file for part in swap.parts for file in part.group.outputs)
    return {normal_path(file.path): swap.stamp for file in files}


def spent_deletes(results: Sequence[RewriteFinished], head: Head) -> tuple[LiveDelete, ...]:
    """Delete files of the results' scopes, and global ones, that apply to nothing afterwards.

    An equality delete: number <= the lowest of the live data in its scope, outputs included, and
    converted files as if they were outputs; a global one looks at all specs. A position delete: no
    file is left that it may name; outputs are new, so it cannot name them. DVs go with their data
    file, by Iceberg itself.
    """
    gone = {normal_path(file.path) for result in results for file in replaced(result)}
    kept = {path: file for path, file in head.data.items() if path not in gone}
    rest = tuple(head.rest.by_scope.items())
    left = _lowest([*((file.scope, file.sequence_number) for file in kept.values()), *rest])
    converted = {normal_path(file.path) for result in results for file in _converts(result)}
    unstamped = (file for path, file in kept.items() if path not in converted)
    stamps = [
        (result.scope, result.start_sequence_number)
        for result in results
        if any(group.outputs or group.converts for group in result.groups)
    ]
    numbers = [(file.scope, file.sequence_number) for file in unstamped]
    after = _lowest([*numbers, *stamps, *rest])
    everywhere = [number for number in (head.rest.lowest,) if number is not None]
    scopes = {result.scope for result in results}
    return tuple(
        delete
        for delete in head.deletes
        if any(reaches(delete, scope) for scope in scopes)
        and (
            _nothing_below(delete, after, everywhere)
            if delete.kind is DeleteKind.EQUALITY
            else _names_nothing(delete, left, gone)
        )
    )


def _converts(result: RewriteFinished) -> Iterator[InputFile]:
    return (file for group in result.groups if group.converts for file in group.inputs)


def _lowest(numbers: Iterable[tuple[Scope, int]]) -> dict[Scope, int]:
    found: dict[Scope, int] = {}
    for scope, number in numbers:
        found[scope] = min(number, found.get(scope, number))
    return found


def _nothing_below(delete: LiveDelete, after: dict[Scope, int], everywhere: list[int]) -> bool:
    """`everywhere`: of the files whose scope is not known."""
    concerned = [number for scope, number in after.items() if reaches(delete, scope)]
    concerned += everywhere if delete.is_global else []
    return delete.sequence_number <= min(concerned, default=delete.sequence_number)


def _names_nothing(delete: LiveDelete, left: dict[Scope, int], gone: set[str]) -> bool:
    if delete.kind is DeleteKind.DELETION_VECTOR:
        return False
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file in gone
    return left.get(delete.scope, delete.sequence_number + 1) > delete.sequence_number
