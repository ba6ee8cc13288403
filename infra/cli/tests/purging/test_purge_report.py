"""What a person is told to do next about rows that shall be off the storage."""

from __future__ import annotations

import shlex

from firnline_cli.purging.report import Archived


def test_the_command_for_the_archive_can_be_pasted_into_a_shell() -> None:
    where = "mail = 'm7@x' and p = 1"
    _, _, command = Archived("cold.orders", 3).step(where).partition("; ")
    assert shlex.split(command) == ["firnline", "purge", "cold.orders", "--where", where]


def test_an_archive_that_holds_none_asks_for_nothing() -> None:
    assert Archived("cold.orders", 0).step("p = 1") == ""
