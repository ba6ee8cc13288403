"""Numbers, ages and names for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import click
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

STATUS = {
    "in_flight": "at work",
    "would_order": "would order",
    "cooling": "cooling",
    "backing_off": "backing off",
    "parked": "parked",
}
COLOURS = {  # of tables, partitions and tasks
    "stuck": "red",
    "paused": "red",
    "working": "cyan",
    "failing": "yellow",
    "held": "yellow",
    "resync": "yellow",
    "healthy": "green",
    "off": "dim",
    "not_counted": "dim",
    "in_flight": "cyan",
    "would_order": "cyan",
    "running": "cyan",
    "committed": "green",
    "conflicted": "yellow",
    "overdue": "yellow",
    "backing_off": "yellow",
    "failed": "red",
    "parked": "red",
    "idle": "dim",
    "skipped": "dim",
    "cooling": "dim",
}


def age(at_ms: int | None, now_ms: int) -> str:
    """`now`, `45 s`, `3 min`, `2 h`, `4 d`; `-` where it is not known."""
    if at_ms is None:
        return "-"
    seconds = max(now_ms - at_ms, 0) / 1000
    for limit, size, unit in (
        (1.5, 0, "now"),
        (90, 1, "s"),
        (5400, 60, "min"),
        (172_800, 3600, "h"),
    ):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}" if size else unit
    return f"{seconds / 86_400:.0f} d"


def moment(at_ms: int | None) -> str:
    """`2026-11-23T04:12:09.120Z`; '' where it is not known."""
    if at_ms is None:
        return ""
    text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def counted(count: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: Any) -> str:
    """`12,345`; `-` where it is not known."""
    return "-" if value is None else f"{value:,}"


def size(value: Any) -> str:
    """`1.2 MB`, decimal units; `-` where it is not known."""
    return "-" if value is None else decimal(value)


def plain(text: str) -> str:
    """Without control characters: names from outside do not drive the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def styled(text: str, style: str = "") -> Text:
    """Text for rich, never markup."""
    return Text(plain(text), style=style)


def status_text(code: str) -> Text:
    """A status in its colour; an unknown one as it is."""
    return styled(STATUS.get(code, code), COLOURS.get(code, ""))


class Column(NamedTuple):
    """Of a list. Where a terminal is too narrow, the columns with the highest `drop` go first;
    those with 0 stay."""

    name: str
    is_number: bool = False
    drop: int = 0


class Cell(NamedTuple):
    """One value: as it is, for programs, and as people read it."""

    raw: Any
    text: Text


def show_list(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], terminal: Console) -> None:
    """A grid on a terminal; elsewhere tab-separated raw values under a header."""
    if not terminal.is_terminal:
        click.echo("\t".join(column.name for column in columns))
        for row in rows:
            click.echo("\t".join("" if one.raw is None else plain(str(one.raw)) for one in row))
        return
    kept = fitting(columns, rows, terminal.width)
    grid = Table(box=None, header_style="dim", pad_edge=False)
    for column in kept:
        is_name = column == columns[0]
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        grid.add_column(column.name, justify=justify, no_wrap=not is_name, overflow="fold")
    for row in rows:
        cells = zip(columns, row, strict=True)
        grid.add_row(*(cell.text for column, cell in cells if column in kept))
    terminal.print(grid)


def fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int
) -> Sequence[Column]:
    """The columns for which there is room, so that no name is folded."""
    widths = {
        column: max([len(column.name), *(row[at].text.cell_len for row in rows)])
        for at, column in enumerate(columns)
    }
    kept = list(columns)
    while sum(widths[one] + 2 for one in kept) - 2 > width:
        widest = max(kept, key=lambda one: one.drop)
        if not widest.drop:
            break
        kept.remove(widest)
    return kept
