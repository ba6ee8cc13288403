"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: str, rows: Iterable[str]) -> str:
    """Return a table whose head and rows are given as `a | b | c`."""
    line = " | ".join("---" for _ in head.split(" | "))
    return "".join(f"| {row} |\n" for row in (head, line, *rows))


def cell(text: str) -> str:
    """Return a text on one line, without what ends a cell or begins an element."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def quoted(names: Iterable[str]) -> str:
    """Return names as code, separated by commas, `-` if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "-"
