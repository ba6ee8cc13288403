"""Forecasts as lines for people, and as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from firnline_domain.counters.work import Partition
from firnline_domain.policy.decisions import Decision
from firnline_domain.policy.holds import rewrite_hold_of
from rich.console import Console
from rich.padding import Padding

from firnline_cli._figures import number, plain, size, styled
from firnline_cli.explain import WIDTH, grid
from firnline_cli.forecast.catalog import Unread
from firnline_cli.forecast.forecast import Forecast

KINDS = {  # of the policy's numbers, in the order of their weight
    "equality_deletes": "equality-delete files",
    "global_deletes": "global equality-delete files",
    "position_deletes": "position-delete files",
    "fragments": "small files",
}


def why(decision: Decision) -> str:
    """The reason in words, with the numbers that are not zero."""
    numbers = decision.numbers
    counts = (f"{numbers[code]:,.0f} {words}" for code, words in KINDS.items() if numbers.get(code))
    return ": ".join(
        text for text in (decision.reason.replace("_", " "), ", ".join(counts)) if text
    )


def as_json(found: Forecast | Unread, now_ms: int) -> bool:
    """One line of JSON; False where the table could not be read."""
    click.echo(json.dumps(_unread(found) if isinstance(found, Unread) else _json(found, now_ms)))
    return isinstance(found, Forecast)


def _unread(found: Unread) -> dict[str, Any]:
    return {"table": found.name, "error": found.why}


def _json(found: Forecast, now_ms: int) -> dict[str, Any]:
    hold = rewrite_hold_of(found.table, found.limits, now_ms)
    return {
        "table": found.table.counters.table.dotted,
        "orders": len(found.orders),
        "hold": hold.reason if hold else None,
        "expiry": found.expiry.reason,
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
            for partition, decision in found.decisions
        ],
        "advice": [{"rule": one.rule, "finding": one.finding} for one in found.advice],
    }


class TextReport:
    """For people: a line for each table, or for each partition of the only one."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._terminal = Console()
        if not self._terminal.is_terminal:
            self._terminal.width = WIDTH
        self._tables = self._wanting = self._orders = self._bytes = self._unread = 0

    def __call__(self, found: Forecast | Unread, now_ms: int) -> bool:
        """Show one table; False where it could not be read."""
        if isinstance(found, Unread):
            self._unread += 1
            click.secho(f"{plain(found.name)}: not read: {plain(found.why)}", fg="red", err=True)
            return False
        self._count(found)
        if self._whole:
            self._partitions(found.decisions)
        else:
            self._line(found)
        self._rest(found)
        return True

    def _count(self, found: Forecast) -> None:
        self._tables += 1
        self._wanting += bool(found.orders)
        self._orders += len(found.orders)
        self._bytes += _bytes(found.orders)

    def _line(self, found: Forecast) -> None:
        name = styled(found.table.counters.table.dotted, "bold" if found.orders else "dim")
        if not found.decisions:
            self._terminal.print(name.append("  no files"))
            return
        first = (found.orders or found.decisions)[0][1]
        parts = f"{len(found.orders):,} of {len(found.decisions):,} partitions"
        name.append(f"  {parts}, {size(_bytes(found.orders))}; {why(first)}")
        self._terminal.print(name)

    def _partitions(self, decisions: Iterable[tuple[Partition, Decision]]) -> None:
        right = ("files", "size")
        made = grid("", "partition", "", "why", *right, right=right)
        for partition, decision in decisions:
            data = partition.counters.holds.data
            verdict = styled("would order", "cyan") if decision.order else styled("no", "dim")
            label = styled(partition.counters.scope.label)
            figures = styled(number(data.files)), styled(size(data.bytes))
            made.add_row(label, verdict, styled(why(decision)), *figures)
        self._terminal.print(made)

    def _rest(self, found: Forecast) -> None:
        if found.expiry.older_than_ms is not None:
            count = found.table.counters.snapshot_count
            some = f"some of {number(count)} snapshots" if count is not None else "some snapshots"
            later = found.expiry.begins_ms is not None
            verb = "announced to go, and go after the grace period" if later else "expired"
            self._below(f"{some} would be {verb}", "dim")
        for word in found.advice:
            self._below(f"{word.rule.replace('_', ' ')}: {word.finding}", "yellow")

    def _below(self, text: str, style: str) -> None:
        self._terminal.print(Padding(styled(text, style), (0, 0, 0, 4)))

    def sum_up(self) -> None:
        """The last line."""
        unread = f"; {self._unread:,} tables could not be read" if self._unread else ""
        click.echo(
            f"Nothing was ordered. {self._orders:,} rewrites would be, in {self._wanting:,} of "
            f"{self._tables:,} tables, of {size(self._bytes)} of data{unread}."
        )


def _bytes(orders: Iterable[tuple[Partition, Decision]]) -> int:
    return sum(partition.counters.holds.data.bytes for partition, _ in orders)
