"""A table and its archive hold each row once, whoever is killed, and whatever comes between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from firnline_domain.base.values import replace
from firnline_domain.commits.archive_rounds import (
    Archive,
    CopiedFile,
    Copy,
    GiveUp,
    NeedsOperator,
    Remove,
    Settled,
    Source,
    SourceFile,
    Step,
    Withdraw,
    next_step,
)
from firnline_domain.identity import Scope
from hypothesis import example, given, settings
from hypothesis import strategies as st

A, B = Scope(1, '["a"]'), Scope(1, '["b"]')
MAX_FILES, MAX_BYTES = 2, 1_000


def source_file(key: str, scope: Scope = A, deletes: bool = False, size: int = 1) -> SourceFile:
    return SourceFile(key, scope, 1, size, deletes)


def source(*files: SourceFile, round_: str = "", given_up: str = "", undone: str = "") -> Source:
    live = {one.key: one for one in files}
    return Source(round_, given_up, live, files, [undone] if undone else [])


def archive(round_: str = "", *keys: str, files: int | None = None) -> Archive:
    copies = {key: CopiedFile(key, round_, 1, 1) for key in keys}
    return Archive(round_, len(keys) if files is None else files, copies)


def step(table: Source, kept: Archive) -> Step:
    return next_step(table, kept, MAX_FILES, MAX_BYTES)


ONE, TWO, THREE = map(source_file, ("1", "2", "3"))


def test_a_round_from_first_to_last() -> None:
    assert step(source(ONE, TWO, THREE), archive()) == Copy((ONE, TWO))
    assert step(source(ONE, TWO, THREE), archive("r1", "1", "2")) == Remove((ONE, TWO), "r1")
    settled = archive("r1", "1", "2")
    assert step(source(THREE, round_="r1"), settled) == Copy((THREE,))
    assert step(source(round_="r1"), settled) == Settled()


@pytest.mark.parametrize("left", [(ONE,), (ONE, replace(TWO, has_deletes=True)), ()])
def test_what_a_writer_has_changed_is_given_up_and_then_withdrawn(
    left: tuple[SourceFile, ...],
) -> None:
    came, found = archive("r2", "1", "2"), source(*left, round_="r1")
    assert step(found, came) == GiveUp("r2", 2 if not left else 1)
    given_up = source(*left, round_="r1", given_up="r2")
    assert step(given_up, came) == Withdraw(tuple(came.copies.values()), "r1")


@pytest.mark.parametrize("given_up", ["", "r2"])
def test_a_round_that_has_left_is_never_withdrawn(given_up: str) -> None:
    """Whatever a writer of the table has set its marks to; rows that came back leave again."""
    left = replace(archive("r2", "1"), settled="r2")
    denied = step(source(round_="r1", given_up=given_up), left)
    assert isinstance(denied, NeedsOperator)
    assert denied.reason == "archive_changed"
    assert step(source(ONE, round_="r1", given_up=given_up), left) == Remove((ONE,), "r2")


def test_rounds_are_bounded_by_files_and_bytes_but_for_one_file() -> None:
    large = [source_file(str(number), size=600) for number in range(3)]
    assert step(source(*large), archive()) == Copy((large[0],))
    huge = source_file("h", size=5_000)
    assert step(source(huge, ONE), archive()) == Copy((huge,))


def test_files_with_deletes_wait_and_partitions_that_were_rewritten_are_held_back() -> None:
    dead, other = source_file("d", deletes=True), source_file("o", B)
    kept = Archive("", foreign=frozenset({A}))
    assert step(source(dead, ONE, other), kept) == Copy((other,))
    assert step(source(dead, ONE), kept) == Settled(with_deletes=1, held_back=1)


def test_what_is_there_already_leaves_without_another_copy() -> None:
    assert step(source(ONE, TWO, round_="r1"), archive("r1", "1")) == Remove((ONE,), "r1")


@pytest.mark.parametrize(
    ("table", "kept", "reason"),
    [
        (source(ONE, round_="r1"), archive(), "archive_gone"),
        (source(ONE, undone="r1", round_="r1"), archive("r1", "1"), "archive_undone"),
        (source(ONE, TWO), archive("r1", "1", files=2), "archive_changed"),
        (source(ONE, given_up="r1"), archive("r1", "1", files=2), "archive_changed"),
        (source(replace(ONE, records=2)), archive("r1", "1"), "archive_changed"),
    ],
)
def test_what_nobody_can_tell_is_left_to_a_person(
    table: Source, kept: Archive, reason: str
) -> None:
    found = step(table, kept)
    assert isinstance(found, NeedsOperator)
    assert found.reason == reason


@dataclass
class World:
    """Two tables with heads, and archivers that act on what they read some time ago."""

    files: dict[str, frozenset[int]] = field(default_factory=dict)  # key -> rows
    dead: dict[str, frozenset[int]] = field(default_factory=dict)
    copies: dict[str, CopiedFile] = field(default_factory=dict)
    rows: dict[str, frozenset[int]] = field(default_factory=dict)  # of every file there ever was
    head: int = 0
    archive_head: int = 0
    round: str = ""
    given_up: str = ""
    archive_round: str = ""
    archive_files: int = 0
    made: int = 0
    alive: set[int] = field(default_factory=set)
    seen: dict[int, tuple[Source, int]] = field(default_factory=dict)
    known: dict[int, tuple[Step, int, int]] = field(default_factory=dict)

    def number(self) -> int:
        self.made += 1
        return self.made

    def put(self, rows: frozenset[int]) -> None:
        key = f"f{self.number()}"
        self.files[key] = self.rows[key] = rows
        self.head += 1

    def append(self) -> None:
        rows = frozenset({self.number(), self.number()})
        self.alive |= rows
        self.put(rows)

    def delete(self, which: int) -> None:
        """A row of the table, by merge-on-read."""
        if rows := sorted(self.in_table()):
            row = rows[which % len(rows)]
            key = next(key for key in self.files if row in self.live(key))
            self.dead[key] = self.dead.get(key, frozenset()) | {row}
            self.alive.discard(row)
            self.head += 1

    def dangle(self, which: int) -> None:
        """A delete file that applies to no row comes, or goes as dangling."""
        if keys := sorted(key for key in self.files if not self.dead.get(key)):
            key = keys[which % len(keys)]
            if self.dead.pop(key, None) is None:
                self.dead[key] = frozenset()
            self.head += 1

    def compact(self) -> None:
        rows = frozenset(self.in_table())
        self.files.clear()
        if rows:
            self.put(rows)

    def live(self, key: str) -> frozenset[int]:
        return self.files[key] - self.dead.get(key, frozenset())

    def in_table(self) -> Counter[int]:
        return Counter(row for key in self.files for row in self.live(key))

    def in_archive(self) -> Counter[int]:
        return Counter(row for key in self.copies for row in self.rows[key])

    def read(self, who: int) -> None:
        """The table, and later on the archive."""
        live = {key: self.described(key) for key in self.files}
        self.seen[who] = Source(self.round, self.given_up, live, [*live.values()]), self.head

    def look(self, who: int) -> None:
        if who in self.seen:
            table, head = self.seen.pop(who)
            kept = Archive(self.archive_round, self.archive_files, dict(self.copies))
            self.known[who] = (step(table, kept), head, self.archive_head)

    def described(self, key: str) -> SourceFile:
        return SourceFile(key, A, len(self.rows[key]), 1, key in self.dead)

    def act(self, who: int) -> None:
        """Commit what was decided, pinned to the head that it was decided by."""
        if who not in self.known:
            return
        wanted, head, archive_head = self.known.pop(who)
        assert not isinstance(wanted, NeedsOperator), wanted
        if isinstance(wanted, Copy | Withdraw) and archive_head == self.archive_head:
            self.archive_head += 1
            self._in_archive(wanted)
        if isinstance(wanted, Remove | GiveUp) and head == self.head:
            self.head += 1
            self._in_table(wanted)

    def _in_archive(self, wanted: Copy | Withdraw) -> None:
        if isinstance(wanted, Copy):
            self.archive_round, self.archive_files = f"r{self.number()}", len(wanted.files)
            for one in wanted.files:
                assert one.key not in self.copies
                self.copies[one.key] = CopiedFile(one.key, self.archive_round, one.records, 1)
            return
        self.archive_round = wanted.round
        for copy in wanted.copies:
            del self.copies[copy.key]

    def _in_table(self, wanted: Remove | GiveUp) -> None:
        if isinstance(wanted, GiveUp):
            self.given_up = wanted.round
            return
        self.round = wanted.round
        for one in wanted.files:
            del self.files[one.key]

    def is_settled(self) -> bool:
        return self.round == self.archive_round

    def check(self) -> None:
        """No row is lost, none is twice in one table; in both only while a round is unsettled."""
        assert max(self.in_table().values(), default=1) == 1
        assert max(self.in_archive().values(), default=1) == 1
        both = self.in_table() + self.in_archive()
        assert set(both) >= self.alive
        if self.is_settled():
            assert both == Counter(self.alive)


writers = st.sampled_from(["append", "delete", "dangle", "compact"])
archivers = st.tuples(st.sampled_from(["read", "look", "act"]), st.integers(0, 1))
moves = st.lists(st.one_of(writers, archivers, archivers, archivers), max_size=60)


def of(who: int, *moves: str) -> list[str | tuple[str, int]]:
    return [(move, who) for move in moves]


TWO_AT_WORK = [
    *("append", *of(0, "read", "look", "act"), "dangle", *of(0, "read", "look"), "dangle"),
    *(*of(1, "read", "look", "act"), *of(0, "act")),
]


@example(TWO_AT_WORK, 0)
@settings(max_examples=200, deadline=None)
@given(moves, st.integers(0, 9))
def test_whoever_is_killed_and_whatever_comes_between(
    sequence: list[str | tuple[str, int]], which: int
) -> None:
    """An archiver that looks and never acts was killed; two may be at work."""
    world = World()
    for move in sequence:
        if isinstance(move, tuple):
            getattr(world, move[0])(move[1])
        elif move in ("delete", "dangle"):
            getattr(world, move)(which)
        else:
            getattr(world, move)()
        world.check()
    for _ in range(200):
        world.read(0)
        world.look(0)
        if isinstance(world.known[0][0], Settled):
            break
        world.act(0)
        world.check()
    assert world.is_settled()
    assert all(key in world.dead for key in world.files)  # all else has left
