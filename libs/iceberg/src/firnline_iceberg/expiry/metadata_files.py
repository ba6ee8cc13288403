"""Metadata files that a table's log does not name any more. Each commit leaves one, and unless the
table says otherwise, nobody removes it (spec, "Table Metadata and Snapshots")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from firnline_domain.errors import StorageUnreachable

from firnline_iceberg.removal.removal import remove_old_metadata
from firnline_iceberg.storage.paths import file_name, folder_of
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import read_uuid

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
_NAME = re.compile(
    r"(\d{5,18})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
THREADS = 8


def cleanup_settings(versions: int) -> dict[str, str]:
    """Return the settings with which a catalog keeps no more files than the current one and so many
    before it."""
    return {DELETE_AFTER_COMMIT: "true", PREVIOUS_VERSIONS: str(versions)}


def changed_properties(table: LoadedTable, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted properties that the table does not have, or has with other values."""
    properties = table.properties
    return {
        name: text
        for name, text in wanted.items()
        if properties.get(name, "").strip().lower() != text
    }


def remove_unlogged(table: LoadedTable) -> int:
    """Remove the table's metadata files that are older than all in its log, by the version in their
    names, and return how many. Lists the folder, and reads the beginning of each file before its
    removal: another table may have had the same location.

    Removes nothing from a table whose catalog has a prefix: the branches of one table share a
    folder, and each has its own current file. Raises StorageUnreachable."""
    log = [table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log)]
    numbers = [metadata_version(file_name(path)) for path in log]
    known = [one for one in numbers if one is not None]
    if table.identity.prefix or len(known) < len(numbers):
        return 0
    paths = list(_older_files(table, folder_of(table.metadata_location), min(known)))
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(lambda path: _remove_if_old(table, path), paths))
    except OSError as error:
        raise StorageUnreachable(f"old metadata files: {error}") from error


def metadata_version(name: str) -> int | None:
    """Return the version of a metadata file, by its name; None for a name that Iceberg's catalogs
    do not give."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def _older_files(table: LoadedTable, folder: str, than: int) -> Iterator[str]:
    for file in Storage(table, folder).list_files():
        number = metadata_version(file.place)
        if number is not None and number < than:
            yield f"{folder}/{file.place}"


def _remove_if_old(table: LoadedTable, path: str) -> bool:
    is_own = read_uuid(table, path) == str(table.metadata.table_uuid)
    return is_own and remove_old_metadata(table, path)
