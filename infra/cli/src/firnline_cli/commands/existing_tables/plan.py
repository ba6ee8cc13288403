"""firnline plan"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from firnline_adapters import clock
from firnline_domain.settings.in_force import unknown_names, unreadable_values
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from firnline_cli.forecast.catalog import Forecasts, Unread
from firnline_cli.forecast.forecast import Forecast
from firnline_cli.forecast.report import TextForecast, as_json
from firnline_cli.shared.fleet import Where, fleet_options, resolve_table


@click.command("plan")
@click.option("--table", help="Only this table (namespace.name), with all of its partitions.")
@click.option("--namespace", help="Only tables of this namespace and of nested ones.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Assume that the tables set this property; repeatable.",
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default of a table property, as in FIRNLINE_DEFAULTS; repeatable.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object per table.")
@fleet_options
def command(
    table: str | None,
    namespace: str | None,
    sets: tuple[str, ...],
    fleets: tuple[str, ...],
    json_wanted: bool,
    where: Where,
) -> None:
    """Show which tasks would be scheduled for the tables of a catalog now, and why.

    It changes nothing and needs no planner: it reads all manifests of each table's current snapshot
    and applies the planner's policy. If the output is no terminal, it is tab-separated with a
    header. Exit code 1 if a table or a namespace could not be read.
    """
    if table and "." not in table:
        raise click.BadParameter(f"{table}: a table's name is namespace.name")
    from firnline_iceberg.table.catalog_client import Tables

    fleet = where.fleet()
    one = resolve_table(fleet, table) if table else None
    tables = Tables(fleet.connection_for(one) if one else fleet.only_catalog)
    forecasts = Forecasts(tables, _parse_defaults(fleets), parse_properties(sets), fleet.policies)
    now_ms = clock.now_ms()
    names = forecasts.table_names(one.dotted_name if one else None, namespace)
    show = as_json if json_wanted else TextForecast(whole=table is not None)
    found = (show_apart(show, name, forecasts.forecast_table(name, now_ms)) for name in names)
    unread = sum(not was_read for was_read in [*found])
    for name, why in forecasts.unlisted.items():
        unread += not show(Unread(f"namespace {name}", why))
    if isinstance(show, TextForecast):
        show.sum_up()
    sys.exit(1 if unread else 0)


def show_apart(
    show: Callable[[Forecast | Unread], bool], name: tuple[str, ...], forecast: Forecast | Unread
) -> bool:
    """Show one table; if that raises, show that it was not read. False if it was not."""
    try:
        return show(forecast)
    except BrokenPipeError:
        raise
    except Exception as error:
        return show(Unread(".".join(name), f"{type(error).__name__}: {error}"))


def parse_properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse properties. Raises BadParameter for a text that is none."""
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text}: write NAME=VALUE")
    found = dict(text.split("=", 1) for text in texts)
    if wrong := [*unknown_names(found), *unreadable_values(found)]:
        raise click.BadParameter("; ".join(wrong))
    return found


def _parse_defaults(texts: tuple[str, ...]) -> Thresholds:
    return resolve_thresholds(parse_properties(texts))
