"""The table of before and after, and the verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from firnline_demo.measure import Health, Upkeep
from firnline_demo.model import Difference


@dataclass(frozen=True)
class TableReport:
    """All that the demo found out about one table."""

    name: str
    writer: str
    commits: int
    writer_retries: int
    before: Health
    after: Health
    upkeep: Upkeep
    difference: Difference


@dataclass(frozen=True)
class Verdict:
    """Exit code and its reason."""

    code: int
    text: str


def verdict(reports: list[TableReport]) -> Verdict:
    """0 only where every row is as it should be and something was compacted."""
    for report in reports:
        if not report.difference.none:
            lost, extra = report.difference.lost, report.difference.resurrected
            examples = "; ".join(report.difference.examples)
            text = f"{report.name}: {lost} rows lost, {extra} resurrected: {examples}"
            return Verdict(1, text)
    if not any(report.upkeep.rewrites for report in reports):
        return Verdict(2, "nothing was compacted")
    rows = sum(report.after.rows for report in reports)
    return Verdict(0, f"rows verified: {rows:,} rows of {len(reports)} tables, none differs")


def show(console: Console, reports: list[TableReport]) -> None:
    """Before and after, a row per table and figure that matters."""
    table = Table(title="Before Firnline, and after", title_justify="left")
    table.add_column("table")
    table.add_column("writer", overflow="fold")
    for heading in ("commits", "files", "delete files", "stored", "bytes to read", "full read"):
        table.add_column(heading, justify="right")
    for heading in ("rewrites", "rows"):
        table.add_column(heading, justify="right")
    for report in reports:
        old, new = report.before, report.after
        table.add_row(
            report.name,
            report.writer,
            str(report.commits),
            f"{old.data_files} → {new.data_files}",
            f"{old.delete_files} → {new.delete_files}",
            f"{size(old.bytes)} → {size(new.bytes)}",
            f"{size(old.read_bytes)} → {size(new.read_bytes)}",
            f"{old.read_seconds:.2f} → {new.read_seconds:.2f} s",
            str(report.upkeep.rewrites),
            f"{old.rows:,} → {new.rows:,}",
        )
    console.print(table)


def as_json(reports: list[TableReport], end: Verdict) -> str:
    """Everything, for machines."""
    body = {"tables": [asdict(report) for report in reports], "verdict": asdict(end)}
    return json.dumps(body, indent=2)


def size(count: int) -> str:
    """Bytes in a unit that fits: `12.3 kB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")
