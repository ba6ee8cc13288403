"""What the traces of a head say of its ancestors, full history says as well.

The model commits as Iceberg does: a list is made of its parent's manifests, entries keep the id of
the snapshot that added the file. Branches are moved, rolled back, replaced and cherry-picked as
catalogs let anybody; only the head is shown, and only from time to time.
"""

from __future__ import annotations

import dataclasses
import itertools
import random

from firnline_domain.base.values import replace
from firnline_domain.commits.ancestry import MAX_HEADS, KnownAncestry, traced_snapshots
from firnline_domain.commits.pinned_head import Head
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.branch_model import A, B, Table, rewrite, verdict

STEPS = (
    "append",
    "append",
    "delete",
    "overwrite",
    "compact",
    "merge_manifests",
    "empty",
    "move",
    "cherry_pick",
    "replace",
    "look",
    "look",
)


@dataclasses.dataclass(frozen=True)
class Entry:
    file: int
    snapshot_id: int
    live: bool = True


@dataclasses.dataclass(frozen=True)
class Manifest:
    added_snapshot_id: int
    entries: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    number: int
    parent: int | None
    manifests: tuple[Manifest, ...]


@dataclasses.dataclass
class Branch:
    """One branch that anybody may move, and all snapshots that there ever were."""

    dice: random.Random
    snapshots: dict[int, Snapshot] = dataclasses.field(default_factory=dict)
    head: int | None = None
    files: itertools.count[int] = dataclasses.field(default_factory=itertools.count)
    ids: itertools.count[int] = dataclasses.field(default_factory=lambda: itertools.count(1))

    def ancestors(self, number: int | None) -> set[int]:
        """With full history."""
        found = set[int]()
        while number is not None:
            found.add(number)
            number = self.snapshots[number].parent
        return found

    @property
    def listed(self) -> tuple[Manifest, ...]:
        """Nothing but DELETED entries is not carried on."""
        if self.head is None:
            return ()
        manifests = self.snapshots[self.head].manifests
        return tuple(one for one in manifests if any(entry.live for entry in one.entries))

    @property
    def live(self) -> list[int]:
        return [entry.file for one in self.listed for entry in one.entries if entry.live]

    def commit(self, kept: tuple[Manifest, ...], number: int, added: int) -> None:
        new = tuple(Entry(next(self.files), number) for _ in range(added))
        own = (Manifest(number, new),) if new else ()
        self.snapshots[number] = Snapshot(number, self.head, kept + own)
        self.head = number

    def without(self, gone: set[int], number: int) -> tuple[Manifest, ...]:
        """Manifests that lose a file are written anew, by this snapshot."""
        return tuple(self._filtered(one, gone, number) for one in self.listed)

    @staticmethod
    def _filtered(one: Manifest, gone: set[int], number: int) -> Manifest:
        if not any(entry.file in gone and entry.live for entry in one.entries):
            return one
        entries = (
            Entry(entry.file, number, live=False) if entry.file in gone else entry
            for entry in one.entries
            if entry.live
        )
        return Manifest(number, tuple(entries))

    def step(self, word: str) -> None:
        number = next(self.ids)
        some = set(self.dice.sample(self.live, self.dice.randint(0, len(self.live))))
        match word:
            case "append":
                self.commit(self.listed, number, 1)
            case "delete":
                self.commit(self.without(some, number), number, 0)
            case "overwrite" | "compact":
                self.commit(self.without(some, number), number, 1)
            case "merge_manifests":
                entries = (entry for one in self.listed for entry in one.entries if entry.live)
                merged = Manifest(number, tuple(entries))
                self.commit((merged,) if merged.entries else (), number, 0)
            case "empty":
                self.commit(self.listed, number, 0)
            case "move" if self.snapshots:  # rollback, fast-forward, another branch's content
                self.head = self.dice.choice(list(self.snapshots))
            case "cherry_pick" if self.snapshots:  # another one's files, added by a new snapshot
                self.commit(self.listed, number, 1)
            case "replace":  # CREATE OR REPLACE: a root again
                self.head = None
                self.commit((), number, 1)


@given(st.lists(st.sampled_from(STEPS), min_size=3, max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_traces_never_say_ancestor_where_full_history_does_not(
    steps: list[str], dice: random.Random
) -> None:
    branch, known = Branch(dice), KnownAncestry()
    for word in steps:
        if word != "look":
            branch.step(word)
            continue
        if branch.head is None:
            continue
        manifests = branch.snapshots[branch.head].manifests
        read = [entry for one in manifests for entry in one.entries if dice.random() < 0.5]
        found = known.ancestors_of(traced_snapshots(manifests, read))
        assert found <= branch.ancestors(branch.head)
        known = known.with_head(branch.head, found)


@given(st.integers(1, 60), st.integers(0, 59))
@settings(deadline=None)
def test_a_start_is_found_behind_any_number_of_appends(commits: int, before: int) -> None:
    branch = Branch(random.Random(1))
    for _ in range(commits):
        branch.step("append")
    start = min(before, commits - 1) + 1
    assert start in traced_snapshots(branch.listed)


def test_what_was_rolled_back_leaves_no_trace() -> None:
    branch = Branch(random.Random(1))
    branch.step("append")
    branch.step("append")
    start = branch.head
    branch.head = 1
    branch.step("append")
    entries = [entry for one in branch.listed for entry in one.entries]
    assert start not in traced_snapshots(branch.listed, entries)


def test_a_snapshot_whose_files_are_gone_is_known_by_one_that_is_left() -> None:
    """Several partitions are rewritten at once: the first commit takes out what the start of the
    others has added."""
    known = KnownAncestry().with_head(12, frozenset({10, 11}))
    assert known.ancestors_of(frozenset({12, 13})) == {10, 11, 12, 13}
    assert 10 not in known.ancestors_of(frozenset({13}))


def test_what_is_known_of_two_heads_is_put_together() -> None:
    known = KnownAncestry().with_head(2, frozenset({1})).with_head(3, frozenset({2}))
    assert known.ancestors_of(frozenset({3})) == {1, 2, 3}


def test_old_heads_are_forgotten() -> None:
    known = KnownAncestry()
    for number in range(1, MAX_HEADS + 10):
        known = known.with_head(number, frozenset({number - 1}))
    assert len(known.behind) == MAX_HEADS
    assert 0 not in known.ancestors_of(frozenset({1}))


def hidden(table: Table, *seen: int) -> Head:
    """The head as a catalog shows it that shows nothing else."""
    head = table.pinned()
    alone = frozenset({head.snapshot_id})
    return replace(head, ancestors=alone, retained=alone, traced=frozenset(seen))


def test_a_start_is_believed_by_its_traces_alone_where_history_is_hidden() -> None:
    table = Table()
    table.append(A, 1, 2)
    start = table.head
    result = rewrite(table, A)
    table.append(B, 3)
    assert verdict(result, hidden(table, start)) is None
    found = verdict(result, hidden(table))
    assert found is not None
    assert found.reason == ConflictReason.START_NOT_ANCESTOR


def test_what_a_catalog_shows_counts_for_more_than_traces() -> None:
    table = Table()
    table.append(A, 1, 2)
    before = table.head
    table.append(B, 3)
    result = rewrite(table, A)
    start = table.head
    table.roll_back(before)
    table.append(B, 4)
    found = verdict(result, replace(table.pinned(), traced=frozenset({start})))
    assert found is not None
    assert found.reason == ConflictReason.START_NOT_ANCESTOR
