"""firnline resume"""

from __future__ import annotations

import time
from typing import Any

import click
from firnline_domain.records.orders import ResumeMaintenance

from firnline_cli._fleet import ORDERS, Where, named, operator, operator_options, report
from firnline_cli.pause import reached


@click.command("resume")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option("--fleet", "whole_fleet", is_flag=True, help="End the pause of the whole fleet.")
@operator_options
def command(tables: tuple[str, ...], whole_fleet: bool, where: Where, json_wanted: bool) -> None:
    """End the pause of TABLE (namespace.name), or with --fleet that of the whole fleet.

    The two are independent: a table that was paused by its name stays paused when the fleet
    resumes, and the other way round. Both are said.
    """
    fleet = reached(where, tables, whole_fleet)
    answer = where.answer("/api/fleet")
    pauses = None if answer is None else [one["table"] for one in answer["pauses"]]
    now_ms = int(time.time() * 1000)
    if whole_fleet:
        fleet.broadcast(ORDERS, ResumeMaintenance(None, operator(), now_ms))
        text, facts = outcome("", pauses)
        report(json_wanted, text, **facts)
    for table in [named(fleet, name) for name in tables]:
        fleet.send(ORDERS, ResumeMaintenance(table, operator(), now_ms))
        text, facts = outcome(table.dotted, pauses)
        report(json_wanted, text, **facts)


def outcome(table: str, pauses: list[str] | None) -> tuple[str, dict[str, Any]]:
    """What a resumption did, in words and as facts. `pauses`: names that were paused before, ''
    for the fleet; None: not known."""
    name = table or "the whole fleet"
    was_paused = None if pauses is None else table in pauses
    text = f"{name}: was not paused" if was_paused is False else f"{name}: resumed"
    left = [one for one in pauses or () if one != table and (not one or not table)]
    if left:
        hints = ", ".join(f"`firnline resume {one or '--fleet'}`" for one in left)
        text += f"; {'the fleet is' if table else 'these tables are'} still paused: {hints}"
    return text, {"table": table or None, "was_paused": was_paused, "still_paused": left}
