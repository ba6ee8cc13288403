"""Where a table's own files lie, and whose a metadata file is."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import normal_path

from firnline_iceberg.storage.local_files import link_on
from firnline_iceberg.storage.paths import FileAddress, folder_of, parse_address
from firnline_iceberg.table.loaded_table import LoadedTable

HEAD_BYTES = 64 << 10  # in which a file says whose it is; all writers say it before the schemas
CONTENT_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


@dataclass(frozen=True)
class Locations:
    """Directories of one table, as its metadata has them; its owner can set most of them."""

    content: tuple[FileAddress, ...]  # whatever is below is the table's
    metadata: tuple[FileAddress, ...]  # metadata files lie in these, not below

    @classmethod
    def from_table(cls, table: LoadedTable) -> Locations:
        """Return the locations of a table as it was loaded."""
        properties = table.properties
        named = [properties[key] for key in CONTENT_PROPERTIES if key in properties]
        content = _addresses([table.metadata.location, *named])
        return cls(content, _addresses(metadata_folders(table)))

    def contains(self, path: str) -> bool:
        """Return True if a data, delete or metadata file at this path would be the table's."""
        return self._lies_in(path, self.content, below=True)

    def is_beside_metadata(self, path: str) -> bool:
        """Return True if a file lies directly in a folder of the table's metadata files."""
        return self._lies_in(path, self.metadata, below=False)

    def _lies_in(self, path: str, places: tuple[FileAddress, ...], below: bool) -> bool:
        """Return True for a file in one of the folders; `below`: or anywhere below. False for a
        folder, a path that cannot be resolved, and a path through a link."""
        found, folder = parse_address(path), parse_address(folder_of(path))
        if found is None or folder is None or path.endswith("/"):
            return False
        if not any(found.is_within(one) and (below or folder == one) for one in places):
            return False
        return not found.is_local or link_on(found.local_path) is None


def metadata_folders(table: LoadedTable) -> tuple[str, ...]:
    """Return the directories of the metadata files over time."""
    files = [table.metadata_location]
    files += [entry.metadata_file for entry in table.metadata.metadata_log]
    return tuple({normal_path(path): path for path in map(folder_of, files)}.values())


def earlier_locations(table: LoadedTable) -> tuple[str, ...]:
    """Return the locations that the table had before its current one, as far as its metadata log
    contains files in their folder `metadata`."""
    own = normal_path(table.metadata.location).rstrip("/")
    folders = [folder.rstrip("/") for folder in metadata_folders(table)]
    parents = [one.removesuffix("/metadata") for one in folders if one.endswith("/metadata")]
    return tuple(one for one in parents if normal_path(one) != own)


def _addresses(paths: Iterable[str]) -> tuple[FileAddress, ...]:
    """Parse paths of folders, each once; leave out what cannot be parsed and a machine's root."""
    found = (parse_address(path) for path in paths)
    # the root of a machine is no table's; that of a bucket may be
    return tuple(dict.fromkeys(one for one in found if one and (one.segments or not one.is_local)))


def refuse_links(table: LoadedTable) -> None:
    """Refuse a table if its location, or the folder of its metadata, is reached through a link of
    this host: then the files below may be another table's. Raises TaskRefused."""
    for path in (table.metadata.location, folder_of(table.metadata_location)):
        found = parse_address(path)
        if found and found.is_local and (link := link_on(found.local_path)) is not None:
            text = (
                f"{path}: {link} is a link to {os.path.realpath(link)}, and files behind it can be "
                "another table's; set a location without links"
            )
            raise TaskRefused("link_in_location", text)


def read_uuid(table: LoadedTable, path: str) -> str:
    """Read the table uuid in a metadata file; '': it has none, or is missing. Raises OSError."""
    try:
        with table.io.new_input(path).open() as source:
            head = source.read(HEAD_BYTES)
    except FileNotFoundError:
        return ""
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return ""
    found = re.search(rb'"table-uuid"\s*:\s*"([^"]*)"', head)
    return found[1].decode(errors="replace").lower() if found else ""
