"""The read model as a port: what the fold loop writes and the API reads. Every method may block for
a network round trip and raises RetryLater if the store is away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from firnline_domain.base.values import Value
from firnline_domain.identity import split_name

from firnline_console.read_model.listing import NamespaceSums, Query, TablePage
from firnline_console.views.advice import AdviceView
from firnline_console.views.dead_letters import DeadLetterView
from firnline_console.views.event_text import EventView
from firnline_console.views.pauses import PauseView
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import TaskView


class Limits(Value):
    """The maximum length of each list; the oldest entries are removed first."""

    events: int = 2_000
    tasks: int = 5_000
    letters: int = 1_000
    dropped: int = 1_000  # tables that no longer exist


class Built(Value):
    """One life of the view; a rebuild begins another, with a consumer group of its own."""

    generation: str
    at_ms: int


class Numbered(Value):
    """An event and its number of arrival: the cursor of the live tail. Numbers only grow."""

    number: int
    event: EventView


class ViewLost(Exception):
    """The store holds another generation, or none: begin again."""


class ReadModel(Protocol):
    """The port to the read model; see the module."""

    def current_generation(self) -> Built | None:
        """Return the generation in force; None if the store is empty."""

    def begin_generation(self, built: Built, replace: bool) -> Built:
        """Clear everything and put a generation in force; return the one in force. Without
        `replace` a generation that is already there stays."""

    def apply(self, generation: str, facts: Sequence[Any]) -> None:
        """Fold domain records in, all or none. A record applied twice changes nothing. Raises
        ViewLost if `generation` is not in force."""

    def read_totals(self, now_ms: int) -> dict[str, int]:
        """Return the sums over the deployment, plus `tasks_running` and `tasks_overdue` at this
        moment."""

    def list_tables(self, query: Query) -> tuple[TablePage, list[TableView]]:
        """Return a page of the tables that exist, and their documents. Raises BadQuery."""

    def list_namespaces(self, limit: int) -> list[NamespaceSums]:
        """Return the namespaces with the most maintenance debt, in order."""

    def list_catalogs(self) -> list[str]:
        """Return the paths of the catalogs that have tables, in order."""

    def find_table(self, name: str) -> TableView | None:
        """Find a table by key, full name or dotted name. If several have that name, return the one
        that exists, else the last one. Raises AmbiguousName."""

    def list_tables_with_uuid(self, uuid: str) -> list[TableView]:
        """Return the tables that exist with that uuid, in the order of their keys: one, or one of
        each catalog and prefix that shares it."""

    def read_states(self, key: str) -> TableStates:
        """Return the partitions and settings of a table, per ref."""

    def find_task(self, task_id: str) -> TaskView | None:
        """Return the task with that id; None if it is not kept."""

    def list_open_tasks(self, limit: int) -> list[TaskView]:
        """Return the tasks without an outcome, the next deadline first."""

    def list_tasks(self, limit: int, table_key: str | None = None) -> list[TaskView]:
        """Return the newest tasks, of all tables or of one."""

    def last_event_number(self) -> int:
        """Return the number of the last event that arrived, from which `ReadModel.list_events`
        continues."""

    def list_events(self, after: int | None, limit: int) -> list[Numbered]:
        """Return the events that arrived after a cursor, in order of arrival. Without a cursor
        return the newest by time, in order of time."""

    def kept_since_ms(self, kind: Literal["events", "tasks"]) -> int | None:
        """Return the time of the oldest event, or of the oldest change of a task, that is kept;
        None if none is kept. Anything older is unknown."""

    def list_dead_letters(self, limit: int) -> list[DeadLetterView]:
        """Return the newest dead letters."""

    def list_advice(self, limit: int) -> list[AdviceView]:
        """Return the tables with advice in force, those with most of it first."""

    def find_advice(self, key: str) -> AdviceView | None:
        """Return the advice in force for one table; None if it never had advice."""

    def list_pauses(self) -> list[PauseView]:
        """Return the pauses in force, the deployment's first."""


class AmbiguousName(Exception):
    """Several catalogs have a table of that name; the text says which."""


def choose_table(views: Sequence[TableView], name: str) -> TableView | None:
    """Return the table that exists among several with one name, else the one with the newest
    accepted call. `name` may contain its catalog. Raises AmbiguousName."""
    path, _ = split_name(name)
    among = [
        one for one in views if path in ("", one.table.catalog_path) or one.dotted_name == name
    ]
    there = {one.table.full_name for one in among if not one.is_dropped}
    if len(there) > 1:
        raise AmbiguousName(f"{name} is in several catalogs: {', '.join(sorted(there))}")
    return max(among, key=lambda one: (not one.is_dropped, one.life, one.key), default=None)


def dotted_names(name: str) -> tuple[str, ...]:
    """Return the dotted names that a name may mean: a dotted name may contain a colon."""
    return tuple(dict.fromkeys((name, split_name(name)[1])))
