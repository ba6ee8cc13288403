"""Checks for tables at which the planner fails, by the console."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_cli.checks.findings import Check, Failed, NotTried
from firnline_cli.checks.settings import Given

CONSOLE = "FIRNLINE_CONSOLE_URI"
SHOWN = 5


def table_checks(given: Given) -> Iterator[Check]:
    """Yield the checks that concern the given services."""
    if given.concerns(("planner",)):
        uri = given.environment.get(CONSOLE, "")
        tried = f"ask {uri or CONSOLE} at which tables the planner fails"
        yield Check("planner.tables", tried, lambda: ask_console(uri))


def ask_console(uri: str) -> str:
    """Ask which tables fail. Raises Failed, NotTried, and what `Console` raises."""
    from firnline_cli.shared.console_client import console_at

    if not uri:
        raise NotTried(f"{CONSOLE} names no console")
    console = console_at(None, uri)
    failing = console.get("/api/fleet")["totals"].get("tables_failing", 0)
    if not failing:
        return "at none"
    stuck = console.list_tables(status="stuck")
    names = [row["table"] for row in stuck if (row.get("hold") or {}).get("reason") == "failing"]
    more = ", ..." if failing > SHOWN else ""
    raise Failed(
        f"at {failing}: {', '.join(names[:SHOWN])}{more}",
        "`firnline explain TABLE` says the error and when the planner tries again; a property that "
        "was set lately is the first to look at. Others are not affected",
    )
