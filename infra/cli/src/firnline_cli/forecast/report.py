"""Reports forecasts, as lines of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.fleet.holds import find_rewrite_hold
from firnline_domain.policy.reasons import Decision
from rich.console import Console
from rich.padding import Padding

from firnline_cli.forecast.catalog import Unread
from firnline_cli.forecast.forecast import Forecast
from firnline_cli.shared.formats import (
    Column,
    empty_grid,
    number_text,
    plain,
    plain_cells,
    print_wrapped,
    show_list,
    size_text,
    styled_text,
)

KINDS = {  # of the policy's numbers, in the order of their weight
    "equality_deletes": "equality-delete files",
    "global_deletes": "global equality-delete files",
    "position_deletes": "position-delete files",
    "fragments": "small files",
}


def reason_text(decision: Decision) -> str:
    """Return the reason as text, with the numbers that are not zero."""
    numbers = decision.numbers
    counts = (f"{numbers[code]:,.0f} {words}" for code, words in KINDS.items() if numbers.get(code))
    return ": ".join(
        text for text in (decision.reason.replace("_", " "), ", ".join(counts)) if text
    )


def as_json(forecast: Forecast | Unread) -> bool:
    """Print one line of JSON. Return False if the table could not be read."""
    click.echo(
        json.dumps(
            _unread_json(forecast) if isinstance(forecast, Unread) else _forecast_json(forecast)
        )
    )
    return isinstance(forecast, Forecast)


def _unread_json(unread: Unread) -> dict[str, Any]:
    return {"table": unread.name, "error": unread.why}


def _forecast_json(forecast: Forecast) -> dict[str, Any]:
    hold = find_rewrite_hold(forecast.given)
    return {
        "table": forecast.table.counters.table.dotted_name,
        "orders": len(forecast.orders),
        "hold": hold.reason if hold else None,
        "expiry": forecast.expiry.reason,
        "partitions": [
            {
                "spec_id": partition.counters.scope.spec_id,
                "partition": partition.counters.scope.partition,
                "order": decision.order,
                "reason": decision.reason,
                "numbers": decision.numbers,
                "data_files": partition.counters.holds.all_data.files,
                "data_bytes": partition.counters.holds.all_data.bytes,
            }
            for partition, decision in forecast.decisions
        ],
        "advice": [{"rule": one.rule, "finding": one.finding} for one in forecast.advice],
    }


TABLES = [Column(name) for name in ("table", "orders", "partitions", "bytes", "reason")]
PARTITIONS = [Column(name) for name in ("partition", "order", "reason", "files", "bytes")]


class TextForecast:
    """A report as text: a line for each table, or for each partition of the only one. If the output
    is no terminal: tab-separated raw values under a header."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._terminal = Console()
        self._tables = self._wanting = self._orders = self._bytes = self._unread = 0

    def __call__(self, forecast: Forecast | Unread) -> bool:
        """Show one table; False if it could not be read."""
        if isinstance(forecast, Unread):
            self._unread += 1
            print_wrapped(
                f"{plain(forecast.name)}: not read: {plain(forecast.why)}", fg="red", err=True
            )
            return False
        self._add_to_totals(forecast)
        if not self._terminal.is_terminal:
            self._as_rows(forecast)
            return True
        if self._whole:
            self._print_partitions(forecast.decisions)
        else:
            self._print_line(forecast)
        self._print_rest(forecast)
        return True

    def _add_to_totals(self, forecast: Forecast) -> None:
        self._tables += 1
        self._wanting += bool(forecast.orders)
        self._orders += len(forecast.orders)
        self._bytes += _data_bytes(forecast.orders)

    def _print_line(self, forecast: Forecast) -> None:
        name = styled_text(
            forecast.table.counters.table.dotted_name, "bold" if forecast.orders else "dim"
        )
        if not forecast.decisions:
            self._terminal.print(name.append("  no files"))
            return
        first = (forecast.orders or forecast.decisions)[0][1]
        parts = f"{len(forecast.orders):,} of {len(forecast.decisions):,} partitions"
        name.append(f"  {parts}, {size_text(_data_bytes(forecast.orders))}; {reason_text(first)}")
        self._terminal.print(name)

    def _print_partitions(self, decisions: Iterable[tuple[Partition, Decision]]) -> None:
        right = ("files", "size")
        made = empty_grid("", "partition", "", "why", *right, right=right)
        for partition, decision in decisions:
            data = partition.counters.holds.all_data
            verdict = (
                styled_text("would order", "cyan") if decision.order else styled_text("no", "dim")
            )
            label = partition.counters.scope.label
            figures = styled_text(number_text(data.files)), styled_text(size_text(data.bytes))
            made.add_row(styled_text(label), verdict, styled_text(reason_text(decision)), *figures)
        self._terminal.print(made)

    def _as_rows(self, forecast: Forecast) -> None:
        """Print rows for programs, as all lists do."""
        if self._whole:
            rows = [
                (partition.counters.scope.label, decision.order, decision.reason, data.files,
                 data.bytes)
                for partition, decision in forecast.decisions
                for data in [partition.counters.holds.all_data]
            ]  # fmt: skip
            show_list(PARTITIONS, [plain_cells(row) for row in rows], self._terminal)
            return
        name, first = (
            forecast.table.counters.table.dotted_name,
            (forecast.orders or forecast.decisions),
        )
        reason = first[0][1].reason if first else "no_files"
        counts = len(forecast.orders), len(forecast.decisions), _data_bytes(forecast.orders)
        header = TABLES if self._tables == 1 else ()
        for row in (tuple(one.name for one in header), (name, *counts, reason)):
            if row:
                click.echo("\t".join(plain(str(one)) for one in row))

    def _print_rest(self, forecast: Forecast) -> None:
        if forecast.expiry.older_than_ms is not None:
            count = forecast.table.counters.snapshot_count
            some = (
                f"some of {number_text(count)} snapshots" if count is not None else "some snapshots"
            )
            later = forecast.expiry.begins_ms is not None
            verb = "announced to go, and go after the grace period" if later else "expired"
            self._print_indented(f"{some} would be {verb}", "dim")
        for word in forecast.advice:
            self._print_indented(f"{word.rule.replace('_', ' ')}: {word.finding}", "yellow")

    def _print_indented(self, text: str, style: str) -> None:
        self._terminal.print(Padding(styled_text(text, style), (0, 0, 0, 4)))

    def sum_up(self) -> None:
        """Print the last line."""
        unread = f"; {self._unread:,} tables could not be read" if self._unread else ""
        print_wrapped(
            f"Nothing was ordered. {self._orders:,} rewrites would be, in {self._wanting:,} of "
            f"{self._tables:,} tables, of {size_text(self._bytes)} of data{unread}.",
            err=not self._terminal.is_terminal,
        )


def _data_bytes(orders: Iterable[tuple[Partition, Decision]]) -> int:
    return sum(partition.counters.holds.all_data.bytes for partition, _ in orders)
