"""Numbers, ages and names for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import click
from rich.console import Console, ConsoleOptions
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

WIDTH = 160  # where the output is no terminal

STATUS = {
    "in_flight": "running",
    "would_order": "would order",
    "cooling": "cooling",
    "backing_off": "backing off",
    "parked": "suspended",
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


def age_text(at_ms: int | None, now_ms: int) -> str:
    """Return `now`, `45 s`, `3 min`, `2 h`, `4 d`; `-` if it is not known."""
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


def timestamp_text(at_ms: int | None) -> str:
    """Return `2026-11-23T04:12:09.120Z`; '' if it is not known."""
    if at_ms is None:
        return ""
    text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def count_of(count: int, noun: str) -> str:
    """Return `1 file`, `12,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number_text(value: Any) -> str:
    """Return `12,345`; `-` if it is not known."""
    return "-" if value is None else f"{value:,}"


def size_text(value: Any) -> str:
    """Return `1.2 MB`, decimal units; `-` if it is not known."""
    return "-" if value is None else decimal(value)


def plain(text: str) -> str:
    """Return the text without control characters: names from outside do not control the
    terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def styled_text(text: str, style: str = "") -> Text:
    """Return text for rich, never markup."""
    return Text(plain(text), style=style)


def status_text(code: str) -> Text:
    """Return a status in its colour; an unknown one as it is."""
    return styled_text(STATUS.get(code, code), COLOURS.get(code, ""))


def print_wrapped(
    text: str, err: bool = False, hang: int = 0, head: int | None = None, **style: Any
) -> None:
    """Print text: on a terminal no line is wider than it, and continued lines are indented by
    `hang` characters; elsewhere as it is. `style`: as `click.style` has it, of the first `head`
    characters, or of all."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = Console(file=stream).width
        text = "\n".join(fold_line(line, width, hang) for line in text.split("\n"))
    head = len(text) if head is None else head
    click.echo(click.style(text[:head], **style) + text[head:], err=err)


def fold_line(line: str, width: int, hang: int = 0) -> str:
    """Cut a line at its blanks to a width. A word that is longer is also cut."""
    hang += len(line[hang:]) - len(line[hang:].lstrip(" "))
    if hang > width // 2:
        hang = 0
    pieces = Text(line[hang:]).wrap(Console(width=width), width - hang, overflow="fold")
    return line[:hang] + ("\n" + " " * hang).join(piece.plain.rstrip() for piece in pieces)


class Column(NamedTuple):
    """A column of a grid. If a terminal is too narrow, the columns with the highest `drop` are left
    out first; those with 0 stay, and their text is folded. Numbers are not folded."""

    name: str
    is_number: bool = False
    drop: int = 0


class Cell(NamedTuple):
    """One value: as it is, for programs, and as text."""

    raw: Any
    text: Text


class Grid:
    """Rows without lines, at most as wide as its terminal. The first column names the row: it is
    folded last."""

    def __init__(self, columns: Sequence[Column], title: str = "") -> None:
        self._columns = columns
        self._title = title
        self._rows: list[Sequence[Text]] = []

    def add_row(self, *cells: Text) -> None:
        """Add a row; `cells` are in the order of the columns."""
        self._rows.append(cells)

    def __rich_console__(self, terminal: Console, options: ConsoleOptions) -> Iterator[Table]:
        made = Table(box=None, header_style="dim", pad_edge=False)
        made.title, made.title_justify, made.title_style = self._title or None, "left", "bold"
        widths = self._widths(options.max_width)
        for at, width in widths.items():
            column = self._columns[at]
            justify: Literal["left", "right"] = "right" if column.is_number else "left"
            made.add_column(column.name, justify=justify, width=width, overflow="fold")
        for row in self._rows:
            made.add_row(*(row[at] for at in widths))
        yield made

    def _widths(self, most: int) -> dict[int, int]:
        """Return the widths of the columns that are shown, by their places."""
        found = {
            at: max([len(column.name), *(row[at].cell_len for row in self._rows)])
            for at, column in enumerate(self._columns)
        }
        while (over := _total_width(found) - most) > 0:
            widest = max(found, key=lambda at: self._columns[at].drop)
            if self._columns[widest].drop:
                del found[widest]
                continue
            prose = [at for at in found if at and not self._columns[at].is_number]
            if not self._narrow(found, prose, over, LEAST) and not self._narrow(
                found, [0], over, NAME
            ):
                if len(found) == 1:
                    return {0: max(most, 1)}
                del found[max(found)]  # nothing is left to fold: a narrow terminal
        return found

    def _narrow(self, widths: dict[int, int], places: Sequence[int], over: int, least: int) -> bool:
        """Take up to `over` characters of the widest columns. Return False if all are at their
        least."""
        began = _total_width(widths)
        for _ in range(over):
            at = max(places, key=lambda one: widths[one], default=-1)
            if at < 0 or widths[at] <= max(least, len(self._columns[at].name)):
                break
            widths[at] -= 1
        return _total_width(widths) < began


GAP = 2  # characters between two columns
LEAST = 12  # characters of a column of words before names are folded
NAME = 24  # characters of a name before a column goes


def _total_width(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def plain_cells(row: Sequence[Any]) -> list[Cell]:
    """Return cells whose text is the value itself."""
    return [Cell(one, styled_text(str(one))) for one in row]


def show_list(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], terminal: Console) -> None:
    """Show a grid on a terminal; elsewhere tab-separated raw values under a header."""
    if not terminal.is_terminal:
        click.echo("\t".join(column.name for column in columns))
        for row in rows:
            click.echo("\t".join("" if one.raw is None else plain(str(one.raw)) for one in row))
        return
    made = Grid(columns)
    for row in rows:
        made.add_row(*(one.text for one in row))
    terminal.print(made)


def empty_grid(title: str, *columns: str, right: tuple[str, ...] = ()) -> Grid:
    """Return an empty grid under a bold title. `right`: its columns of numbers."""
    return Grid([Column(name, name in right) for name in columns], title)
