"""What is reported of a simulated system, and the table that it is printed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.simulate.parameters import DAY_S
from bench.simulate.world import World

ROWS = (
    ("gb_hours", "GB-hours, one engine for all"),
    ("own_gb_hours", "GB-hours, own engine"),
    ("cpu_hours", "CPU hours, one engine"),
    ("amplification", "read amplification, all reads"),
    ("mean_amplification", "read amplification, mean of reads"),
    ("files_per_read", "files per read"),
    ("applications_per_read", "delete applications per read"),
    ("write_amplification", "write amplification"),
    ("tasks", "rewrites"),
    ("no_op_rate", "no-op rate"),
    ("commits", "maintenance commits"),
    ("looks_per_hour", "tables read per hour to decide"),
    ("simulator_cpu_s", "CPU s of the simulator"),
)


def figures_of(name: str, world: World, cpu_s: float) -> dict[str, Any]:
    """All sums of a run that came to its end."""
    ledger, readers = world.ledger, world.readers
    hours = world.p.days * DAY_S / 3_600
    reads = max(readers.reads, 1e-9)
    return {
        "name": name,
        "gb_hours": ledger.gb_hours,
        "own_gb_hours": ledger.own_gb_hours,
        "cpu_hours": ledger.cpu_s / 3_600,
        "amplification": readers.amplification,
        "mean_amplification": readers.mean_amplification,
        "files_per_read": readers.files / reads,
        "applications_per_read": readers.applications / reads,
        "write_amplification": 1 + ledger.bytes_written / max(world.ingested, 1.0),
        "tasks": ledger.tasks,
        "no_op_rate": ledger.no_ops / max(ledger.tasks, 1),
        "commits": ledger.tasks - ledger.no_ops,
        "looks_per_hour": ledger.looks / hours,
        "writers_commits": world.commits,
        "ingested_gb": world.ingested / (1 << 30),
        "orders": ledger.orders,
        "simulator_cpu_s": cpu_s,
        "samples": [asdict(one) for one in world.samples[:: max(len(world.samples) // 60, 1)]],
    }


def table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A Markdown table, a column per system."""
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for key, what in ROWS:
        cells = (shown(one[key]) for one in found.values())
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(value: float) -> str:
    """Three digits, thousands apart."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
