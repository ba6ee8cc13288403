"""May this file go? The one module that decides it, and the only one that deletes from a table's
storage or moves what lies there.

Four things have to be so, none of them because a list, a result or a setting of the table says it:
the file lies in the table's own locations; its name is one that a run of this very task of this
very table gives; nothing that the table retains reaches it; and it is old enough that nobody may
yet commit it (docs/decisions/0016). Three kinds of files need less, and say why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain, groupby
from typing import NamedTuple

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.errors import StorageUnreachable
from firnline_domain.records.parts.sharing import SharingRefusal
from pyarrow.fs import AzureFileSystem, GcsFileSystem
from pyiceberg.io import FileIO

from firnline_iceberg.commit.single_send import WrittenMetadata
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import read_manifest_list
from firnline_iceberg.outputs.names import LIST_SUFFIX, SENT_SUFFIX, TaskRun, run_of
from firnline_iceberg.outputs.unfinished_uploads import abort_uploads
from firnline_iceberg.outputs.write_ahead_list import ListPlace, OutputList, read_storage_clock
from firnline_iceberg.storage.file_io import s3_bucket
from firnline_iceberg.storage.local_files import link_on, move_file, remove_file
from firnline_iceberg.storage.paths import (
    PREFIX,
    UnclearPath,
    file_name,
    folder_of,
    parse_address,
    resolve_file,
    resolve_folder,
)
from firnline_iceberg.storage.s3_client import DELETED, NotRemoved, S3Bucket
from firnline_iceberg.storage.s3_multipart_copy import copy_in_parts
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import Locations, metadata_folders
from firnline_iceberg.table.reachability import find_reachable

CLOCK = f"{PREFIX}clock"
QUARANTINE = f"{PREFIX}quarantine"  # a folder below the table's location, for orphans
PROBE = f"{PREFIX}doctor-"  # what a file's name begins with that shows whether we may write
FURTHEST_MS = 30 * 24 * 3_600_000  # of a deadline, or of a clock that is ahead


class RemovalVerdict(StrEnum):
    """Verdict on one file."""

    MAY_GO = "may_go"
    REACHABLE = "reachable"
    OUTSIDE = "outside"  # of the table's own locations
    MISNAMED = "misnamed"  # not a name that this run gives
    SHARED = "shared"  # `gc.enabled` is false: another table may have the same files


class SweepReason(ReasonCode):
    """Reasons why a write-ahead list is left alone."""

    YOUNG = (
        "young",
        "The list is younger than `FIRNLINE_SWEEP_AGE_SECONDS`.",
        "its result may yet be committed",
    )
    IN_FLIGHT = (
        "in_flight",
        "The deadline of the list's task is not over.",
        "its task may still run",
    )
    UNREADABLE = (
        "unreadable",
        "The file is no list, or larger than 16 MB. Look at it, and remove it yourself.",
        "not a readable list",
    )
    NOT_SIGNED = (
        "not_signed",
        "The list has no signature, or one with a key that this service does not have.",
        "not signed with a known key",
    )
    OTHER_TABLE = (
        "other_table",
        "The list names another table. Look at it, and remove it yourself.",
        "the list of another table",
    )
    INVALID_OUTPUTS = (
        "invalid_outputs",
        "The list has the name of another task's list, or names files that are not its task's.",
        "it names files that are not its task's",
    )
    FUTURE = (
        "future",
        "The list or its deadline is dated more than 30 days ahead. Check the clocks.",
        "dated more than 30 days ahead",
    )
    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`: another table may share the files, and they may be committed.",
        "disabled by gc.enabled=false",
    )
    SENT = (
        "sent",
        "A commit with the files was sent, and another table may share them.",
        "its commit was sent, and another table may share the files",
    )
    EXTERNAL_FILES = (
        "external_files",
        "The table has files outside its locations, and may share its own with another table.",
        "the table may share its files with another one",
    )
    NOT_REMOVED = (
        "not_removed",
        "The storage refused to remove a file. The next cleanup tries again.",
        "the storage refused to remove a file",
    )
    SHARED_IDENTITY = SharingRefusal.SHARED_IDENTITY.entry
    SHARED_LOCATION = SharingRefusal.SHARED_LOCATION.entry
    NEIGHBOURS_UNKNOWN = SharingRefusal.NEIGHBOURS_UNKNOWN.entry


class NotRemovable(Exception):
    """A file was to be removed that may not go."""


@dataclass(frozen=True)
class StoredList:
    """A list where it lies, with the run that wrote it."""

    place: ListPlace
    listed: OutputList
    run: TaskRun
    never_sent: bool = False  # no commit that names an output can have been applied

    @property
    def path(self) -> str:
        return self.place.path

    def names_path(self, path: str) -> bool:
        """Return True if the run gives this name: to an output, or to its row map or marks beside
        the list."""
        name = file_name(path)
        if name in (self.run.row_map_name, self.run.marks_name):
            beside = parse_address(folder_of(path))
            return beside is not None and beside == parse_address(folder_of(self.path))
        return self.run.names_content(name)


def shares_files(table: LoadedTable) -> bool:
    """Return True if another, unknown table may have its files (snapshot(), migrate())."""
    return table.properties.get("gc.enabled", "true").strip().lower() != "true"


def sent_path(list_path: str) -> str:
    """Return the path of the note that a commit was sent for the outputs on this list."""
    return f"{list_path.removesuffix(LIST_SUFFIX)}{SENT_SUFFIX}"


def note_sent(table: LoadedTable, list_path: str) -> None:
    """Write the note that a commit was sent, durably. Raises OSError."""
    with table.io.new_output(sent_path(list_path)).create(overwrite=True):
        pass


def why_shared(table: LoadedTable, stored: StoredList) -> SweepReason | None:
    """Return why the outputs on a list may be others' too, in a table that allows sharing; None: no
    commit with one of these names was ever sent, so no table, branch or tag has them. Called for
    lists that are old enough: at that age no commit is sent any more. Raises OSError."""
    if not stored.listed.sends_noted:
        return SweepReason.GC_DISABLED
    sent = table.io.new_input(sent_path(stored.path)).exists()
    return SweepReason.SENT if sent else None


def run_of_list(table: LoadedTable, listed: OutputList, place: ListPlace) -> TaskRun | None:
    """Return the run that wrote a list, if the list has the very name that this run gives it, in a
    directory of the table's metadata files."""
    name = file_name(place.path)
    run = run_of(table.identity.key, listed.task_id, name)
    if run is None or run.list_name != name or run.attempt != listed.attempt:
        return None
    return run if Locations.from_table(table).is_beside_metadata(place.path) else None


def too_young(
    listed: OutputList, place: ListPlace, age_ms: int, now_ms: int
) -> tuple[SweepReason, int | None] | None:
    """Return why, by its age, a list is left alone, and until when; None = it is old enough. Its
    age counts from its own time or the storage's, whichever is later."""
    if max(listed.written_at_ms, listed.deadline_ms) > now_ms + FURTHEST_MS:
        return SweepReason.FUTURE, None
    of_age_ms = max(listed.written_at_ms, place.stored_at_ms) + age_ms
    if now_ms < of_age_ms:
        return SweepReason.YOUNG, of_age_ms
    if now_ms < listed.deadline_ms:
        return SweepReason.IN_FLIGHT, listed.deadline_ms
    return None


@dataclass(frozen=True)
class OutputRemoval:
    """Decides for the files of lists that are old enough, on one table."""

    table: LoadedTable
    reached: frozenset[str]  # names of those that the table reaches

    @classmethod
    def read_reachable(cls, table: LoadedTable, lists: Iterable[StoredList]) -> OutputRemoval:
        """Build it by a read of everything that the table retains; it has to be younger than all
        lists. Raises as `reachability.reached`."""
        names = (
            file_name(path) for one in lists for path in one.listed.outputs if one.names_path(path)
        )
        return cls(table, find_reachable(table, frozenset(names)))

    def verdict_on(self, stored: StoredList, path: str) -> RemovalVerdict:
        """Return the verdict on a path of a list."""
        name = file_name(path)
        if shares_files(self.table) and not stored.never_sent:
            return RemovalVerdict.SHARED
        if not stored.names_path(path):
            return RemovalVerdict.MISNAMED
        if name in self.reached:
            return RemovalVerdict.REACHABLE
        inside = self._locations.contains(path) or self._locations.is_beside_metadata(path)
        return RemovalVerdict.MAY_GO if inside else RemovalVerdict.OUTSIDE

    def remove_output(self, stored: StoredList, path: str) -> bool:
        """Remove an output on a list from the storage. Return False if it was not there. Raises
        NotRemovable if it may not be removed, OSError."""
        if (verdict := self.verdict_on(stored, path)) is not RemovalVerdict.MAY_GO:
            raise NotRemovable(f"{path}: {verdict}")
        return _delete_file(self.table.io, path)

    def remove_list(self, stored: StoredList) -> None:
        """Remove the list itself, last: what it names is removed, or still on it. Raises
        OSError."""
        _delete_file(self.table.io, stored.path)

    @cached_property
    def _locations(self) -> Locations:
        return Locations.from_table(self.table)


def remove_unneeded(table: LoadedTable, task_id: str, paths: Iterable[str | None]) -> int:
    """Remove the row map, marks and write-ahead list of a run, in this order, after a commit that
    omitted no output, and return how many there were. No table has a file of these names, so
    nothing has to be read. Raises OSError."""
    mine = [path for path in paths if path is not None and _is_file_of_run(table, task_id, path)]
    return sum(_delete_file(table.io, path) for path in mine)


def _is_file_of_run(table: LoadedTable, task_id: str, path: str) -> bool:
    """Return True for a row map, a mark or a write-ahead list of a run of the task, in a folder of
    the table's metadata files."""
    name = file_name(path)
    run = run_of(table.identity.key, task_id, name)
    known = run is not None and name in (*run.names_beside, run.sent_name)
    return known and Locations.from_table(table).is_beside_metadata(path)


def remove_sets(table: LoadedTable, run: TaskRun, paths: Iterable[str]) -> None:
    """Delete sets that a run of this process stored for its executors, which have ended. They are
    no content of a table, so no commit can contain them. Raises NotRemovable, OSError."""
    locations = Locations.from_table(table)
    for path in paths:
        if not run.names_delete_set(file_name(path)) or not locations.contains(path):
            raise NotRemovable(f"{path}: no set of run {run.stem}")
        _delete_file(table.io, path)


def remove_unpublished(
    table: LoadedTable, run: TaskRun, paths: Iterable[str], listed: str, ended: bool = True
) -> None:
    """Remove what a run wrote that this process has begun, and has not published: no result names
    it, so it cannot be committed, now or later. The list goes last; it stays, for the sweep, where
    not all of the run's writers are known to have `ended`; where they have, a killed one's uploads
    are given up. Raises NotRemovable, OSError."""
    locations = Locations.from_table(table)

    def is_ours(path: str) -> bool:
        name = file_name(path)
        if name in run.names_beside:
            return locations.is_beside_metadata(path)
        return run.names_content(name) and locations.contains(path)

    mine = [*paths, listed]
    if wrong := next((path for path in mine if not is_ours(path)), None):
        raise NotRemovable(f"{wrong}: not of run {run.stem}, or not in the table's locations")
    for path in mine[:-1]:
        _delete_file(table.io, path)
    if ended:
        abort_uploads(table.io, mine[:-1])
        _delete_file(table.io, listed)


def remove_uncommitted(
    table: LoadedTable, task_id: str, files: Collection[str], listed: str, since: int
) -> bool:
    """Delete files that this process wrote for commits of its own, none of which can be applied any
    more, and their list; False: the table has them, and only the list is removed.

    `since`: the table's last sequence number as this process read it before it named the files.
    Raises as `find_reachable`, and OSError.
    """
    landed = find_reachable(table, {file_name(path) for path in files}, since)
    run = run_of(table.identity.key, task_id, file_name(listed))
    if run is None or file_name(listed) != run.list_name:
        raise NotRemovable(f"{listed}: not of task {task_id}")
    note = sent_path(listed)
    never_sent = shares_files(table) and not table.io.new_input(note).exists()
    if not landed and (never_sent or not shares_files(table)):
        remove_unpublished(table, run, files, listed)
        return True
    if landed:
        _delete_file(table.io, note)
        _delete_file(table.io, listed)
    return False


def is_dead(table: LoadedTable, written: WrittenMetadata) -> bool:
    """Return True if no copy of a refused commit's request can be applied any more: the table has
    given out its sequence number, which is final. The head alone is not enough, because a rollback
    brings an old one back. v1 tables give out none."""
    return table.format_version > 1 and table.last_sequence_number > written.sequence_number


def remove_refused(
    table: LoadedTable, refused: Sequence[WrittenMetadata], unknown: Sequence[WrittenMetadata] = ()
) -> int:
    """Remove the manifests and manifest lists of dead commits that nothing reaches, and return how
    many there were.

    The table must be read after the commits' answers. A later commit may have kept manifests of one
    that was applied, and expired since. Tries share manifests, so those of a commit that is not
    dead stay, also those of the `unknown`, whose outcome is open. Raises the errors of
    `find_reachable`, and OSError."""
    dead = [one for one in refused if is_dead(table, one)]
    if not dead or shares_files(table):
        return 0
    waiting = (one for one in (*refused, *unknown) if not is_dead(table, one))
    needed = {path for one in waiting for path in _files_of(table, one)}
    files = {path: file_name(path) for one in dead for path in _files_of(table, one)}
    since = min(one.sequence_number for one in dead)
    kept = find_reachable(table, frozenset(files.values()), since, entries=False)
    locations = Locations.from_table(table)
    ours = (path for path, name in files.items() if name not in kept and path not in needed)
    inside = (
        path for path in ours if locations.contains(path) or locations.is_beside_metadata(path)
    )
    return sum(_delete_file(table.io, path) for path in inside)


def _files_of(table: LoadedTable, written: WrittenMetadata) -> Iterator[str]:
    """Yield what was written for it, each list after its manifests; of a list that is gone,
    nothing."""
    for path in written.lists:
        with suppress(MetadataFileGone):
            manifests = read_manifest_list(table.io, path)
            yield from (m.path for m in manifests if m.added_snapshot_id in written.snapshot_ids)
            yield path


MAX_SAID = 1_000  # paths of files that stay, with the reason of each


@dataclass(frozen=True)
class ExpiredRemoval:
    """Removal of files that only expired snapshots named (`expiry.file_cleanup`). `outside`: why
    one outside the table's own locations stays, "" = it may go; None: all of them stay. `left`:
    path -> why the file stays, up to `MAX_SAID`."""

    table: LoadedTable
    outside: Callable[[str], str] | None
    left: dict[str, str] = field(default_factory=dict)

    @cached_property
    def at_once(self) -> int:
        """Number of files that one request removes."""
        found = s3_bucket(self.table.io, self.table.metadata.location)
        return 1 if found is None else DELETED

    def remove_allowed(self, paths: Sequence[str]) -> int:
        """Remove the files that may be removed, and return their number, counted as by
        `_delete_some`. Raises OSError, after which some are removed."""
        going = list[str]()
        for path in paths:
            if why := self._why_kept(path):
                if len(self.left) < MAX_SAID:
                    self.left[path] = why
            else:
                going.append(path)
        return _delete_some(self.table.io, going)

    def _why_kept(self, path: str) -> str:
        """Return why an expired file stays, or "" if it may be removed."""
        if self._locations.contains(path) or self._locations.is_beside_metadata(path):
            return ""
        try:
            place = resolve_file(path)
        except UnclearPath as unclear:
            return str(unclear)
        if place.is_local and (link := link_on(place.local_path)) is not None:
            return f"{link} is a link, which is not followed"
        return self.outside(path) if self.outside else "it lies outside the table's own locations"

    @cached_property
    def _locations(self) -> Locations:
        return Locations.from_table(self.table)


def remove_journal(table: LoadedTable, path: str) -> None:
    """Remove the journal of an expiry that has come to its end. Raises NotRemovable, OSError."""
    ours = file_name(path).startswith(PREFIX) and Locations.from_table(table).is_beside_metadata(
        path
    )
    if not ours or not path.endswith(".expiry"):
        raise NotRemovable(path)
    _delete_file(table.io, path)


def remove_old_metadata(table: LoadedTable, path: str) -> bool:
    """Remove a metadata file that the table's log does not name any more (`expiry.metadata_files`).
    True if it was there. Raises NotRemovable, OSError."""
    log = (table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log))
    named = file_name(path) in map(file_name, log)
    if (
        named
        or not Locations.from_table(table).is_beside_metadata(path)
        or ".metadata.json" not in path
    ):
        raise NotRemovable(path)
    return _delete_file(table.io, path)


def remove_statistics(table: LoadedTable, path: str) -> bool:
    """Remove a statistics file that the table does not name, or not any more. Return True if it was
    there. A foreign entry may contain any path, so only one with the name of statistics, next to
    the metadata, is removed. Raises NotRemovable, OSError."""
    named = chain(table.metadata.statistics, table.metadata.partition_statistics)
    name = file_name(path)
    is_kept = name in {file_name(one.statistics_path) for one in named}
    is_one = name.endswith(".stats") or name.startswith("partition-stats-")
    if is_kept or not is_one or not Locations.from_table(table).is_beside_metadata(path):
        raise NotRemovable(path)
    return _delete_file(table.io, path)


def remove_quarantined(table: LoadedTable, places: Sequence[str]) -> int:
    """Remove orphans whose time in the quarantine has passed, a thousand by one request on S3.
    `places`: below the table's location. Return how many; if each takes its own request, those that
    were there. Raises NotRemovable, OSError."""
    location = table.metadata.location.rstrip("/")
    paths = [f"{location}/{place}" for place in places]
    locations = Locations.from_table(table)
    for place, path in zip(places, paths, strict=True):
        if not place.startswith(f"{QUARANTINE}/") or not locations.contains(path):
            raise NotRemovable(f"{path}: {RemovalVerdict.OUTSIDE}")
    return _delete_some(table.io, paths)


class FileMove(NamedTuple):
    """`place`, `to`: below the table's location. `bytes`: as listed; 0: not known."""

    place: str
    to: str
    bytes: int = 0


def quarantine_place(at_ms: int, place: str) -> str:
    """Return where an orphan waits that was put aside at that time."""
    return f"{QUARANTINE}/{at_ms}/{place}"


def check_move(storage: Storage, move: FileMove) -> None:
    """Let pass nothing but a way into the quarantine of the table, or back out of it, between two
    clear places below its location without a link on the way. Raises NotRemovable."""
    inner, outer = sorted((move.place, move.to), key=len)
    folder, _, place = outer.removeprefix(f"{QUARANTINE}/").partition("/")
    if (
        outer != quarantine_place(int(folder) if folder.isdecimal() else -1, place)
        or place != inner
    ):
        raise NotRemovable(f"{move.place}: {move.to} is not its place in the quarantine, or back")
    root = resolve_folder(storage.location)
    for one in (inner, outer):
        found = parse_address(f"{storage.location}/{one}")
        below = () if found is None else found.segments[len(root.segments) :]
        is_inside = found is not None and found.is_within(root) and one == "/".join(below)
        if found is None or not is_inside or inner.startswith(f"{QUARANTINE}/"):
            raise NotRemovable(f"{one}: {RemovalVerdict.OUTSIDE}")
        if found.is_local and (link := link_on(found.local_path)) is not None:
            raise NotRemovable(f"{one}: {link} is a link, which is not followed")


def copies_to_move(storage: Storage) -> bool:
    """Return True if the store has no move. The test asks for an absent object, which takes no
    request."""
    files = storage.arrow_files
    if isinstance(files, AzureFileSystem):
        try:
            files.move(storage.arrow_path("firnline-none"), storage.arrow_path("firnline-none-2"))
        except NotImplementedError:
            return True
        except OSError:
            return False
    return isinstance(files, GcsFileSystem)


def rename_file(storage: Storage, move: FileMove) -> bool:
    """Move a file in a store that has a move. False: it is not there any more. Raises NotRemovable,
    OSError."""
    check_move(storage, move)
    if storage.local_path is not None:
        return move_file(f"{storage.local_path}/{move.place}", f"{storage.local_path}/{move.to}")
    files, source, target = (
        storage.arrow_files,
        storage.arrow_path(move.place),
        storage.arrow_path(move.to),
    )
    try:
        files.create_dir(folder_of(target), recursive=True)
        files.move(source, target)
    except FileNotFoundError:
        return False  # a writer has cleared it up itself
    return True


def copy_small_file(storage: Storage, move: FileMove) -> bool:
    """Make the copy that the first half of a move is, within the store. False: it is not there any
    more. Raises NotRemovable, OSError."""
    check_move(storage, move)
    try:
        storage.arrow_files.copy_file(storage.arrow_path(move.place), storage.arrow_path(move.to))
    except OSError:
        with suppress(StorageUnreachable):
            if not storage.has_file(move.place):
                return False
        raise
    return True


def copy_large_file(
    pool: ThreadPoolExecutor, storage: Storage, move: FileMove, part_bytes: int
) -> bool:
    """Copy, as `copy_small_file`, what the store does not copy by one request."""
    check_move(storage, move)
    return copy_in_parts(pool, storage.current_bucket, move.place, move.to, part_bytes)


def remove_copied(storage: Storage, moves: Sequence[FileMove]) -> dict[str, str]:
    """Remove what was copied where it was, a thousand by one request on S3; why some are still
    there, by their places. Raises NotRemovable, OSError."""
    for one in moves:
        check_move(storage, one)
    bucket, root = storage.find_bucket()
    if bucket is None:
        for one in moves:
            _delete_file(storage.io, f"{storage.location}/{one.place}")
        return {}
    try:
        bucket.delete_objects([f"{root}{one.place}" for one in moves])
    except NotRemoved as error:
        return {key[len(root) :]: why for key, why in error.keys.items()}
    return {}


def storage_now_ms(table: LoadedTable) -> int | None:
    """Return the storage's clock, which also dates the lists; None if it dates nothing. Writes an
    empty file, reads its time, and removes it; always the same file, so that killed sweeps leave
    only one. Raises OSError, also if another sweep was faster."""
    path = f"{metadata_folders(table)[0]}/{CLOCK}"
    try:
        return read_storage_clock(table.io, path)
    finally:
        _delete_file(table.io, path)


def remove_probe(table: LoadedTable, path: str) -> bool:
    """Remove what `firnline doctor` has written to see whether it may; by its name it is no content
    of a table. Raises NotRemovable, OSError."""
    if not file_name(path).startswith(PROBE) or not Locations.from_table(table).contains(path):
        raise NotRemovable(f"{path}: no probe in the table's locations")
    return _delete_file(table.io, path)


def _delete_file(io: FileIO, path: str) -> bool:
    """Delete a file: the one deletion. True if the file was there. Raises UnclearPath, OSError."""
    place = resolve_file(path)
    if place.is_local:
        return remove_file(place.local_path)
    try:
        io.delete(path)
    except FileNotFoundError:
        return False
    return True


def _delete_some(io: FileIO, paths: Sequence[str]) -> int:
    """Delete files, on S3 a thousand by one request, and return how many. Such a request does not
    report which ones were there, so all count; else only those that were. Raises OSError; some are
    deleted then."""
    alone, together = list[str](), list[tuple[S3Bucket, dict[str, str]]]()
    for _, group in groupby(paths, folder_of):  # keys that are handed out are had for the folder
        some = list(group)
        found = s3_bucket(io, some[0])  # a folder that ends with a blank is no clear path itself
        if found is None:
            alone += some
            continue
        bucket, _ = found
        keys = next((keys for one, keys in together if one == bucket), None)
        if keys is None:
            together.append((bucket, keys := {}))
        keys |= {resolve_file(path).key: path for path in some}
    gone = 0
    for bucket, keys in together:
        try:
            bucket.delete_objects([*keys])
        except NotRemoved as error:  # Arrow's way says why
            alone += [keys[one] for one in error.keys]
            gone += len(keys) - len(error.keys)
        except PermissionError:  # Arrow's way knows keys that have ended, and says what is wrong
            alone += keys.values()
        else:
            gone += len(keys)
    return gone + sum(_delete_file(io, path) for path in alone)
