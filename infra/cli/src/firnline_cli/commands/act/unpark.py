"""firnline unpark"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click
from firnline_adapters import clock
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.orders import UnparkTable

from firnline_cli.shared.console_client import Console, identity_in
from firnline_cli.shared.fleet import (
    ORDERS,
    FleetClient,
    Where,
    operator_name,
    operator_options,
    report_result,
    resolve_table,
    scopes_of,
)
from firnline_cli.shared.formats import print_wrapped
from firnline_cli.shared.partitions import partition_named

FREED = ("parked", "backing_off")  # statuses of a partition that it frees


@click.command("unpark")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option(
    "--partition", help="Only this partition, as `firnline explain` shows it: 2026-01-01, or JSON."
)
@click.option("--all", "all_wanted", is_flag=True, help="Retry such partitions of every table.")
@operator_options
def command(
    tables: tuple[str, ...],
    partition: str | None,
    all_wanted: bool,
    where: Where,
    json_wanted: bool,
) -> None:
    """Retry the partitions of TABLE (namespace.name) that failed too often, wait after a failure,
    or were excluded by `firnline undo`. It writes nothing if there are none.
    """
    if bool(tables) == all_wanted:
        raise click.UsageError("name tables, or say --all")
    fleet = where.fleet()
    meant = (
        list(parked_tables(where.console_client()))
        if all_wanted
        else [resolve_table(fleet, one) for one in tables]
    )
    for table in meant:
        answer = where.console_answer(f"/api/tables/{quote(table.key)}")
        chosen = None if partition is None else _choose_partition(fleet, table, partition, answer)
        count, name = count_waiting(answer, chosen), table.dotted_name
        text = f"{name}: no partition waits for a retry"
        if count != 0:
            now_ms = clock.now_ms()
            fleet.send(ORDERS, UnparkTable(table, MAIN, chosen, operator_name(), now_ms))
            text = f"{name}: ordered; `firnline explain {name}` shows it"
        report_result(json_wanted, text, table=name, parked=count)
    if not meant:
        print_wrapped("no partition waits for a retry", err=True)


def _choose_partition(fleet: FleetClient, table: TableName, text: str, answer: Any) -> str:
    """Return the partition that the text names: by the console, which does not have all partitions
    of a large table, else by the table itself. Raises ClickException."""
    refs = answer["refs"] if answer is not None and answer.get("counted") else {}
    shown = [Scope(one["spec_id"], one["partition"]) for one in refs.get(MAIN, ())]
    try:
        return partition_named(text, shown, table.dotted_name)
    except click.ClickException:
        return partition_named(text, scopes_of(fleet, table), table.dotted_name)


def count_waiting(answer: Any, partition: str | None) -> int | None:
    """Return the number of partitions that are to be freed, by the console's answer; None if it
    does not contain that."""
    if answer is None or not answer.get("counted"):
        return None
    if partition is None:
        return sum(int(answer["statuses"].get(status, 0)) for status in FREED)
    found = [one for one in answer["refs"].get(MAIN, ()) if one["partition"] == partition]
    return sum(one["status"] in FREED for one in found) if found else None


def parked_tables(site: Console) -> Iterator[TableName]:
    """Yield the console's tables with a partition that is to be freed."""
    for row in site.list_tables():
        if any((row.get("statuses") or {}).get(status) for status in FREED):
            yield identity_in(row)
