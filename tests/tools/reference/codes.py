"""Codes of decisions, refusals and dead letters, with the words that people see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from firnline_adapters.observability.metric_list import DEAD
from firnline_console.text.labels import label_of
from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.registry import ORDER_REASONS, WAIT_REASONS
from firnline_domain.policy.table_action.snapshot_retention import ExpiryReason
from firnline_domain.policy.triggers.table import ORDERS, TriggerReason
from firnline_domain.records.events import Classification
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.orphans import OrphanRefusal
from firnline_domain.records.parts.sharing import SharingRefusal
from firnline_iceberg.commit.revert import UndoRefusal
from firnline_iceberg.removal.removal import SweepReason
from firnline_worker.rewrite.compare_rows import COMPARED
from firnline_worker.rewrite.eligibility import ACTION_REFUSED, HANDED_OVER, REFUSED

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


OF_ANY_ACTION = (
    *(Reason.DISABLED, Reason.PAUSED, Reason.FORMAT_VERSION_4, Reason.BLACKOUT),
    *(Reason.OUTSIDE_WINDOW, Reason.UNREADABLE_WINDOW, Reason.SHADOW, Reason.REMOVED),
)
BLOCKS: dict[str, Callable[[], str]] = {
    "ordered": _members([*TriggerReason, Reason.REQUESTED, *ORDER_REASONS]),
    "kept-back": _members([*WAIT_REASONS, *(one for one in Reason if one not in ORDERS)]),
    "expiry": _members([*ExpiryReason, *OF_ANY_ACTION]),
    "committed": _members(Classification),
    "refused": _members(ConflictReason),
    "undo": _members(UndoRefusal),
    "shared": _members(SharingRefusal),
    "orphans-refused": _members(OrphanRefusal),
    "lists-left": _members(SweepReason),
    "handed-over": _entries(HANDED_OVER),
    "failed": _entries({**REFUSED, **ACTION_REFUSED}),
    "compared": _entries(COMPARED),
    "dead-letters": lambda: table(
        "code | meaning and what to do",
        (f"`{code}` | {cell(meaning)}" for code, meaning in sorted(DEAD.items())),
    ),
}
