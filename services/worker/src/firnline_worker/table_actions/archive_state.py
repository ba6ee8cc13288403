"""Reads the state of a table and its archive for `firnline_domain.commits.archive_rounds`: from
manifests, and from footers if `row_age` asks for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from firnline_domain.base.numbers import parse_number
from firnline_domain.commits.archive_rounds import Archive, CopiedFile, Source, SourceFile
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN, Scope
from firnline_domain.records.parts.archive_marks import FILES, GIVEN_UP, ROUND, SETTLED
from firnline_iceberg.archive.archive_table import spec_map
from firnline_iceberg.archive.file_copies import copy_key
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.outputs.names import parse_copy_name
from firnline_iceberg.scan.planning import DeleteIndex, live_entries
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.loaded_table import LoadedTable

AreOld = Callable[[Iterable[DataFileEntry]], Iterator[tuple[DataFileEntry, bool]]]
NO_ARCHIVE = Archive("")


@dataclass(frozen=True)
class Held:
    """A table at one head. `entries`: by key, of all files that `source` names."""

    source: Source
    entries: dict[str, DataFileEntry]


def source_of(table: LoadedTable, head: int, are_old: AreOld, wanted: Collection[str] = ()) -> Held:
    """Read the state of a table. `wanted`: keys of files to look for, of any age. Raises
    TaskRefused if a file is listed twice, MetadataFileGone, RetryLater."""
    found = live_entries(table, head, Detail.REFERENCES, deletes=True)
    index = DeleteIndex(one for one in found if isinstance(one, DeleteFileEntry))
    entries, live, old = dict[str, DataFileEntry](), dict[str, SourceFile](), list[SourceFile]()
    whole = live_entries(table, head, Detail.WHOLE, deletes=False)
    for entry, is_due in are_old(one for one in whole if isinstance(one, DataFileEntry)):
        key = copy_key(table.identity.uuid, entry.normal_path)
        if not is_due and key not in wanted:
            continue
        if key in entries:
            raise TaskRefused("listed_twice", f"{entry.path} is in the table twice")
        if entry.encrypted:
            raise TaskRefused("archive_unfit", f"{entry.path} is encrypted with the table's keys")
        dead = bool(index.for_data_file(entry))
        made = SourceFile(key, entry.scope, entry.records, entry.bytes, dead)
        entries[key], live[key] = entry, made
        if is_due:
            old.append(made)
    old.sort(key=lambda one: (one.scope, one.key))
    properties = table.properties
    source = Source(
        properties.get(ROUND, ""),
        properties.get(GIVEN_UP, ""),
        live,
        old,
        find_undone_rounds(table, head),
    )
    return Held(source, entries)


def find_undone_rounds(table: LoadedTable, head: int) -> list[str]:
    """Return rounds that were removed from the table, and came back by a rollback that the table
    still shows. If the history behind the head breaks off, older snapshots may be of it."""
    line = list(table.ancestors(head))
    ids, last = {one.snapshot_id for one in line}, line[-1]
    since = 0 if last.parent_snapshot_id is None else last.sequence_number or 0
    others = (
        one
        for one in table.snapshots
        if one.snapshot_id not in ids and (one.sequence_number or 0) >= since
    )
    rounds = (one.summary.get(ROUND) if one.summary is not None else None for one in others)
    return sorted({one for one in rounds if one})


def archive_of(
    table: LoadedTable, archive: LoadedTable | None
) -> tuple[Archive, dict[str, DataFileEntry]]:
    """Return the archive at its head, and its copies' entries by key. Raises TaskRefused if a copy
    exists twice, MetadataFileGone, RetryLater."""
    if archive is None:
        return NO_ARCHIVE, {}
    entries, foreign = dict[str, DataFileEntry](), set[Scope]()
    back = {there: own for own, there in spec_map(table, archive).items()}
    head = archive.head_id(MAIN)
    for entry in () if head is None else live_entries(archive, head, Detail.COUNTS, deletes=False):
        assert isinstance(entry, DataFileEntry)
        name = parse_copy_name(file_name(entry.path))
        if name is None:
            if entry.spec_id not in back:
                text = f"{entry.path} is of a partition spec that the table does not have"
                raise TaskRefused("archive_changed", text)
            foreign.add(Scope(back[entry.spec_id], entry.partition))
        elif entries.setdefault(name[1], entry) is not entry:
            text = f"{entry.path} and {entries[name[1]].path} are copies of one file"
            raise TaskRefused("archive_changed", text)
    copies = {key: _copied_file(key, one) for key, one in entries.items()}
    properties = archive.properties
    count = int(parse_number(properties.get(FILES, "")) or 0)
    settled = properties.get(SETTLED, "")
    state = Archive(properties.get(ROUND, ""), count, copies, frozenset(foreign), settled)
    return state, entries


def _copied_file(key: str, entry: DataFileEntry) -> CopiedFile:
    name = parse_copy_name(file_name(entry.path))
    assert name is not None
    return CopiedFile(key, name[0], entry.records, entry.bytes)
