"""An assessment on a terminal, and its progress there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from firnline_cli.assessment.findings import FindingKind, age_in_hours_or_days
from firnline_cli.assessment.readiness import lake_words, table_words
from firnline_cli.assessment.summary import LakeSummary
from firnline_cli.assessment.verdict import PlannedRewrite, TableAssessment, by_need
from firnline_cli.shared.formats import (
    WIDTH,
    count_of,
    empty_grid,
    number_text,
    size_text,
    styled_text,
)

UNREAD_SHOWN = 10
COLOURS = {
    FindingKind.HAZARD: "red",
    FindingKind.DEBT: "yellow",
    FindingKind.READERS: "magenta",
    FindingKind.METADATA: "cyan",
    FindingKind.ADVICE: "dim",
}
TITLES = {
    FindingKind.HAZARD: "hazards",
    FindingKind.DEBT: "delete debt",
    FindingKind.READERS: "not read by all",
    FindingKind.METADATA: "metadata",
    FindingKind.ADVICE: "advice",
}


class ProgressBar:
    """A progress bar on stderr, if that is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        disabled = not console.is_terminal
        self._bar = Bar(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=disabled
        )
        self._task = self._bar.add_task("listing tables", total=None)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show_listed(self, count: int) -> None:
        """Show the number of tables listed so far."""
        self._bar.update(self._task, completed=count)

    def begin(self, total: int) -> None:
        """Show that reading begins."""
        self._bar.update(self._task, description="reading metadata", total=total, completed=0)

    def show_read(self, done: int) -> None:
        """Show the number of tables read."""
        self._bar.update(self._task, completed=done)


def cpu_time_text(value: float) -> str:
    """Return CPU seconds in a unit that fits: `40 CPU s`, `3.2 CPU h`."""
    if value >= 7200:
        return f"{value / 3600:,.1f} CPU h"
    if value >= 120:
        return f"{value / 60:,.0f} CPU min"
    return f"{value:,.0f} CPU s" if value >= 10 or value == 0 else f"{value:.1f} CPU s"


def words_of(rewrite: PlannedRewrite, now_ms: int) -> str:
    """Return what is done to which partition, and why; or when."""
    reason = rewrite.reason.replace("_", " ")
    what = f"{rewrite.action} {rewrite.partition}"
    if rewrite.now:
        return f"{what} ({reason})"
    if rewrite.due_ms is None:
        return f"{what}: waits ({reason})"
    return f"{what} in {age_in_hours_or_days(max(rewrite.due_ms - now_ms, 0))} ({reason})"


def plan_of(summary: LakeSummary) -> str:
    """Return what Firnline would do, and its benefit; '' if there is nothing to do."""
    if not summary.orders + summary.later:
        return ""
    later = f" and {summary.later:,} later, when they pay off for readers" if summary.later else ""
    return (
        f"Firnline would begin with {count_of(summary.orders, 'rewrite')} now{later}: "
        f"{size_text(summary.planned_bytes)}, {cpu_time_text(summary.cost_s)} once. Readers would "
        f"be spared {cpu_time_text(summary.spared_s)} a day, at {summary.reads_per_hour:g} scans "
        "an hour of each partition. At the writers' pace, upkeep is "
        f"{cpu_time_text(summary.upkeep_s)} a day."
    )


def print_assessment(
    summary: LakeSummary,
    verdicts: Sequence[TableAssessment],
    limit: int,
    page: Path | None,
    now_ms: int,
) -> None:
    """Print the assessment to stdout."""
    terminal = Console()
    if not terminal.is_terminal:
        terminal.width = WIDTH
    for line in _summary_lines(summary):
        terminal.print(styled_text(line), soft_wrap=not terminal.is_terminal)
    ranked = sorted((one for one in verdicts if not one.error), key=by_need)
    listed = [one for one in ranked if one.is_sick or one.findings][:limit]
    if listed:
        terminal.print()
        _print_tables(terminal, listed, now_ms)
    _print_unread(terminal, summary, verdicts)
    _print_end(terminal, len(ranked), len(listed), page)


def _summary_lines(summary: LakeSummary) -> Iterator[str]:
    stopped = f"Interrupted: {summary.assessed:,} of {summary.listed:,} tables. "
    yield (
        f"{stopped if summary.interrupted else ''}{count_of(summary.assessed, 'table')} read in "
        f"{summary.seconds:.0f} s: {number_text(summary.data_files)} data files with "
        f"{size_text(summary.data_bytes)}, {number_text(summary.delete_files)} delete files."
    )
    said = (
        f"{TITLES[kind]} {summary.findings[kind]:,}"
        for kind in FindingKind
        if summary.findings.get(kind)
    )
    yield f"{summary.sick:,} need something. Tables by finding: {', '.join(said) or 'none'}."
    if plan := plan_of(summary):
        yield plan
    yield from lake_words(summary.readiness)


def _print_tables(terminal: Console, verdicts: Sequence[TableAssessment], now_ms: int) -> None:
    right = ("files", "deletes", "size", "rewrites", "cost", "spared/day")
    made = empty_grid("Tables that need most first", "table", *right, "first", right=right)
    for one in verdicts:
        assert one.facts is not None
        first = one.first[0] if one.first else None
        what = words_of(first, now_ms) if first else "-"
        made.add_row(
            styled_text(one.dotted_name, "bold" if one.orders else ""),
            styled_text(number_text(one.facts.data_files)),
            styled_text(number_text(one.facts.deletes.files)),
            styled_text(size_text(one.facts.data_bytes)),
            styled_text(
                f"{one.orders:,} + {one.later:,}" if one.later else number_text(one.orders)
            ),
            styled_text(cpu_time_text(one.cost_s) if one.planned_rewrites else "-"),
            styled_text(cpu_time_text(one.spared_s) if one.planned_rewrites else "-"),
            styled_text(what if one.enabled else "switched off (firnline.enabled)"),
        )
    terminal.print(made)
    for one in verdicts:
        shown = [finding for finding in one.findings if finding.kind is not FindingKind.ADVICE]
        if shown:
            terminal.print()
            terminal.print(styled_text(one.dotted_name, "bold"))
        for finding in shown:
            text = f"{TITLES[finding.kind]}: {finding.text}"
            text += f". {finding.remedy}" if finding.remedy else ""
            terminal.print(Padding(styled_text(text, COLOURS[finding.kind]), (0, 0, 0, 2)))
        for readiness in one.readiness if shown else ():
            terminal.print(Padding(styled_text(table_words(readiness), "dim"), (0, 0, 0, 2)))


def _print_unread(
    terminal: Console, summary: LakeSummary, verdicts: Sequence[TableAssessment]
) -> None:
    unread = sorted((one for one in verdicts if one.error), key=lambda one: one.name)
    if unread:
        terminal.print()
        terminal.print(
            styled_text(f"{count_of(len(unread), 'table')} could not be read", "bold red")
        )
    for one in unread[:UNREAD_SHOWN]:
        terminal.print(Padding(styled_text(f"{one.dotted_name}: {one.error}", "red"), (0, 0, 0, 2)))
    if (left := len(unread) - UNREAD_SHOWN) > 0:
        terminal.print(styled_text(f"  and {left:,} more: --json names all", "dim"))
    for name, why in summary.unlisted.items():
        terminal.print(styled_text(f"{name} could not be listed: {why}", "red"))


def _print_end(terminal: Console, known: int, shown: int, page: Path | None) -> None:
    if (left := known - shown) > 0:
        terminal.print()
        terminal.print(styled_text(f"{left:,} more tables: --limit, --html or --json.", "dim"))
    if page is not None:
        terminal.print(styled_text(f"The page: {page}"))
    terminal.print(styled_text("Nothing was written."))
