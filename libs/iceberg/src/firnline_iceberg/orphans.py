"""Files below a table's location that nothing in the table names: what writers that died have left.

What is compared is the last segment of a path, not the path: a scheme, a host or an encoding that
somebody spells otherwise makes no file an orphan. Where two files share a name, both are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from firnline_domain.errors import TaskRefused
from firnline_domain.records.orphans import OrphanRefusal

from firnline_iceberg.below_location import Storage
from firnline_iceberg.inventory import Inventory
from firnline_iceberg.locations import Address, address, metadata_folders
from firnline_iceberg.naming import PREFIX, file_name, folder_of
from firnline_iceberg.removal import QUARANTINE, shares_files
from firnline_iceberg.retained_names import RetainedNames
from firnline_iceberg.s3_pages import NotOrdered
from firnline_iceberg.stored_files import StoredFile, StoredFiles
from firnline_iceberg.tables import LoadedTable

# More than half of a table's files are no leftovers: the location is another's, or the metadata
# that was read is not all there is.
MAX_SHARE, SURELY_FEW = 0.5, 100
_METADATA = (".metadata.json", ".metadata.json.gz")
_HADOOP = "version-hint.text"  # names a Hadoop catalog's newest metadata file


@dataclass(frozen=True)
class Orphans:
    """`seen`: files that were old enough to be orphans, those of the table among them."""

    files: tuple[StoredFile, ...]
    seen: int

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)


def find_orphans(
    table: LoadedTable,
    names: RetainedNames,
    storage: Storage,
    older_than_ms: int,
    inventory: str = "",
    forced: bool = False,
) -> Orphans:
    """Files stored before `older_than_ms`, by the storage's clock, that the table does not name.

    `inventory`: read in place of listing; what it calls an orphan is looked at. `forced`: a person
    has looked at how many there are. Firnline's own leftovers are no orphans: they stand on
    write-ahead lists (`sweeping`). Raises as `Storage` and `Inventory`, and TaskRefused with an
    `OrphanRefusal`.
    """

    def found(pages: Iterable[StoredFiles]) -> Orphans:
        return _found(table, names, pages, older_than_ms, forced)

    if not inventory:
        try:
            return found(storage.pages(skipped=QUARANTINE))
        except NotOrdered:
            return found(storage.pages())
    told = found(_from_inventory(table, Inventory.of(table.io, inventory)))
    there = storage.as_they_are(told.files)
    return Orphans(tuple(one for one in there if one.stored_at_ms < older_than_ms), told.seen)


def _from_inventory(table: LoadedTable, inventory: Inventory) -> Iterator[StoredFiles]:
    location = table.metadata.location.rstrip("/")
    root = address(location)
    prefix = "/".join(root.segments) + "/" if root else ""
    return (some.below(prefix) for some in inventory.below(location))


def _found(
    table: LoadedTable,
    names: RetainedNames,
    pages: Iterable[StoredFiles],
    older_than_ms: int,
    forced: bool,
) -> Orphans:
    folders = {address(folder) for folder in metadata_folders(table)}
    location = table.metadata.location.rstrip("/")
    found: list[StoredFile] = []
    seen = 0
    for some in pages:
        _refuse_others(some.places, location, folders)
        old: list[int] = np.flatnonzero(some.stored_at_ms < older_than_ms).tolist()
        known = names.known([file_name(some.places[number]) for number in old])
        unknown = [number for number, is_known in zip(old, known, strict=True) if not is_known]
        strange = [number for number in unknown if not _is_left(some.places[number])]
        seen += len(old) - len(unknown) + len(strange)
        # A key with an empty segment, or one that climbs, is nobody's: no move of it is clear.
        found += (
            some.at(number)
            for number in strange
            if address(f"{location}/{some.places[number]}") is not None
        )
    if not forced and len(found) > max(SURELY_FEW, MAX_SHARE * seen):
        text = f"{len(found):,} of {seen:,} files would be orphans"
        raise TaskRefused(OrphanRefusal.TOO_MANY, text)
    return Orphans(tuple(found), seen)


def _refuse_others(
    places: Sequence[str], location: str, folders: Collection[Address | None]
) -> None:
    """Raises TaskRefused where another table has a metadata file among these."""
    if _METADATA[0] not in "\n".join(places):  # 20 us a thousand in place of 100
        return
    for place in places:
        if (
            place.endswith(_METADATA)
            and not _is_aside(place)  # else one of the table's own old ones
            and address(f"{location}/{folder_of(place)}") not in folders
        ):
            text = f"another table keeps its metadata below this one's location: {place}"
            raise TaskRefused(OrphanRefusal.SHARED_LOCATION, text)


def refuse_unclear(table: LoadedTable) -> None:
    """Raises TaskRefused where the location says too little about whose files lie there."""
    if shares_files(table):
        raise TaskRefused(OrphanRefusal.GC_DISABLED, "gc.enabled=false: others have its files")
    root = address(table.metadata.location)
    if root is None or len(root.segments) < 1:
        text = f"{table.metadata.location} is the root of a bucket, or no clear place"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)
    current = address(folder_of(table.metadata_location))
    if current is None or not current.within(root):
        text = f"its metadata lies elsewhere, in {folder_of(table.metadata_location)}"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)


def _is_left(place: str) -> bool:
    """Whoever does not know it leaves it alone."""
    return _is_aside(place) or _is_hidden(place)


def _is_aside(place: str) -> bool:
    return place.startswith(f"{QUARANTINE}/")


def _is_hidden(place: str) -> bool:
    """Of Firnline, of a Hadoop catalog, or by the convention that Hadoop and Iceberg have."""
    name = file_name(place)
    if name.startswith(PREFIX) or name == _HADOOP:
        return True
    if "/." not in place and "/_" not in place and not place.startswith((".", "_")):
        return False
    return any(one.startswith((".", "_")) and "=" not in one for one in place.split("/"))
