"""firnline explain"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from firnline_cli.shared.console_client import Console as Site
from firnline_cli.shared.console_client import NotThere, console_at, console_options
from firnline_cli.shared.formats import (
    WIDTH,
    age,
    counted,
    grid,
    number,
    size,
    status_text,
    styled,
)

ALL_PARTITIONS = "`firnline plan --table` reads every partition from the table"
TASKS_SHOWN = 8
SHOWN_ID = 12  # characters of a task's id on a terminal; `undo` and `verify` take 6 or more


@click.command("explain")
@click.argument("table")
@console_options
@click.option("--all", "all_wanted", is_flag=True, help="Show every partition, setting and task.")
@click.option("--json", "json_wanted", is_flag=True, help="Print the console's JSON.")
def command(
    table: str, state: Path | None, uri: str | None, all_wanted: bool, json_wanted: bool
) -> None:
    """Explain why TABLE (namespace.name, or its UUID) is or is not maintained now."""
    answer = about_table(console_at(state, uri), table, "/explain")
    if json_wanted:
        click.echo(json.dumps(answer, indent=1))
        return
    terminal = Console()
    if not terminal.is_terminal:
        terminal.width = WIDTH
    terminal.print(report(answer, None if all_wanted else terminal.height))


def about_table(site: Site, table: str, rest: str) -> Any:
    """Return the console's answer about a table. Raises NotThere with similar names."""
    try:
        return site.table(table, rest)
    except NotThere as error:
        names = [one["table"] for one in site.tables()]
        close = difflib.get_close_matches(table, names, 5, 0.5) or sorted(names)[:5]
        hint = f" Did you mean: {', '.join(close)}?" if close else " No table has been seen yet."
        raise NotThere(f"{error.message}.{hint}") from None


def report(answer: dict[str, Any], height: int | None) -> Group:
    """Return verdict, figures, partitions, tasks and settings; as much as fits into `height`
    lines."""
    shown = None if height is None else max(8, height // 2)
    now_ms = answer["now_ms"]
    parts: list[RenderableType] = [
        Text.assemble(styled(answer["table"]["table"], "bold"), "  ", answer["verdict"]),
        *(styled(f"warning: {text}", "yellow") for text in answer["warnings"]),
        figures(answer),
        *advice(answer.get("advice", [])),
        "",
        *partitions(answer, shown, now_ms),
        *tasks(answer["tasks"], None if shown is None else TASKS_SHOWN, now_ms),
        *settings(answer["settings"], answer.get("advice", []), height is None),
    ]
    return Group(*parts)


def figures(answer: dict[str, Any]) -> Text:
    """Return the table's counters in one paragraph."""
    row, expiry, now_ms = answer["table"], answer["expiry"], answer["now_ms"]
    if not row["counted"]:
        return styled("no counters yet", "dim")
    files = (
        f"{counted(row['data_files'], 'data file')} ({number(row['fragments'])} small, "
        f"{number(row['undersized'])} undersized, {number(row['on_target'])} on target, "
        f"{number(row['oversized'])} oversized), {size(row['data_bytes'])}, "
        f"{number(row['records'])} rows"
    )
    deletes = (
        f"{counted(row['equality_deletes'], 'equality-delete file')}, "
        f"{counted(row['position_deletes'], 'position-delete file')}, "
        f"{counted(row['deletion_vectors'], 'deletion vector')}"
    )
    snapshots = (
        f"{snapshot_count(row['snapshots'])}, the oldest "
        f"{age(row['oldest_snapshot_ms'], now_ms)} old; expiry: {expiry['words']}"
    )
    if (metadata := row.get("metadata_bytes")) is not None:
        snapshots += f"; metadata of {size(metadata)}"
    lines = [files, deletes, snapshots]
    lines += [
        f"{name.replace('_', ' ')}: {one['words']}" for name, one in answer["actions"].items()
    ]
    lines.append(f"read by {answer['reads']['words']}")
    lines += commits(row, now_ms)
    return styled("", "dim").append("\n".join(lines), "dim")


def commits(row: dict[str, Any], now_ms: int) -> list[str]:
    """Return which writer committed last, and when Firnline committed since: its own commits hide
    no writer."""
    write, last = row["last_write"], row["last_commit"]
    lines = []
    if write:
        who = f", principal {write['principal']}" if write["principal"] else ""
        writer = write["writer"] or "a writer without a name"
        lines.append(f"last written {age(write['at_ms'], now_ms)} ago, by {writer}{who}")
    if last and last["task_id"]:
        lines.append(f"last commit of Firnline {age(last['at_ms'], now_ms)} ago")
    return lines


def snapshot_count(count: int | None) -> str:
    """Return the count as text; a number that is not known is not 0."""
    return "- snapshots" if count is None else counted(count, "snapshot")


def advice(hints: list[dict[str, Any]]) -> list[RenderableType]:
    """Return the advice for the table's owner; `firnline advise` gives the details."""
    if not hints:
        return []
    table = hints[0]["table"]
    lines: list[RenderableType] = ["", styled("Advice", "bold")]
    lines += [styled(f"{hint['rule'].replace('_', ' ')}: {hint['finding']}") for hint in hints]
    return [*lines, styled(f"What to do: firnline advise {table}", "dim")]


def more(all_of_them: list[Any], shown: int | None, total: int = 0) -> list[RenderableType]:
    """Return a line with the number of those left out."""
    known = len(all_of_them)
    left = max(total, known) - min(known, known if shown is None else shown)
    how = "--all" if shown is not None and shown < known else ALL_PARTITIONS
    return [styled(f"... and {left:,} more: {how}", "dim"), ""] if left > 0 else [""]


def partitions(answer: dict[str, Any], shown: int | None, now_ms: int) -> list[RenderableType]:
    """Return the partitions that the planner shows, with their last decisions as text. In a table
    that is held, no decision changes by time only."""
    parts, is_held = answer["partitions"], bool(answer["hold"])
    if not parts:
        return []
    right = ("files", "small", "deletes", "size")
    made = grid(
        "Partitions, the deepest in debt first", "partition", "status", "why", *right, right=right
    )
    for part in parts[:shown]:
        counts = (part[name] for name in ("data_files", "fragments", "delete_files"))
        made.add(
            styled(part["label"]),
            status_text(part["status"]),
            styled(part["words"] + ("" if is_held else waiting(part, now_ms))),
            *(styled(number(count)) for count in counts),
            styled(size(part["data_bytes"])),
        )
    return [made, *more(parts, shown, answer["table"].get("partitions") or 0)]


def waiting(part: dict[str, Any], now_ms: int) -> str:
    """Return how long a pause still lasts, or when the decision may change by time only."""
    until = part["until_ms"]
    if not until or until <= now_ms or part["status"] == "in_flight":
        return ""
    left = age(now_ms, until)
    return f"; decided again in {left}" if part["status"] == "idle" else f", {left} more"


def tasks(found: dict[str, Any], shown: int | None, now_ms: int) -> list[RenderableType]:
    """Return open tasks, then the last ones that ended."""
    all_tasks = [*found["open"], *found["ended"]]
    if not all_tasks:
        return [styled("No task has been ordered for it yet.", "dim"), ""]
    columns = ("task", "status", "partition", "why", "result", "age")
    made = grid("Tasks", *columns, right=("age",))
    for task in all_tasks[:shown]:
        order = task["order"]
        made.add(
            styled(task["task_id"][:SHOWN_ID]),
            status_text(task["status"]),
            styled(task["label"]),
            styled(order["words"] if order else ""),
            styled(result(task)),
            styled(age(task["changed_at_ms"], now_ms), "dim"),
        )
    return [made, *more(all_tasks, shown)]


def result(task: dict[str, Any]) -> str:
    """Return the result of a task as text."""
    outcome = task["outcome"]
    if outcome is None or task["status"] in ("running", "overdue"):
        return ""
    numbers: dict[str, Any] = {name: _whole(amount) for name, amount in outcome["numbers"].items()}
    if task["status"] != "committed":
        return ": ".join(text for text in (outcome["words"], outcome["detail"]) if text)
    if task["kind"] == "expire":
        gone, files = numbers["snapshots_expired"], numbers["files_deleted"]
        return f"{counted(gone, 'snapshot')} expired, {counted(files, 'file')} deleted"
    if task["kind"] != "rewrite":
        return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in numbers.items())
    deletes = numbers["equality_deletes_removed"] + numbers["position_deletes_removed"]
    gone = f" and {counted(deletes, 'delete file')}" if deletes else ""
    masked = numbers["rows_masked"]
    dead = f", {counted(masked, 'dead row')} dropped" if masked else ""
    return (
        f"{counted(numbers['files_removed'], 'file')}{gone} -> {numbers['files_added']:,}, "
        f"{size(numbers['bytes_before'])} -> {size(numbers['bytes_after'])}{dead}"
    )


def _whole(amount: float) -> float:
    """Return a count without a fraction: records contain all numbers as floating-point ones."""
    return int(amount) if amount == int(amount) else amount


def settings(
    found: list[dict[str, str]], hints: list[dict[str, Any]], all_wanted: bool
) -> list[RenderableType]:
    """Return the effective settings and their sources; only those that the table sets itself,
    unless all are wanted."""
    own = [one for one in found if one["source"] != "default"]
    if not own and not all_wanted:
        return [styled(f"All {len(found)} settings are defaults: --all lists them.", "dim")]
    made = grid("Settings", "property", "value", "from")
    for one in found if all_wanted else own:
        plain_row = one["source"] == "default"
        made.add(
            styled(one["name"]),
            styled(one["value"], "" if plain_row else "bold"),
            styled(_source(one, hints), "dim" if plain_row else ""),
        )
    left = len(found) - len(own)
    tail = [] if all_wanted else [styled(f"The other {left} are defaults: --all.", "dim")]
    return [made, *tail]


def _source(setting: dict[str, str], hints: list[dict[str, Any]]) -> str:
    """Return the source of a setting, and what is wrong with it if no advice above contains it."""
    problem = setting["problem"]
    if problem and any(problem in hint["finding"] for hint in hints):
        return setting["source"].removesuffix(problem) + "see the recommendations"
    return setting["source"]
