"""firnline resume"""

from __future__ import annotations

from typing import Any

import click
from firnline_adapters import clock
from firnline_domain.identity import TableName
from firnline_domain.records.orders import ResumeMaintenance

from firnline_cli.commands.act.pause import reached
from firnline_cli.shared.fleet import (
    ORDERS,
    Fleet,
    Where,
    named,
    operator,
    operator_options,
    report,
)


@click.command("resume")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option("--fleet", "whole_fleet", is_flag=True, help="End the pause of all tables.")
@operator_options
def command(tables: tuple[str, ...], whole_fleet: bool, where: Where, json_wanted: bool) -> None:
    """End the pause of TABLE (namespace.name), or with --fleet that of all tables.

    A table pause and a pause of all tables are independent. The command reports both, and writes
    nothing for a table that is not paused.
    """
    fleet = reached(where, tables, whole_fleet)
    answer = where.answer("/api/fleet")
    shown = None if answer is None else {one["table"] for one in answer["pauses"]}
    ordered = None if shown is None else fleet.pauses()  # the console may be behind the topic
    meant: list[TableName | None] = [named(fleet, name) for name in tables]
    for table in meant or [None]:
        names = {table.dotted, table.full} if table else {""}
        key = table.key if table else None
        was_paused = None
        if shown is not None and ordered is not None:
            was_paused = bool(names & shown) or ordered.is_paused(key)
        if was_paused is not False:
            _resume(fleet, table)
        left = sorted(one for one in shown or () if one not in names and (table is None or not one))
        text, facts = outcome(table.dotted if table else "", was_paused, left)
        report(json_wanted, text, **facts)


def _resume(fleet: Fleet, table: TableName | None) -> None:
    order = ResumeMaintenance(table, operator(), clock.now_ms())
    fleet.send(ORDERS, order) if table else fleet.broadcast(ORDERS, order)


def outcome(table: str, was_paused: bool | None, left: list[str]) -> tuple[str, dict[str, Any]]:
    """Return what a resumption did, as text and as facts. `was_paused` None: not known. `left`:
    what is still paused and concerns `table`, '' for the fleet."""
    name = table or "all tables"
    text = f"{name}: was not paused" if was_paused is False else f"{name}: resumed"
    if left:
        hints = ", ".join(f"`firnline resume {one or '--fleet'}`" for one in left)
        text += f"; {'all tables are' if table else 'these tables are'} still paused: {hints}"
    return text, {"table": table or None, "was_paused": was_paused, "still_paused": left}
