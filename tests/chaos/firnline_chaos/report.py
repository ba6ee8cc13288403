"""What a run came to, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, RewriteSkipped
from firnline_domain.records.results import TableResult, TaskFailed

from firnline_chaos.rounds import Run
from firnline_chaos.topics import Ledger


def figures(run: Run, seed: int, rounds: int, minutes: float) -> dict[str, Any]:
    """Everything that is worth a number."""
    outcomes = Counter(done.outcome for done in run.book.done)
    landed = Counter(done.write.kind for done in run.book.done if done.outcome == "landed")
    snapshots = [n for one in run.book.lineages.values() for n in one.nodes.values()]
    lake = run.ground.lake
    struck = {
        name: times for name, times in run.storm.struck.items() if not name.startswith("spoil")
    }  # of the spoils, those that met a commit count
    return {
        "seed": seed,
        "rounds": rounds,
        "minutes": round(minutes, 1),
        "writes": dict(outcomes),
        "landed": dict(landed),
        "snapshots of writers": sum(node.marker is not None for node in snapshots),
        "snapshots of Firnline": sum(bool(node.tasks) for node in snapshots),
        "faults": sum(struck.values()) + sum(run.ground.journal.spoiled.values()),
        "struck": struck,
        "commits spoiled": dict(run.ground.journal.spoiled),
        "faults that met nothing": dict(run.storm.missed),
        "faults that never struck": run.storm.never_struck(run.ground.sorts),
        "what the lake refused": lake.refusals() if lake else {},
        "faults that this machine does not have": dict(run.storm.skipped),
        "tasks": tasks(run.topics.ledger),
        "committed by action": actions(run.topics.ledger),
        "snapshots that dropped rows of age": sum(bool(n.tasks) and n.drops for n in snapshots),
        "hostile inputs": dict(run.hostile.book.sent),
        "what the gateway answered them": dict(run.hostile.book.answers),
        "swept at the end": dict(run.swept),
        "invariants looked at": run.checks,
        "findings": run.findings,
    }


def tasks(ledger: Ledger) -> dict[str, int]:
    """Orders, and how they ended."""
    found: Counter[str] = Counter(orders=len(ledger.orders))
    for ends in ledger.ends.values():
        found.update(_word(end) for end in ends)
    return dict(found)


def actions(ledger: Ledger) -> dict[str, int]:
    """Committed rewrites by what was ordered."""
    return dict(
        Counter(
            orders[0].action
            for task, orders in ledger.orders.items()
            if any(isinstance(end, RewriteCommitted) for end in ledger.ends.get(task, ()))
        )
    )


def _word(end: Any) -> str:
    match end:
        case RewriteCommitted():
            return "committed again told" if end.redelivered else f"committed {end.classification}"
        case RewriteConflicted():
            return f"conflict {end.reason}"
        case RewriteSkipped():
            return f"skipped {end.reason}"
        case TaskFailed():
            return f"failed {end.reason}"
        case TableResult():
            return f"{end.action} {end.refused_reason or 'done'}"
    return type(end).__name__


def lines(found: dict[str, Any]) -> Iterable[str]:
    """A line per figure."""
    for name, value in found.items():
        if isinstance(value, dict):
            parts = sorted(value.items(), key=lambda item: -item[1])
            yield f"{name}: " + (", ".join(f"{what} {times}" for what, times in parts) or "none")
        elif isinstance(value, list):
            yield f"{name}: {len(value)}"
            yield from (f"  {one}" for one in value)
        else:
            yield f"{name}: {value}"
