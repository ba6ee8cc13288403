"""Statuses of tables and tasks, and kinds of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from firnline_cli.commands.look.events import KINDS
from firnline_console.http.answers import TASK_STATUSES
from firnline_domain.records.states import TABLE_STATUSES

from tests.tools.reference.markdown import table

TABLES = {
    "not_counted": "Firnline has no statistics of the table yet.",
    "resync": "Events are missing. The enricher reads the table.",
    "stuck": "A partition failed too often, the planner fails, or a window is unreadable.",
    "off": "Maintenance is disabled, or the format version is not supported.",
    "paused": "A person paused the table or all tables.",
    "held": "All tasks wait, for example for a window or another maintainer.",
    "working": "A task is scheduled or running, or would run without shadow mode.",
    "failing": "The last task failed and is retried.",
    "cooling": "A partition waits after its last rewrite.",
    "waiting": "Some small or delete files, below every threshold.",
    "healthy": "No files to compact.",
}
TASKS = {
    "running": "Scheduled or running.",
    "overdue": "Without a result after its deadline.",
    "committed": "Committed.",
    "conflicted": "Not committed, because the table changed.",
    "skipped": "Nothing was done, for the reason shown.",
    "failed": "Failed, for the reason shown.",
}
EVENTS = {
    "commit": "A writer committed a snapshot.",
    "own": "The catalog received a commit of Firnline.",
    "table": "A table was created, dropped, renamed or changed without a new snapshot.",
    "counters": "The statistics of a branch were read from the table.",
    "order": "A task was scheduled.",
    "running": "A rewrite has run for more than a minute.",
    "committed": "A rewrite was committed, or an action is done.",
    "conflicted": "A result was not committed.",
    "skipped": "A task did nothing, or was refused.",
    "failed": "A task failed, or rows differ after a commit.",
    "compared": "The rows of a commit were verified.",
    "expired": "Snapshots expired.",
    "announced": "An expiry was announced.",
    "swept": "Files of failed tasks were removed.",
    "operator": "A person paused, resumed, retried, moved or requested something.",
    "dead_letter": "A record could not be processed.",
}

BLOCKS: dict[str, Callable[[], str]] = {
    "table-statuses": lambda: list_meanings("status", TABLE_STATUSES, TABLES),
    "task-statuses": lambda: list_meanings("status", TASK_STATUSES, TASKS),
    "event-kinds": lambda: list_meanings("kind", KINDS, EVENTS),
}


def list_meanings(head: str, codes: Iterable[str], meanings: Mapping[str, str]) -> str:
    """Return the table of codes with their meanings. Raises ValueError if they do not agree."""
    codes = [*codes]
    if unknown := {*codes} ^ meanings.keys():
        raise ValueError(f"meanings and codes of the table of {head} differ: {sorted(unknown)}")
    return table(f"{head} | meaning", (f"`{code}` | {meanings[code]}" for code in codes))
