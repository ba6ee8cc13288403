"""Files below a table's location that nothing in the table names: what writers that died have left.

What is compared is the last segment of a path, not the path: a scheme, a host or an encoding that
somebody spells otherwise makes no file an orphan. Where two files share a name, both are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from firnline_domain.errors import TaskRefused
from firnline_domain.records.parts.orphans import OrphanRefusal

from firnline_iceberg.removal.bucket_inventory import Inventory
from firnline_iceberg.removal.file_ownership import Ownership, refuse_marks, refuse_other_tables
from firnline_iceberg.removal.removal import QUARANTINE, shares_files
from firnline_iceberg.storage.paths import PREFIX, file_name, folder_of, parse_address
from firnline_iceberg.storage.s3_listing import NotOrdered
from firnline_iceberg.storage.stored_files import ListedObject, StoredFiles
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import metadata_folders, refuse_links
from firnline_iceberg.table.retained_names import RetainedNames
from firnline_iceberg.table.shared_locations import KnownCatalogs, refuse_shared

# More than half of a table's files are no leftovers: the location is another's, or the metadata
# that was read is not all there is.
MAX_SHARE, SURELY_FEW = 0.5, 100
_HADOOP = "version-hint.text"  # names a Hadoop catalog's newest metadata file
READERS = 8  # files that are looked into at once


@dataclass(frozen=True)
class Orphans:
    """`seen`: files that were old enough to be orphans, those of the table among them. `kept`:
    place -> why a file stays that the table does not name."""

    files: tuple[ListedObject, ...]
    seen: int
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        return sum(one.bytes for one in self.files)


def find_orphans(
    table: LoadedTable,
    names: RetainedNames,
    storage: Storage,
    older_than_ms: int,
    inventory: str = "",
    forced: bool = False,
) -> Orphans:
    """Find the table's own files (`file_ownership`) that it does not name and that were stored
    before `older_than_ms`, by the storage's clock.

    `inventory`: read instead of listing the location. Orphans by it are checked in the storage,
    as are the marks of tables of other kinds. `forced`: an operator accepts any number of
    orphans. Firnline's own leftovers are no orphans: they are on write-ahead lists (`sweep`).
    Raises the errors of `Storage` and `Inventory`, and TaskRefused with an `OrphanRefusal` or a
    `SharingRefusal`."""
    refuse_marks(table, listed=not inventory)

    def find_in(pages: Iterable[StoredFiles]) -> Orphans:
        return _match_pages(table, names, pages, older_than_ms, forced)

    if not inventory:
        try:
            told = find_in(storage.list_pages(skipped=QUARANTINE))
        except NotOrdered:
            told = find_in(storage.list_pages())
        return _without_foreign(table, replace(told, kept={**told.kept, **_find_links(storage)}))
    told = find_in(_from_inventory(table, Inventory.open_location(table.io, inventory)))
    there = storage.stat_files(told.files)
    old = tuple(one for one in there if one.stored_at_ms < older_than_ms)
    return _without_foreign(table, replace(told, files=old))


def _find_links(storage: Storage) -> dict[str, str]:
    refuse_other_tables([f"{one}/" for one in storage.links], storage.location)
    return dict.fromkeys(storage.links, "it is a link, which is not followed")


def _without_foreign(table: LoadedTable, told: Orphans) -> Orphans:
    """Leave out those whose content is of something else."""
    judge = Ownership(table).why_not_by_content
    with ThreadPoolExecutor(READERS) as pool:
        why = dict(zip(told.files, pool.map(judge, told.files), strict=True))
    kept = {one.place: text for one, text in why.items() if text}
    files = tuple(one for one in told.files if one.place not in kept)
    return replace(told, files=files, kept={**told.kept, **kept})


def _from_inventory(table: LoadedTable, inventory: Inventory) -> Iterator[StoredFiles]:
    location = table.metadata.location.rstrip("/")
    root = parse_address(location)
    prefix = "/".join(root.segments) + "/" if root else ""
    return (some.files_below(prefix) for some in inventory.files_below(location))


def _match_pages(
    table: LoadedTable,
    names: RetainedNames,
    pages: Iterable[StoredFiles],
    older_than_ms: int,
    forced: bool,
) -> Orphans:
    folders, owner = metadata_folders(table), Ownership(table)
    location = table.metadata.location.rstrip("/")
    found: list[ListedObject] = []
    kept: dict[str, str] = {}
    seen = 0
    for some in pages:
        refuse_other_tables(some.places, location, folders, QUARANTINE)
        old: list[int] = np.flatnonzero(some.stored_at_ms < older_than_ms).tolist()
        known = names.are_known([file_name(some.places[number]) for number in old])
        unknown = [number for number, is_known in zip(old, known, strict=True) if not is_known]
        strange = [number for number in unknown if not _is_left(some.places[number])]
        seen += len(old) - len(unknown) + len(strange)
        for number in strange:
            place = some.places[number]
            if parse_address(f"{location}/{place}") is None:
                kept[place] = "its path may be read in two ways"
            elif why := owner.why_not_named(place):
                kept[place] = why
            else:
                found.append(some.file_at(number))
    if not forced and len(found) > max(SURELY_FEW, MAX_SHARE * seen):
        text = f"{len(found):,} of {seen:,} files would be orphans"
        raise TaskRefused(OrphanRefusal.TOO_MANY, text)
    return Orphans(tuple(found), seen, kept)


def refuse_unclear(catalogs: KnownCatalogs, table: LoadedTable) -> None:
    """Refuse a table whose location does not show whose files it holds, or may hold files of
    another table in the catalogs. Raises TaskRefused, RetryLater."""
    refuse_links(table)
    if shares_files(table):
        raise TaskRefused(OrphanRefusal.GC_DISABLED, "gc.enabled=false: others have its files")
    root = parse_address(table.metadata.location)
    if root is None or len(root.segments) < 1:
        text = f"{table.metadata.location} is the root of a bucket, or no clear place"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)
    current = parse_address(folder_of(table.metadata_location))
    if current is None or not current.is_within(root):
        text = f"its metadata lies elsewhere, in {folder_of(table.metadata_location)}"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)
    refuse_shared(catalogs, table)


def _is_left(place: str) -> bool:
    """Return True for a place that is never an orphan: set aside or hidden."""
    return _is_quarantined(place) or _is_hidden(place)


def _is_quarantined(place: str) -> bool:
    """Return True for a place in the quarantine, where orphans wait before they are deleted."""
    return place.startswith(f"{QUARANTINE}/")


def _is_hidden(place: str) -> bool:
    """Return True for hidden places of Firnline, of a Hadoop catalog, or by the convention that
    Hadoop and Iceberg have."""
    name = file_name(place)
    if name.startswith(PREFIX) or name == _HADOOP:
        return True
    if "/." not in place and "/_" not in place and not place.startswith((".", "_")):
        return False
    return any(one.startswith((".", "_")) and "=" not in one for one in place.split("/"))
