"""What is reported of a simulated system, and the table that it is printed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.simulate.parameters import DAY_S, GB
from bench.simulate.world import World

ROWS = (
    ("gb_hours", "GB-hours, one engine for all"),
    ("own_gb_hours", "GB-hours, own engine"),
    ("amplification", "read amplification, Spark as measured"),
    ("dear_amplification", "read amplification, a dearer reader"),
    ("mean_amplification", "read amplification, mean of reads"),
    ("files_per_read", "files per read"),
    ("applications_per_read", "delete applications per read"),
    ("write_amplification", "write amplification"),
    ("key_tb", "TB of keys read for conversions"),
    ("tasks", "rewrites"),
    ("no_op_rate", "no-op rate"),
    ("commits", "maintenance commits"),
    ("requests_million", "requests to the store, million"),
    ("metadata_gb", "GB of metadata written by its commits"),
    ("replaced_tb_days", "TB-days of replaced files until expiry"),
    ("wait_minutes", "minutes that an order waits for a worker, mean"),
    ("looks_per_hour", "tables read per hour to decide"),
    ("simulator_cpu_s", "CPU s of the simulator"),
)
SINGLE = ("longest_wait_s",)  # the largest of the shards, not their sum


Sums = dict[str, Any]


def sums_of(world: World, cpu_s: float) -> Sums:
    """Everything of a run that adds up over shards of a fleet."""
    ledger = asdict(world.ledger)
    every = max(len(world.samples) // 60, 1)
    return {
        **ledger,
        **{f"reads_{key}": value for key, value in world.readers.sums().items()},
        "readers": {
            name: {"cost_s": readers.cost_s, "ideal_s": readers.ideal_s}
            for name, readers in world.readers_by.items()
        },
        "writers_commits": world.commits,
        "ingested": world.ingested,
        "simulator_cpu_s": cpu_s,
        "samples": [asdict(one) for one in world.samples[::every]],
    }


def added(one: Sums, other: Sums) -> Sums:
    """Two shards as one; of samples and orders each by itself."""
    total: Sums = {}
    for key in one:
        if key == "samples":
            pairs = zip(one[key], other[key], strict=True)
            total[key] = [{**added(a, b), "day": a["day"]} for a, b in pairs]
        elif key == "orders":
            reasons = sorted({*one[key], *other[key]})
            total[key] = {each: one[key].get(each, 0) + other[key].get(each, 0) for each in reasons}
        elif key == "readers":
            total[key] = {name: added(had, other[key][name]) for name, had in one[key].items()}
        elif key in SINGLE:
            total[key] = max(one[key], other[key])
        else:
            total[key] = one[key] + other[key]
    return total


def figures_of(sums: Sums, days: float) -> dict[str, Any]:
    """What is reported of a system."""
    reads, tasks = max(sums["reads_reads"], 1e-9), max(sums["tasks"], 1)
    return {
        "gb_hours": sums["gb_hours"],
        "own_gb_hours": sums["own_gb_hours"],
        "amplification": sums["reads_cost_s"] / max(sums["reads_ideal_s"], 1e-9),
        "readers": (readers := _amplifications(sums)),
        "dear_amplification": readers["a dearer reader"],
        "mean_amplification": sums["reads_ratios"] / reads,
        "files_per_read": sums["reads_files"] / reads,
        "applications_per_read": sums["reads_applications"] / reads,
        "write_amplification": 1 + sums["bytes_written"] / max(sums["ingested"], 1.0),
        "key_tb": sums["key_bytes"] / 1024 / GB,
        "tasks": sums["tasks"],
        "no_op_rate": sums["no_ops"] / tasks,
        "commits": sums["commits"],
        "requests_million": sums["requests"] / 1e6,
        "metadata_gb": sums["metadata_bytes"] / GB,
        "replaced_tb_days": sums["replaced_byte_s"] / DAY_S / 1024 / GB,
        "wait_minutes": sums["waited_s"] / tasks / 60,
        "longest_wait_hours": sums["longest_wait_s"] / 3_600,
        "looks_per_hour": sums["looks"] / (days * DAY_S / 3_600),
        "writers_commits": sums["writers_commits"],
        "ingested_gb": sums["ingested"] / GB,
        "orders": sums["orders"],
        "simulator_cpu_s": sums["simulator_cpu_s"],
        "samples": sums["samples"],
    }


def _amplifications(sums: Sums) -> dict[str, float]:
    """By reader."""
    first = {"cost_s": sums["reads_cost_s"], "ideal_s": sums["reads_ideal_s"]}
    every = {"Spark as measured": first, **sums["readers"]}
    return {name: one["cost_s"] / max(one["ideal_s"], 1e-9) for name, one in every.items()}


def readers_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Read amplification by what a read costs, a column per system."""
    lines = ["| a read | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for name in next(iter(found.values()))["readers"]:
        cells = " | ".join(f"{one['readers'][name]:.4f}" for one in found.values())
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A Markdown table, a column per system."""
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for key, what in ROWS:
        cells = (shown(one[key]) for one in found.values())
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


READERS = {"amplification": "Spark", "dear_amplification": "a dearer reader"}
BARS = {"firnline": 0.6, "firnline_heat": 0.5}  # of a peer's GB-hours, at the most


def verdicts_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A line per peer: Firnline's GB-hours as a share of the peer's, with one engine for all and
    with the peer's own, the amplification of both, and whether the bar is met."""
    ours = [name for name in BARS if name in found]
    heads = (f"{name}, at most {BARS[name]:.0%}" for name in ours)
    lines = ["| against | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(ours)]
    for peer, theirs in found.items():
        if peer in BARS:
            continue
        cells = (_verdict(found[name], theirs, BARS[name]) for name in ours)
        lines.append(f"| {peer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _verdict(ours: Mapping[str, Any], theirs: Mapping[str, Any], most: float) -> str:
    """Once for each reader. Met is a bar only if reads cost no more at all."""
    shares = {
        what: ours[key] / max(theirs[key], 1e-9)
        for key, what in (("gb_hours", "one engine"), ("own_gb_hours", "its own"))
    }
    cheap = [what for what, share in shares.items() if share <= most]
    said = []
    for key, reader in READERS.items():
        met = cheap if ours[key] <= theirs[key] else []
        verdict = f"**met** ({' and '.join(met)})" if met else "**not met**"
        said.append(f"{verdict}, {reader} {ours[key]:.4g} against {theirs[key]:.4g}")
    return " and ".join(f"{share:.0%}" for share in shares.values()) + ": " + "; ".join(said)


def course_of(found: Mapping[str, Mapping[str, Any]], points: int = 6) -> str:
    """Over time, a line per system: GB-hours so far, and what reads of that moment cost against
    tidy ones."""
    samples = {name: one["samples"] for name, one in found.items()}
    count = min(len(one) for one in samples.values())
    places = sorted({max(count * step // points - 1, 0) for step in range(1, points + 1)})
    days = [f"day {next(iter(samples.values()))[place]['day']:.2g}" for place in places]
    lines = ["| | " + " | ".join(days) + " |", "| --- |" + " ---: |" * len(days)]
    for name, one in samples.items():
        moments = (one[place] for place in places)
        cells = [
            f"{shown(at['gb_hours'])} / {at['cost_s'] / max(at['ideal_s'], 1e-9):.3g}"
            for at in moments
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(value: float) -> str:
    """Three digits, thousands apart."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
