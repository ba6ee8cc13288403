"""Advice about a table, as the console keeps and shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firnline_domain.base.values import Value, field, replace
from firnline_domain.identity import TableName
from firnline_domain.records.states import TableAdvice

from firnline_console.text.amounts import finite_numbers
from firnline_console.views.catalogs import place_json
from firnline_console.views.tables import TableView


class AdviceView(Value):
    """The newest advice by each rule about one table, withdrawn advice too: records may come
    again, in any order."""

    table: TableName
    words: dict[str, TableAdvice] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the table's key."""
        return self.table.key

    @property
    def current_advice(self) -> tuple[TableAdvice, ...]:
        """Return the advice that is not withdrawn, the oldest first."""
        found = (one for one in self.words.values() if not one.withdrawn)
        return tuple(sorted(found, key=lambda one: (one.since_ms, one.rule)))


def fold_advice(old: AdviceView | None, fact: TableAdvice) -> AdviceView:
    """Keep the later record; at the same time, the withdrawal."""
    known = old or AdviceView(fact.table)
    before = known.words.get(fact.rule)
    if before is not None and _version_key(before) > _version_key(fact):
        return known
    sound = replace(fact, numbers=finite_numbers(fact.numbers), limits=finite_numbers(fact.limits))
    return replace(known, table=fact.table, words={**known.words, fact.rule: sound})


def _version_key(advice: TableAdvice) -> tuple[int, bool]:
    return advice.at_ms, advice.withdrawn


def in_force(view: AdviceView, table: TableView | None) -> AdviceView:
    """Keep only the advice that the planner's newest state lists, or that is newer than it: a
    planner that has lost its state withdraws nothing."""
    summary = table.summary if table else None
    if table is None or summary is None or table.is_dropped:
        return replace(view, words={})
    words = {
        one.rule: one
        for one in view.current_advice
        if one.rule in summary.advised or one.at_ms > summary.updated_at_ms
    }
    return replace(view, words=words)


def most_advised(views: Sequence[AdviceView], limit: int) -> list[AdviceView]:
    """Return the tables with most advice first."""
    some = [one for one in views if one.words]
    return sorted(some, key=lambda one: (len(one.words), one.key), reverse=True)[:limit]


def advice_json(advice: TableAdvice) -> dict[str, Any]:
    """Return one piece of advice."""
    return {
        **place_json(advice.table),
        "rule": advice.rule,
        "finding": advice.finding,
        "remedy": advice.remedy,
        "numbers": advice.numbers,
        "limits": advice.limits,
        "since_ms": advice.since_ms,
        "at_ms": advice.at_ms,
    }
