"""Reports forecasts, as lines of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.fleet.holds import rewrite_hold_of
from firnline_domain.policy.reasons.partition import Decision
from rich.console import Console
from rich.padding import Padding

from firnline_cli.forecast.catalog import Unread
from firnline_cli.forecast.forecast import Forecast
from firnline_cli.shared.formats import (
    Column,
    grid,
    number,
    plain,
    plain_cells,
    say,
    show_list,
    size,
    styled,
)

KINDS = {  # of the policy's numbers, in the order of their weight
    "equality_deletes": "equality-delete files",
    "global_deletes": "global equality-delete files",
    "position_deletes": "position-delete files",
    "fragments": "small files",
}


def why(decision: Decision) -> str:
    """Return the reason as text, with the numbers that are not zero."""
    numbers = decision.numbers
    counts = (f"{numbers[code]:,.0f} {words}" for code, words in KINDS.items() if numbers.get(code))
    return ": ".join(
        text for text in (decision.reason.replace("_", " "), ", ".join(counts)) if text
    )


def as_json(forecast: Forecast | Unread, now_ms: int) -> bool:
    """Print one line of JSON. Return False if the table could not be read."""
    click.echo(
        json.dumps(_unread(forecast) if isinstance(forecast, Unread) else _json(forecast, now_ms))
    )
    return isinstance(forecast, Forecast)


def _unread(unread: Unread) -> dict[str, Any]:
    return {"table": unread.name, "error": unread.why}


def _json(forecast: Forecast, now_ms: int) -> dict[str, Any]:
    hold = rewrite_hold_of(forecast.table, forecast.limits, now_ms)
    return {
        "table": forecast.table.counters.table.dotted,
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
                "data_files": partition.counters.holds.data.files,
                "data_bytes": partition.counters.holds.data.bytes,
            }
            for partition, decision in forecast.decisions
        ],
        "advice": [{"rule": one.rule, "finding": one.finding} for one in forecast.advice],
    }


TABLES = [Column(name) for name in ("table", "orders", "partitions", "bytes", "reason")]
PARTITIONS = [Column(name) for name in ("partition", "order", "reason", "files", "bytes")]


class TextReport:
    """A report as text: a line for each table, or for each partition of the only one. If the output
    is no terminal: tab-separated raw values under a header."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._terminal = Console()
        self._tables = self._wanting = self._orders = self._bytes = self._unread = 0

    def __call__(self, forecast: Forecast | Unread, now_ms: int) -> bool:
        """Show one table; False where it could not be read."""
        if isinstance(forecast, Unread):
            self._unread += 1
            say(f"{plain(forecast.name)}: not read: {plain(forecast.why)}", fg="red", err=True)
            return False
        self._count(forecast)
        if not self._terminal.is_terminal:
            self._as_rows(forecast)
            return True
        if self._whole:
            self._partitions(forecast.decisions)
        else:
            self._line(forecast)
        self._rest(forecast)
        return True

    def _count(self, forecast: Forecast) -> None:
        self._tables += 1
        self._wanting += bool(forecast.orders)
        self._orders += len(forecast.orders)
        self._bytes += _bytes(forecast.orders)

    def _line(self, forecast: Forecast) -> None:
        name = styled(forecast.table.counters.table.dotted, "bold" if forecast.orders else "dim")
        if not forecast.decisions:
            self._terminal.print(name.append("  no files"))
            return
        first = (forecast.orders or forecast.decisions)[0][1]
        parts = f"{len(forecast.orders):,} of {len(forecast.decisions):,} partitions"
        name.append(f"  {parts}, {size(_bytes(forecast.orders))}; {why(first)}")
        self._terminal.print(name)

    def _partitions(self, decisions: Iterable[tuple[Partition, Decision]]) -> None:
        right = ("files", "size")
        made = grid("", "partition", "", "why", *right, right=right)
        for partition, decision in decisions:
            data = partition.counters.holds.data
            verdict = styled("would order", "cyan") if decision.order else styled("no", "dim")
            label = partition.counters.scope.label
            figures = styled(number(data.files)), styled(size(data.bytes))
            made.add(styled(label), verdict, styled(why(decision)), *figures)
        self._terminal.print(made)

    def _as_rows(self, forecast: Forecast) -> None:
        """Print rows for programs, as all lists do."""
        if self._whole:
            rows = [
                (partition.counters.scope.label, decision.order, decision.reason, data.files,
                 data.bytes)
                for partition, decision in forecast.decisions
                for data in [partition.counters.holds.data]
            ]  # fmt: skip
            show_list(PARTITIONS, [plain_cells(row) for row in rows], self._terminal)
            return
        name, first = forecast.table.counters.table.dotted, (forecast.orders or forecast.decisions)
        reason = first[0][1].reason if first else "no_files"
        counts = len(forecast.orders), len(forecast.decisions), _bytes(forecast.orders)
        header = TABLES if self._tables == 1 else ()
        for row in (tuple(one.name for one in header), (name, *counts, reason)):
            if row:
                click.echo("\t".join(plain(str(one)) for one in row))

    def _rest(self, forecast: Forecast) -> None:
        if forecast.expiry.older_than_ms is not None:
            count = forecast.table.counters.snapshot_count
            some = f"some of {number(count)} snapshots" if count is not None else "some snapshots"
            later = forecast.expiry.begins_ms is not None
            verb = "announced to go, and go after the grace period" if later else "expired"
            self._below(f"{some} would be {verb}", "dim")
        for word in forecast.advice:
            self._below(f"{word.rule.replace('_', ' ')}: {word.finding}", "yellow")

    def _below(self, text: str, style: str) -> None:
        self._terminal.print(Padding(styled(text, style), (0, 0, 0, 4)))

    def sum_up(self) -> None:
        """Print the last line."""
        unread = f"; {self._unread:,} tables could not be read" if self._unread else ""
        say(
            f"Nothing was ordered. {self._orders:,} rewrites would be, in {self._wanting:,} of "
            f"{self._tables:,} tables, of {size(self._bytes)} of data{unread}.",
            err=not self._terminal.is_terminal,
        )


def _bytes(orders: Iterable[tuple[Partition, Decision]]) -> int:
    return sum(partition.counters.holds.data.bytes for partition, _ in orders)
