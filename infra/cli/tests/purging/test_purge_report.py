"""What a person is told to do next about rows that shall be off the storage."""

from __future__ import annotations

import shlex
from pathlib import Path

from firnline_cli.purging.report import Archived, look_for_rows
from firnline_domain.identity import TableName
from firnline_domain.records.parts.archive_marks import ROUND
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables


def test_the_command_for_the_archive_can_be_pasted_into_a_shell() -> None:
    where = "mail = 'm7@x' and p = 1"
    _, _, command = Archived("cold.orders", 3).archive_step(where).partition("; ")
    assert shlex.split(command) == ["firnline", "purge", "cold.orders", "--where", where]


def test_an_archive_that_holds_none_asks_for_nothing() -> None:
    assert Archived("cold.orders", 0).archive_step("p = 1") == ""


def test_nothing_is_proved_where_the_archive_is_not_found(tmp_path: Path) -> None:
    """The setting that names it was changed, or one of the tables was renamed."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    made = catalog.make("db.t", Schema(NestedField(1, "p", LongType())))
    name = TableName(str(made.metadata.table_uuid), ("db",), "t")
    assert look_for_rows(MemoryTables(catalog).load(name), None, "p = 1", {}, 0).is_proved
    with made.transaction() as change:
        change.set_properties({ROUND: "firnline-round"})
    found = look_for_rows(MemoryTables(catalog).load(name), None, "p = 1", {}, 0)
    assert not found.is_proved
    assert f"{ROUND}=firnline-round" in [*found.next_steps()][-1]
