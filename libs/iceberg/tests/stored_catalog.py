"""The in-memory catalog, with metadata files on disk."""

from __future__ import annotations

from typing import Any

from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table

from tests.kit.memory_catalog import MemoryCatalog


class StoredCatalog(MemoryCatalog):
    """With metadata files, which are up to date whenever a table is loaded."""

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        place = table.io.new_output(table.metadata_location)
        ToOutputFile.table_metadata(table.metadata, place, overwrite=True)
        return table
