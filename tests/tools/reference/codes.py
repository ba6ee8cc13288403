"""Codes of decisions, refusals and dead letters, with the words that people see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from firnline_adapters.metric_list import DEAD
from firnline_console.labels import label_of
from firnline_domain.policy.decisions import ORDERS, Reason
from firnline_domain.policy.expiry_reasons import ExpiryReason
from firnline_domain.reason_code import ReasonCode
from firnline_domain.records.conflict_reasons import ConflictReason
from firnline_domain.records.orphans import OrphanRefusal
from firnline_domain.records.sharing import SharingRefusal
from firnline_worker.comparing import COMPARED
from firnline_worker.eligibility import ACTION_REFUSED, HANDED_OVER, REFUSED

from tests.tools.reference.markdown import cell, table

HEAD = "code | shown as | meaning and what to do"


def _members(codes: Iterable[ReasonCode]) -> Callable[[], str]:
    """A table of members of an enumeration."""
    rows = [f"`{one.value}` | {cell(one.words)} | {cell(one.meaning)}" for one in codes]
    return lambda: table(HEAD, rows)


def _entries(meanings: Mapping[str, str]) -> Callable[[], str]:
    """A table of codes that are no members of an enumeration."""
    rows = [
        f"`{code}` | {cell(label_of(code))} | {cell(meaning)}"
        for code, meaning in sorted(meanings.items())
    ]
    return lambda: table(HEAD, rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "ordered": _members([one for one in Reason if one in ORDERS]),
    "kept-back": _members([one for one in Reason if one not in ORDERS]),
    "expiry": _members(ExpiryReason),
    "refused": _members(ConflictReason),
    "shared": _members(SharingRefusal),
    "orphans-refused": _members(OrphanRefusal),
    "handed-over": _entries(HANDED_OVER),
    "failed": _entries({**REFUSED, **ACTION_REFUSED}),
    "compared": _entries(COMPARED),
    "dead-letters": lambda: table(
        "code | meaning and what to do",
        (f"`{code}` | {cell(meaning)}" for code, meaning in sorted(DEAD.items())),
    ),
}
