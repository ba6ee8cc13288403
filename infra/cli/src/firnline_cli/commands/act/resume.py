"""firnline resume"""

from __future__ import annotations

from typing import Any

import click
from firnline_adapters import clock
from firnline_domain.identity import TableName
from firnline_domain.records.orders import ResumeMaintenance

from firnline_cli.commands.act.pause import reach_fleet
from firnline_cli.shared.fleet import (
    ORDERS,
    FleetClient,
    Where,
    operator_name,
    operator_options,
    report_result,
    resolve_table,
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
    fleet = reach_fleet(where, tables, whole_fleet)
    answer = where.console_answer("/api/fleet")
    shown = None if answer is None else {one["table"] for one in answer["pauses"]}
    ordered = None if shown is None else fleet.read_pauses()  # the console may be behind the topic
    meant: list[TableName | None] = [resolve_table(fleet, name) for name in tables]
    for table in meant or [None]:
        names = {table.dotted_name, table.full_name} if table else {""}
        key = table.key if table else None
        was_paused = None
        if shown is not None and ordered is not None:
            was_paused = bool(names & shown) or ordered.is_paused(key)
        if was_paused is not False:
            _send_resume(fleet, table)
        left = sorted(one for one in shown or () if one not in names and (table is None or not one))
        text, facts = resume_outcome(table.dotted_name if table else "", was_paused, left)
        report_result(json_wanted, text, **facts)


def _send_resume(fleet: FleetClient, table: TableName | None) -> None:
    order = ResumeMaintenance(table, operator_name(), clock.now_ms())
    fleet.send(ORDERS, order) if table else fleet.broadcast(ORDERS, order)


def resume_outcome(
    table: str, was_paused: bool | None, left: list[str]
) -> tuple[str, dict[str, Any]]:
    """Return what a resumption did, as text and as facts. `was_paused` None: not known. `left`:
    what is still paused and concerns `table`, '' for the deployment."""
    name = table or "all tables"
    text = f"{name}: was not paused" if was_paused is False else f"{name}: resumed"
    if left:
        hints = ", ".join(f"`firnline resume {one or '--fleet'}`" for one in left)
        text += f"; {'all tables are' if table else 'these tables are'} still paused: {hints}"
    return text, {"table": table or None, "was_paused": was_paused, "still_paused": left}
