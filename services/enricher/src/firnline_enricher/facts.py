"""What the enricher keeps of a table between commits: how to read its manifests, its settings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from firnline_domain.identity import TableName
from firnline_domain.tallies import DEFAULT_TARGET_BYTES
from firnline_iceberg.partitions import PartitionText
from firnline_iceberg.tables import LoadedTable
from pyiceberg.io import FileIO

TARGET_BYTES = "write.target-file-size-bytes"
_PREFIXES = ("firnline.", "self-optimizing.", "history.expire.", "write.delete.")
_EXACT = (TARGET_BYTES, "gc.enabled")
_MOST_TABLES = 2000  # a few kB each


class Tables(Protocol):
    """Where tables are loaded from: `firnline_iceberg.tables.Tables` or its twin in memory."""

    def load(self, table: TableName) -> LoadedTable:
        """Raises TableGone, RetryLater."""


@dataclass(frozen=True)
class TableFacts:
    """The part of a table's metadata that does not change with every commit."""

    format_version: int
    settings: Mapping[str, str]
    partition_texts: Mapping[int, PartitionText]
    io: FileIO

    @property
    def target_bytes(self) -> int:
        """Target file size; the default where it is unset or not a number."""
        text = self.settings.get(TARGET_BYTES, "")
        return int(text) if text.isdecimal() else DEFAULT_TARGET_BYTES


def facts_of(table: LoadedTable) -> TableFacts:
    """What to keep of a loaded table."""
    texts = {spec_id: table.partition_text(spec_id) for spec_id in table.metadata.specs()}
    return TableFacts(table.format_version, settings_of(table.properties), texts, table.io)


def settings_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The table properties that matter to the planner."""
    return {k: v for k, v in properties.items() if k.startswith(_PREFIXES) or k in _EXACT}


class FactsCache:
    """Facts by table uuid, the least recently used forgotten first."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._facts: OrderedDict[str, TableFacts] = OrderedDict()

    def get(self, table: TableName) -> TableFacts:
        """Kept facts, else loaded ones. Raises TableGone, RetryLater."""
        if (facts := self.peek(table)) is not None:
            return facts
        self.load(table)
        return self._facts[table.uuid]

    def peek(self, table: TableName) -> TableFacts | None:
        """Kept facts, if there are any."""
        if table.uuid not in self._facts:
            return None
        self._facts.move_to_end(table.uuid)
        return self._facts[table.uuid]

    def load(self, table: TableName) -> LoadedTable:
        """The table as it is now; its facts replace the kept ones. Raises TableGone, RetryLater."""
        self.forget(table)
        loaded = self._tables.load(table)
        self._facts[table.uuid] = facts_of(loaded)
        if len(self._facts) > _MOST_TABLES:
            self._facts.popitem(last=False)
        return loaded

    def forget(self, table: TableName) -> None:
        """Load it anew next time: it changed, or its credentials ran out."""
        self._facts.pop(table.uuid, None)

    def clear(self) -> None:
        """Forget all: commits were missed, so any of them may have changed a table."""
        self._facts.clear()
