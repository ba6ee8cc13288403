"""What comes next between a table and its archive, by what both say at this moment. Pure.

No commit spans two tables. A round is two commits: its copies come into the archive, then their
sources leave the table. Each sets the property `ROUND` of its table to the round's name, in the
commit itself. While the two differ the round is unsettled: nothing new is copied, and it is ended
by what is found then, whoever began it.

How it ends is decided in the table alone, by one of two commits that exclude each other, for both
are snapshots, pinned to the head that was examined: `Remove`, or, where a writer has changed a
source meanwhile, `GiveUp`. After that the copies stay, or are withdrawn, whoever does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile

from firnline_domain.base.values import Value
from firnline_domain.identity import Scope
from firnline_domain.records.parts.archive_marks import ROUND


class SourceFile(Value):
    """A data file of the table's head. `key`: says which file it is, and stands in the name of its
    copy. `has_deletes`: some rows of it may be deleted."""

    key: str
    scope: Scope
    records: int
    bytes: int
    has_deletes: bool = False


class CopiedFile(Value):
    """A data file of the archive's head that is a copy of ours."""

    key: str
    round: str
    records: int
    bytes: int


class Source(Value):
    """The table. `live`: by key; `old`: those of them that may leave it. `undone`: rounds whose
    snapshot the table still has, and its head does not come from it."""

    round: str
    given_up: str
    live: Mapping[str, SourceFile]
    old: Sequence[SourceFile] = ()
    undone: Sequence[str] = ()


class Archive(Value):
    """`foreign`: partitions with files that are no copies of ours, by the table's spec ids: what
    was copied there may have been rewritten, and nobody could tell whether a row is there.
    `settled`: the last round whose sources are known to have left the table."""

    round: str
    files: int = 0
    copies: Mapping[str, CopiedFile] = {}
    foreign: frozenset[Scope] = frozenset()
    settled: str = ""


class NeedsOperator(Value):
    """A state that an operator has to resolve."""

    reason: str
    detail: str


class Copy(Value):
    """Copy these files, append the copies."""

    files: tuple[SourceFile, ...]


class Remove(Value):
    """Take these out of the table: the archive has them."""

    files: tuple[SourceFile, ...]
    round: str


class GiveUp(Value):
    """Say in the table that this round will not leave it: some of it is there in another form."""

    round: str
    changed: int  # files


class Withdraw(Value):
    """Take these copies out of the archive; its `ROUND` becomes the table's again."""

    copies: tuple[CopiedFile, ...]
    round: str


class Settled(Value):
    """Nothing is to be done. Old files that stay where they are: `with_deletes` wait until these
    are applied, `held_back` are of partitions that somebody has rewritten in the archive."""

    with_deletes: int = 0
    held_back: int = 0


Step = NeedsOperator | Copy | Remove | GiveUp | Withdraw | Settled


def next_step(source: Source, archive: Archive, max_files: int, max_bytes: int) -> Step:
    """Decide the next step of archiving. `max_files`, `max_bytes`: of one round; a single larger
    file is its own round."""
    if source.round and not archive.round:
        text = f"{ROUND}={source.round} of the table says that there was an archive of it"
        return NeedsOperator("archive_gone", text)
    if source.undone:
        names = ", ".join(source.undone[:3])
        return NeedsOperator(
            "archive_undone", f"rows of {names} are in the table and in the archive"
        )
    if archive.round != source.round:
        return _finish_round(source, archive)
    there = [one for one in source.old if one.key in archive.copies and not one.has_deletes]
    if there:  # the table was set back, and nobody remembers
        return _remove_sources(tuple(there), archive, source.round)
    clean = [one for one in source.old if not one.has_deletes]
    open_ = [one for one in clean if one.scope not in archive.foreign]
    if chosen := _first_that_fit(open_, max_files, max_bytes):
        return Copy(tuple(chosen))
    return Settled(len(source.old) - len(clean), len(clean) - len(open_))


def _finish_round(source: Source, archive: Archive) -> Step:
    """Finish a round whose copies came while their sources have not left."""
    mine = [one for one in archive.copies.values() if one.round == archive.round]
    if len(mine) != archive.files:
        text = f"{archive.files} copies came in {archive.round}, and {len(mine)} are there"
        return NeedsOperator("archive_changed", text)
    has_left = archive.round == archive.settled  # a writer has set the table's marks back since
    if archive.round == source.given_up and not has_left:
        return Withdraw(tuple(mine), source.round)
    found = [source.live.get(one.key) for one in mine]
    clean = [one for one in found if one is not None and not one.has_deletes]
    if len(clean) < len(mine) and has_left:
        text = f"{archive.round} has left the table, and {ROUND}={source.round} denies it"
        return NeedsOperator("archive_changed", text)
    if len(clean) < len(mine):
        return GiveUp(archive.round, len(mine) - len(clean))
    return _remove_sources(tuple(clean), archive, archive.round)


def _remove_sources(files: tuple[SourceFile, ...], archive: Archive, name: str) -> Step:
    for one in files:
        copy = archive.copies[one.key]
        if (copy.records, copy.bytes) != (one.records, one.bytes):
            text = f"the copy {copy.key} has {copy.records} rows in {copy.bytes} bytes"
            return NeedsOperator("archive_changed", text)
    return Remove(files, name)


def _first_that_fit(files: Sequence[SourceFile], most: int, max_bytes: int) -> Sequence[SourceFile]:
    """Return as many files as fit."""
    sums = accumulate(one.bytes for one in files[:most])
    fits = sum(1 for _ in takewhile(lambda total: total <= max_bytes, sums))
    return files[: max(fits, 1)]
