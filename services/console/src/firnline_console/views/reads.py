"""Read rate of a table, as its debt is weighed, and the source of the rate, as JSON values."""

from __future__ import annotations

from typing import Any

from firnline_domain.records.states import TableReads, TableState
from firnline_domain.settings.in_force import settings_in_force

from firnline_console.text.amounts import in_time

ASSUMED = "firnline.reads-per-hour"


def reads_json(state: TableState | None) -> dict[str, Any] | None:
    """Return the read rate and its source; None before the planner has counted the table."""
    if state is None:
        return None
    reads = state.reads
    assumed = _assumed_rate(state)
    return {
        "per_hour": assumed if reads is None else reads.in_force,
        "reported_per_hour": None if reads is None else reads.reported,
        "reported_since_ms": None if reads is None else reads.since_ms,
        "words": f"{_an_hour(assumed)}, assumed" if reads is None else _reads_text(reads, state),
    }


def _assumed_rate(state: TableState) -> float:
    settings = {one.name: one for one in state.in_force or ()}
    return float((settings.get(ASSUMED) or settings_in_force(state.settings)[ASSUMED]).value)


def _reads_text(reads: TableReads, state: TableState) -> str:
    seen_ms = max(state.updated_at_ms - reads.since_ms, 0)
    by_readers = f"{_rate_text(reads.reported)} by reports of {in_time(seen_ms / 1000)}"
    who = "assumed" if reads.in_force == _assumed_rate(state) else "learned"
    return f"{_an_hour(reads.in_force)}, {who} ({by_readers})"


def _an_hour(rate: float) -> str:
    return f"{_rate_text(rate)} {'scan' if rate == 1 else 'scans'} an hour"


def _rate_text(rate: float) -> str:
    return f"{round(rate, 1 if rate >= 1 else 2):,.12g}"
