"""A batch of records folded into documents. Pure: the stores bring the old ones, keep the new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from firnline_domain.base.values import MAX_AMOUNT, Value
from firnline_domain.records.events import (
    DeadLettered,
    FilesChanged,
    TableCommitted,
)
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance, RewriteFiles
from firnline_domain.records.states import TableAdvice, TableState

from firnline_console.views import tables, tasks
from firnline_console.views.advice import AdviceView, fold_advice
from firnline_console.views.dead_letters import DeadLetterView, fold_dead_letter, letter_key
from firnline_console.views.event_text import EventView, event_of
from firnline_console.views.pauses import PauseView, fold_pause, pause_key
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import TaskFact, TaskView


class OfGroup(Value):
    """An order from the topic of a group that is not the default one."""

    order: RewriteFiles
    group: str


Doc = TableView | TableStates | TaskView | DeadLetterView | PauseView | AdviceView


class Key(NamedTuple):
    """Names a document: kind is table, state, task, letter, pause or advice."""

    kind: str
    id: str


Docs = Mapping[Key, Doc | None]


@dataclass
class FoldedDocuments:
    """The documents after a batch (None = to be removed), and the event lines it gave."""

    docs: dict[Key, Doc | None]
    events: list[EventView] = field(default_factory=list)


def touched_keys(fact: Any) -> tuple[Key, ...]:
    """Return the keys of the documents that a fact may change, before any is read."""
    if isinstance(fact, OfGroup):
        return touched_keys(fact.order)
    if isinstance(fact, TableState):
        return Key("table", fact.table.key), Key("state", fact.table.key)
    if isinstance(fact, TableCommitted | FilesChanged):
        return (Key("table", fact.table.key),)
    if isinstance(fact, TaskFact):
        return (Key("task", fact.task_id),)
    if isinstance(fact, DeadLettered):
        return (Key("letter", letter_key(fact)),)
    if isinstance(fact, PauseMaintenance | ResumeMaintenance):
        return (Key("pause", pause_key(fact)),)
    if isinstance(fact, TableAdvice):
        return (Key("advice", fact.table.key),)
    return ()


def fold_facts(old: Docs, facts: Sequence[Any]) -> FoldedDocuments:
    """Fold facts in their order; `old` contains every touched document that exists."""
    folded = FoldedDocuments(dict(old))
    for fact in facts:
        _fold_one(folded.docs, fact)
        if line := event_of(fact.order if isinstance(fact, OfGroup) else fact):
            folded.events.append(line)
    return folded


def _fold_one(docs: dict[Key, Any], fact: Any) -> None:
    for key in touched_keys(fact):
        docs[key] = _fold_document(docs, key, fact)


def _fold_document(docs: dict[Key, Any], key: Key, fact: Any) -> Doc | None:
    old = docs.get(key)
    if isinstance(fact, OfGroup):
        return tasks.fold_task(old, fact.order, fact.group)
    if isinstance(fact, TableCommitted):
        return tables.fold_commit(old, fact)
    if isinstance(fact, FilesChanged):
        return tables.fold_change(old, fact)
    if isinstance(fact, TableState):
        if key.kind == "table":
            return tables.fold_state(old, fact)
        return tables.fold_states(old, fact)
    if isinstance(fact, DeadLettered):
        return fold_dead_letter(old, fact)
    if isinstance(fact, PauseMaintenance | ResumeMaintenance):
        return fold_pause(old, fact)
    if isinstance(fact, TableAdvice):
        return fold_advice(old, fact)
    return tasks.fold_task(old, fact)


def totals_of(doc: Doc | None) -> Counter[str]:
    """Return what a document adds to the deployment's totals."""
    if isinstance(doc, TableView):
        return tables.totals_of(doc)
    if isinstance(doc, TaskView):
        return tasks.totals_of(doc)
    if isinstance(doc, DeadLetterView):
        return Counter(dead_letters=1)
    return Counter()


def totals_moved(old: Docs, new: Docs) -> Counter[str]:
    """Return by how much a batch changes each total; may be negative."""
    moved: Counter[str] = Counter()
    for key, doc in new.items():
        moved.update(totals_of(doc))
        moved.subtract(totals_of(old.get(key)))
    return Counter({name: count for name, count in moved.items() if count})


def catalogs_in(totals: Mapping[str, int]) -> list[str]:
    """Return the paths of the catalogs that have tables, by the totals."""
    head = tables.IN_CATALOG
    found = (name.removeprefix(head) for name, n in totals.items() if n and name.startswith(head))
    return sorted(found)


def sums_in(totals: Mapping[str, int]) -> dict[str, int]:
    """Return the other totals that are not 0. One that is too high for readers of JSON becomes the
    highest that all of them can read."""
    return {
        name: min(count, MAX_AMOUNT)
        for name, count in totals.items()
        if count and not name.startswith(tables.IN_CATALOG)
    }
