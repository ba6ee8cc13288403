"""The table of before and after, and the verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from firnline_demo.measure import TableHealth, Upkeep
from firnline_demo.model import RowDifference


@dataclass(frozen=True)
class TableReport:
    """The demo's results for one table."""

    name: str
    writer: str
    commits: int
    writer_retries: int
    before: TableHealth
    after: TableHealth
    upkeep: Upkeep
    difference: RowDifference


@dataclass(frozen=True)
class DemoVerdict:
    """The exit code and its reason."""

    code: int
    text: str


def judge(reports: list[TableReport]) -> DemoVerdict:
    """Return the verdict: exit code 0 only if every row is as it should be and something was
    compacted."""
    for report in reports:
        if not report.difference.is_empty:
            lost, extra = report.difference.lost, report.difference.resurrected
            examples = "; ".join(report.difference.examples)
            text = f"{report.name}: {lost} rows lost, {extra} resurrected: {examples}"
            return DemoVerdict(1, text)
    if not any(report.upkeep.rewrites for report in reports):
        return DemoVerdict(2, "nothing was compacted")
    rows = sum(report.after.rows for report in reports)
    return DemoVerdict(0, f"rows verified: {rows:,} rows of {len(reports)} tables, none differs")


def print_report(console: Console, reports: list[TableReport]) -> None:
    """Print the tables before and after: two rows per table, a column per figure that matters."""
    table = Table(
        title="Before Firnline, and after",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 0),
        pad_edge=False,
    )
    table.add_column("table", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("files", "deletes", "stored", "to read", "full read", "rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(report.name, "before", *health_figures(report.before))
        table.add_row(f"[dim]{report.writer}[/dim]", "after", *health_figures(report.after))
        table.add_section()
    console.print(table)
    for report in reports:
        console.print(
            f"{report.name}: {report.commits} commits by its writer"
            f" ({report.writer_retries} tried again), {report.upkeep.rewrites} rewrites by Firnline"
            f" that took away {report.upkeep.files_removed} data files"
            f" and {report.upkeep.deletes_removed} delete files"
        )


def health_figures(health: TableHealth) -> tuple[str, ...]:
    """Return a table's health in the columns' order."""
    return (
        f"{health.data_files}",
        f"{health.delete_files}",
        size_text(health.bytes),
        size_text(health.read_bytes),
        f"{health.read_seconds:.2f} s",
        f"{health.rows:,}",
    )


def as_json(reports: list[TableReport], end: DemoVerdict) -> str:
    """Return all results, for programs."""
    body = {"tables": [asdict(report) for report in reports], "verdict": asdict(end)}
    return json.dumps(body, indent=2)


def size_text(count: int) -> str:
    """Return bytes in a unit that fits: `12.3 kB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")
