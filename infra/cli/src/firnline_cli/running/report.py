"""Reports a run, as lines of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.cost.dollars import in_dollars
from firnline_domain.policy.operator_requests import Order
from firnline_domain.policy.reasons import Decision
from firnline_domain.records.events import (
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
    TaskEnd,
)
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RewriteFinished, RowsCompared, TableResult, TaskFailed
from rich.console import Console

from firnline_cli.forecast.report import reason_text
from firnline_cli.shared.formats import (
    WIDTH,
    count_of,
    empty_grid,
    number_text,
    plain,
    size_text,
    styled_text,
)

TEN = 10
MAX_PASSED_OVER = 10  # partitions that a person is told of one by one


def scope_label(order: Order) -> str:
    """Return the partition of a task, or the whole table."""
    return order.scope.label if isinstance(order, RewriteFiles) else "whole table"


def facts_of(event: TaskEnd) -> dict[str, Any]:
    """Return the outcome of a task, as JSON facts."""
    match event:
        case RewriteCommitted():
            names = (
                *("snapshot_ids", "files_removed", "files_added", "bytes_before", "bytes_after"),
                *("equality_deletes_removed", "position_deletes_removed"),
                *("rows_in", "rows_masked", "rows_out", "mode", "groups_lost"),
            )
            facts = {name: getattr(event, name) for name in names}
            return {"outcome": "committed", "reason": event.reason or event.lost_reason, **facts}
        case RewriteConflicted():
            return {"outcome": "conflicted", "reason": event.reason, "detail": event.detail}
        case TaskFailed():
            return {"outcome": "failed", "reason": event.reason, "detail": event.message}
        case RewriteSkipped():
            return {"outcome": "nothing_to_do", "reason": event.reason}
        case TableResult(refused_reason=str(reason)):
            return {"outcome": "refused", "reason": reason}
        case TableResult():
            return {"outcome": "done", **event.figures}
    raise TypeError(f"{type(event).__name__} is no end of a task")


def words_of(event: TaskEnd) -> str:
    """Return the outcome of a task as text."""
    match event:
        case RewriteCommitted():
            deletes = event.equality_deletes_removed + event.position_deletes_removed
            gone = f"{event.rows_masked:,} dead rows gone, {count_of(event.rows_out, 'row')} kept"
            return (
                f"committed {number_text(event.files_removed)} -> "
                f"{count_of(event.files_added, 'file')}, {size_text(event.bytes_before)} -> "
                f"{size_text(event.bytes_after)}, "
                f"{count_of(deletes, 'delete file')} applied; {gone}"
                + (f"; by Iceberg's own action ({event.reason})" if event.reason else "")
            )
        case RewriteConflicted():
            return f"not committed: {event.reason.words} ({event.reason}): {event.detail}"
        case TaskFailed():
            return f"failed: {event.reason}: {event.message}"
        case RewriteSkipped():
            return "nothing to do"
        case TableResult(refused_reason=str(reason)):
            return f"refused: {reason}"
        case TableResult():
            figures = event.figures.items()
            said = ", ".join(f"{value:,.0f} {name.replace('_', ' ')}" for name, value in figures)
            return f"done: {said}" if said else "done"
    raise TypeError(f"{type(event).__name__} is no end of a task")


def price_of(orders: Sequence[Order]) -> str:
    """Return the cost of the tasks together, and what readers and storage are spared; '' if they
    were not weighed."""
    sums = [
        sum(order.numbers.get(one, order.numbers.get(other, 0.0)) for order in orders)
        for one, other in (
            ("price_cpu_s", "rewrite_cpu_s"),
            ("price_dollars", "rewrite_dollars"),
            ("gain_dollars_a_day", "spared_dollars_a_day"),
        )
    ]
    cpu_s, price, gain = sums
    if not cpu_s:
        return ""
    seconds = f"{cpu_s:,.0f}" if cpu_s >= TEN else f"{cpu_s:.2g}"
    costs, spares = in_dollars(price), in_dollars(gain)
    return f"It would cost about {seconds} CPU s, {costs}, and spare {spares} a day."


class TextRunReport:
    """A `firnline_standalone.runs.RunReport` as lines of text."""

    def __init__(self) -> None:
        self._terminal = Console(stderr=False)
        if not self._terminal.is_terminal:
            self._terminal.width = WIDTH
        self._status = self._terminal.status("")

    def show_activity(self, text: str) -> None:
        """Show what is under way, on the last line of a terminal; '' = nothing is."""
        if not self._terminal.is_terminal:
            return
        if text:
            self._status.update(plain(text))
            self._status.start()
        else:
            self._status.stop()

    def on_progress(self, done: int, total: int) -> None:
        self.show_activity(
            f"rewriting, {done:,} of {total:,} groups of files" if total else "running"
        )

    def print_line(self, text: str, style: str = "") -> None:
        """Print one line, above the progress."""
        self._terminal.print(styled_text(text, style), soft_wrap=not self._terminal.is_terminal)

    @property
    def terminal(self) -> Console:
        """Return the console that the report writes to."""
        return self._terminal

    def report_passed_over(self, decided: Sequence[tuple[Partition, Decision]]) -> None:
        """Report partitions for which nothing is done."""
        for partition, decision in decided[:MAX_PASSED_OVER]:
            self.print_line(
                f"{partition.counters.scope.label}: not now: {reason_text(decision)}", "dim"
            )
        if (left := len(decided) - MAX_PASSED_OVER) > 0:
            self.print_line(f"and {left:,} more partitions", "dim")

    def show_previews(self, found: Sequence[tuple[Order, Any]]) -> None:
        """Show what each task would rewrite."""
        right = ("files", "size", "into", "deletes")
        made = empty_grid("", "partition", "", "why", *right, right=right)
        for order, one in found:
            note = one.refused or (
                f"by Iceberg's own action: {one.handed_over}" * bool(one.handed_over)
            )
            what = order.action if not one.refused else "refused"
            deletes = one.equality_deletes + one.position_deletes
            figures = (
                number_text(one.files + one.converted),
                size_text(one.bytes),
                number_text(one.outputs) if one.outputs else "-",
                number_text(deletes),
            )
            made.add_row(
                styled_text(scope_label(order)),
                styled_text(what, "red" if one.refused else "cyan"),
                styled_text(note or order.reason.replace("_", " ")),
                *map(styled_text, figures),
            )
        self._terminal.print(made)
        files = sum(one.files for _, one in found)
        deletes = sum(one.equality_deletes + one.position_deletes for _, one in found)
        taken = sum(one.bytes for _, one in found)
        beside = f" and {count_of(deletes, 'delete file')}" if deletes else ""
        shown = next((one for _, one in found if not one.refused), found[0][1])
        said = f"{count_of(files, shown.noun)}{beside} ({size_text(taken)})"
        if snapshots := sum(one.snapshots for _, one in found):
            said = f"{count_of(snapshots, 'snapshot')} and {said}"
        if price := price_of([order for order, one in found if not one.refused]):
            self.print_line(price)
        others = [one.says for _, one in found if one.says]
        self.print_line("Dry run." if others else f"Dry run: would {shown.verb} {said}.")
        if partitions := sum(one.partitions for _, one in found):
            self.print_line(
                f"Rows of {count_of(partitions, 'partition')} would be removed from the table."
            )
        for text in others:
            self.print_line(text)
        if refs := [name for _, one in found for name in one.refs]:
            self.print_line(f"Tags and branches that would be removed: {', '.join(refs)}.")

    def on_start(self, orders: Sequence[Order], left: int) -> None:
        for order in orders:
            self.print_line(
                f"{scope_label(order)}: {order.action} ({order.reason.replace('_', ' ')})", "cyan"
            )

    def on_result(self, result: Any) -> None:
        self.show_activity("committing")
        if isinstance(result, RewriteFinished) and result.groups:
            outputs = sum(len(group.outputs) for group in result.groups)
            self.print_line(f"{result.scope.label}: {count_of(outputs, 'file')} written", "dim")

    def on_end(self, order: Order, event: Any, again: bool) -> None:
        failed = isinstance(event, RewriteConflicted | TaskFailed)
        text = f"{scope_label(order)}: {words_of(event)}" + ("; once more" if again else "")
        self.print_line(text, "yellow" if again else "red" if failed else "green")

    def on_comparison(self, outcome: RowsCompared) -> None:
        style = {"equal": "green", "differ": "red"}.get(outcome.outcome, "yellow")
        detail = f": {outcome.reason}, {outcome.detail}" if outcome.reason else ""
        rows = f", {outcome.after.rows:,} rows" if outcome.after else ""
        self.print_line(f"{outcome.scope.label}: read back, {outcome.outcome}{rows}{detail}", style)

    def report_swept(self, removed: int) -> None:
        """Report the files that an earlier run had left."""
        if removed:
            self.print_line(f"{count_of(removed, 'file')} of earlier runs removed", "dim")

    def report_nothing(self, why: str) -> None:
        """Report that there is no task to carry out."""
        self.print_line(f"nothing to do{': ' + why if why else ''}")


class JsonRunReport:
    """A `firnline_standalone.runs.RunReport` as JSON, one object a line."""

    def show_activity(self, text: str) -> None: ...

    def on_progress(self, done: int, total: int) -> None: ...

    def _print_json(self, kind: str, **facts: Any) -> None:
        click.echo(json.dumps({"event": kind, **facts}))

    def report_passed_over(self, decided: Sequence[tuple[Partition, Decision]]) -> None:
        for partition, decision in decided:
            scope = partition.counters.scope
            self._print_json("passed_over", partition=scope.partition, reason=decision.reason)

    def show_previews(self, found: Sequence[tuple[Order, Any]]) -> None:
        for order, one in found:
            self._print_json("would_run", **_order_facts(order), **vars(one))

    def on_start(self, orders: Sequence[Order], left: int) -> None:
        for order in orders:
            self._print_json("begun", **_order_facts(order), attempt=order.attempt)

    def on_result(self, result: Any) -> None: ...

    def on_end(self, order: Order, event: Any, again: bool) -> None:
        self._print_json("ended", **_order_facts(order), again=again, **facts_of(event))

    def on_comparison(self, outcome: RowsCompared) -> None:
        scope = outcome.scope
        self._print_json("compared", partition=scope.partition, outcome=outcome.outcome)

    def report_swept(self, removed: int) -> None:
        if removed:
            self._print_json("swept", files=removed)

    def report_nothing(self, why: str) -> None:
        self._print_json("nothing_to_do", why=plain(why))


def _order_facts(order: Order) -> dict[str, Any]:
    scope = order.scope if isinstance(order, RewriteFiles) else None
    return {
        "table": order.table.dotted_name,
        "task_id": order.task_id,
        "action": order.action,
        "partition": scope.partition if scope else None,
        "why": order.reason,
    }
