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
    age_text,
    count_of,
    empty_grid,
    number_text,
    size_text,
    status_text,
    styled_text,
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
    terminal.print(render_report(answer, None if all_wanted else terminal.height))


def about_table(site: Site, table: str, rest: str) -> Any:
    """Return the console's answer about a table. Raises NotThere with similar names."""
    try:
        return site.table_answer(table, rest)
    except NotThere as error:
        names = [one["table"] for one in site.list_tables()]
        close = difflib.get_close_matches(table, names, 5, 0.5) or sorted(names)[:5]
        hint = f" Did you mean: {', '.join(close)}?" if close else " No table has been seen yet."
        raise NotThere(f"{error.message}.{hint}") from None


def render_report(answer: dict[str, Any], height: int | None) -> Group:
    """Return verdict, figures, partitions, tasks and settings; as much as fits into `height`
    lines."""
    shown = None if height is None else max(8, height // 2)
    now_ms = answer["now_ms"]
    parts: list[RenderableType] = [
        Text.assemble(styled_text(answer["table"]["table"], "bold"), "  ", answer["verdict"]),
        *(styled_text(f"warning: {text}", "yellow") for text in answer["warnings"]),
        figures_text(answer),
        *advice_lines(answer.get("advice", [])),
        "",
        *partition_lines(answer, shown, now_ms),
        *task_lines(answer["tasks"], None if shown is None else TASKS_SHOWN, now_ms),
        *settings_lines(answer["settings"], answer.get("advice", []), height is None),
    ]
    return Group(*parts)


def figures_text(answer: dict[str, Any]) -> Text:
    """Return the table's counters in one paragraph."""
    row, expiry, now_ms = answer["table"], answer["expiry"], answer["now_ms"]
    if not row["counted"]:
        return styled_text("no counters yet", "dim")
    files = (
        f"{count_of(row['data_files'], 'data file')} ({number_text(row['fragments'])} small, "
        f"{number_text(row['undersized'])} undersized, {number_text(row['on_target'])} on target, "
        f"{number_text(row['oversized'])} oversized), {size_text(row['data_bytes'])}, "
        f"{number_text(row['records'])} rows"
    )
    deletes = (
        f"{count_of(row['equality_deletes'], 'equality-delete file')}, "
        f"{count_of(row['position_deletes'], 'position-delete file')}, "
        f"{count_of(row['deletion_vectors'], 'deletion vector')}"
    )
    snapshots = (
        f"{snapshot_count(row['snapshots'])}, the oldest "
        f"{age_text(row['oldest_snapshot_ms'], now_ms)} old; expiry: {expiry['words']}"
    )
    if (metadata := row.get("metadata_bytes")) is not None:
        snapshots += f"; metadata of {size_text(metadata)}"
    lines = [files, deletes, snapshots]
    lines += [
        f"{name.replace('_', ' ')}: {one['words']}" for name, one in answer["actions"].items()
    ]
    lines.append(f"read by {answer['reads']['words']}")
    lines += last_commits(row, now_ms)
    return styled_text("", "dim").append("\n".join(lines), "dim")


def last_commits(row: dict[str, Any], now_ms: int) -> list[str]:
    """Return which writer committed last, and when Firnline committed since: its own commits hide
    no writer."""
    write, last = row["last_write"], row["last_commit"]
    lines = []
    if write:
        who = f", principal {write['principal']}" if write["principal"] else ""
        writer = write["writer"] or "a writer without a name"
        lines.append(f"last written {age_text(write['at_ms'], now_ms)} ago, by {writer}{who}")
    if last and last["task_id"]:
        lines.append(f"last commit of Firnline {age_text(last['at_ms'], now_ms)} ago")
    return lines


def snapshot_count(count: int | None) -> str:
    """Return the count as text; a number that is not known is not 0."""
    return "- snapshots" if count is None else count_of(count, "snapshot")


def advice_lines(hints: list[dict[str, Any]]) -> list[RenderableType]:
    """Return the advice for the table's owner; `firnline advise` gives the details."""
    if not hints:
        return []
    table = hints[0]["table"]
    lines: list[RenderableType] = ["", styled_text("Advice", "bold")]
    lines += [styled_text(f"{hint['rule'].replace('_', ' ')}: {hint['finding']}") for hint in hints]
    return [*lines, styled_text(f"What to do: firnline advise {table}", "dim")]


def rest_line(all_of_them: list[Any], shown: int | None, total: int = 0) -> list[RenderableType]:
    """Return a line with the number of those left out."""
    known = len(all_of_them)
    left = max(total, known) - min(known, known if shown is None else shown)
    how = "--all" if shown is not None and shown < known else ALL_PARTITIONS
    return [styled_text(f"... and {left:,} more: {how}", "dim"), ""] if left > 0 else [""]


def partition_lines(answer: dict[str, Any], shown: int | None, now_ms: int) -> list[RenderableType]:
    """Return the partitions that the planner shows, with their last decisions as text. In a table
    that is held, no decision changes by time only."""
    parts, is_held = answer["partitions"], bool(answer["hold"])
    if not parts:
        return []
    right = ("files", "small", "deletes", "size")
    made = empty_grid(
        "Partitions, the deepest in debt first", "partition", "status", "why", *right, right=right
    )
    for part in parts[:shown]:
        counts = (part[name] for name in ("data_files", "fragments", "delete_files"))
        made.add_row(
            styled_text(part["label"]),
            status_text(part["status"]),
            styled_text(part["words"] + ("" if is_held else waiting_text(part, now_ms))),
            *(styled_text(number_text(count)) for count in counts),
            styled_text(size_text(part["data_bytes"])),
        )
    rest = rest_line(parts, shown, answer["table"].get("partitions") or 0)
    explained = [one for one in parts[:shown] if one.get("triggers")][: 1 if shown else None]
    return [made, *rest, *(line for one in explained for line in trigger_lines(one, now_ms))]


def trigger_lines(part: dict[str, Any], now_ms: int) -> list[RenderableType]:
    """Return every trigger of a partition's rewrite, and when it fires if no earlier one does."""
    made = empty_grid(f"Triggers of {part['label']}", "trigger", "fires", "numbers")
    for one in part["triggers"]:
        at_ms = one["at_ms"]
        when = f"in {age_text(now_ms, at_ms)}" if at_ms and at_ms > now_ms else one["fires"]
        if one["waits_for"]:
            when = f"waits: {one['waits_for'].replace('_', ' ')}"
        made.add_row(
            styled_text(one["trigger"].replace("_", " ")),
            styled_text(when, "dim" if one["fires"] == "off" else ""),
            styled_text("" if one["fires"] == "off" else one["words"]),
        )
    return [made, ""]


def waiting_text(part: dict[str, Any], now_ms: int) -> str:
    """Return how long a pause still lasts, or when the decision may change by time only."""
    until = part["until_ms"]
    if not until or until <= now_ms or part["status"] == "in_flight":
        return ""
    left = age_text(now_ms, until)
    return f"; decided again in {left}" if part["status"] == "idle" else f", {left} more"


def task_lines(found: dict[str, Any], shown: int | None, now_ms: int) -> list[RenderableType]:
    """Return open tasks, then the last ones that ended."""
    all_tasks = [*found["open"], *found["ended"]]
    if not all_tasks:
        return [styled_text("No task has been ordered for it yet.", "dim"), ""]
    columns = ("task", "status", "partition", "why", "result", "age")
    made = empty_grid("Tasks", *columns, right=("age",))
    for task in all_tasks[:shown]:
        order = task["order"]
        made.add_row(
            styled_text(task["task_id"][:SHOWN_ID]),
            status_text(task["status"]),
            styled_text(task["label"]),
            styled_text(order["words"] if order else ""),
            styled_text(task_result(task)),
            styled_text(age_text(task["changed_at_ms"], now_ms), "dim"),
        )
    return [made, *rest_line(all_tasks, shown)]


def task_result(task: dict[str, Any]) -> str:
    """Return the result of a task as text."""
    outcome = task["outcome"]
    if outcome is None or task["status"] in ("running", "overdue"):
        return ""
    numbers: dict[str, Any] = {
        name: _as_integer(amount) for name, amount in outcome["numbers"].items()
    }
    if task["status"] != "committed":
        return ": ".join(text for text in (outcome["words"], outcome["detail"]) if text)
    if task["kind"] == "expire":
        gone, files = numbers["snapshots_expired"], numbers["files_deleted"]
        return f"{count_of(gone, 'snapshot')} expired, {count_of(files, 'file')} deleted"
    if task["kind"] != "rewrite":
        return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in numbers.items())
    deletes = numbers["equality_deletes_removed"] + numbers["position_deletes_removed"]
    gone = f" and {count_of(deletes, 'delete file')}" if deletes else ""
    masked = numbers["rows_masked"]
    dead = f", {count_of(masked, 'dead row')} dropped" if masked else ""
    return (
        f"{count_of(numbers['files_removed'], 'file')}{gone} -> {numbers['files_added']:,}, "
        f"{size_text(numbers['bytes_before'])} -> {size_text(numbers['bytes_after'])}{dead}"
    )


def _as_integer(amount: float) -> float:
    """Return a count without a fraction: records contain all numbers as floating-point ones."""
    return int(amount) if amount == int(amount) else amount


def settings_lines(
    found: list[dict[str, str]], hints: list[dict[str, Any]], all_wanted: bool
) -> list[RenderableType]:
    """Return the effective settings and their sources; only those that the table sets itself,
    unless all are wanted."""
    own = [one for one in found if one["source"] != "default"]
    if not own and not all_wanted:
        return [styled_text(f"All {len(found)} settings are defaults: --all lists them.", "dim")]
    made = empty_grid("Settings", "property", "value", "from")
    for one in found if all_wanted else own:
        plain_row = one["source"] == "default"
        made.add_row(
            styled_text(one["name"]),
            styled_text(one["value"], "" if plain_row else "bold"),
            styled_text(_source_text(one, hints), "dim" if plain_row else ""),
        )
    left = len(found) - len(own)
    tail = [] if all_wanted else [styled_text(f"The other {left} are defaults: --all.", "dim")]
    return [made, *tail]


def _source_text(setting: dict[str, str], hints: list[dict[str, Any]]) -> str:
    """Return the source of a setting, and what is wrong with it if no advice above contains it."""
    problem = setting["problem"]
    if problem and any(problem in hint["finding"] for hint in hints):
        return setting["source"].removesuffix(problem) + "see the recommendations"
    return setting["source"]
