"""The names of the files of manifests, eight bytes each. A manifest never changes: an expiry reads
those that came since the last one, and not all that the table retains, which are thousands at a
commit a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.metadata.manifest_digest import Hashes
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import content_names

MAX_BYTES = 64_000_000  # of all tables together: 100,000 manifests of a dozen files
MANIFEST_BYTES = 500  # of memory, beside the names: its path, an array, their places


@dataclass(frozen=True)
class RememberedNames:
    """Of the manifests that were asked for last. For threads."""

    cache: FileCache = field(default_factory=lambda: FileCache(MAX_BYTES))

    def names(self, table: LoadedTable, path: str, live_alone: bool) -> Hashes:
        """As `retained_names.content_names`; a manifest that is known may be gone meanwhile."""
        return self.cache.get_weighed(
            (table.identity.key, path, live_alone),
            lambda: content_names(table, path, live_alone),
            lambda found: MANIFEST_BYTES + found.nbytes,
        )
