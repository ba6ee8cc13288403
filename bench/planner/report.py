"""bench/results/planner.json into the README beside it, between its two markers: of each figure the
newest run that has it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.planner.run import RESULTS
from bench.planner.turns import ratios
from bench.rewrite.markdown import replace_section

PAGE = Path(__file__).parents[1] / "results" / "README.md"
KB, MB, GB = 1_000, 1_000_000, 1_000_000_000
LEAST_S = 1.0  # that a rate is taken over
Run = dict[str, Any]


def main() -> None:
    """Rewrite the page's generated section."""
    replace_section(PAGE, "planner", figures(load()))


def load() -> list[Run]:
    """Every run, oldest first."""
    runs: list[Run] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    return runs


def figures(runs: list[Run]) -> str:
    """The generated section."""
    if not runs:
        return "Not measured yet."
    parts = (_sizes, _turns, _takeovers, _latency, _ceilings, _polling, _runs)
    return "\n\n".join(part(runs) for part in parts)


def _sizes(runs: list[Run]) -> str:
    heads = (
        "driver", "tables", "events/s", "events per CPU s", "state bytes per table",
        "per partition", "resident MB", "cold start s", "after a kill s", "run", "host s",
    )  # fmt: skip
    rows = [(*_size(*found), _host(found[-1])) for found in newest(runs)]
    return _table(heads, rows)


def newest(runs: list[Run], having: str = "throughput") -> Iterator[tuple[int, str, int, Run]]:
    """(number of the run, driver, tables, figures), of each pair its newest that has such."""
    found = {}
    for number, run in enumerate(runs, 1):
        for driver, one in run["drivers"].items():
            for tables, size in one["sizes"].items():
                if having in size and not _leapt(size.get("throughput", {})):
                    found[driver, int(tables)] = (number, driver, int(tables), size)
    yield from (found[key] for key in sorted(found))


def _leapt(rate: Run) -> bool:
    """Faust may commit its offsets once for all: from one moment to the next there is no rate."""
    return bool(rate.get("seconds", LEAST_S) < LEAST_S)


def _size(number: int, driver: str, tables: int, size: Run) -> tuple[str, ...]:
    rate, back, seeded = size["throughput"], size["recovery"], size["seeded"]
    return (
        driver,
        f"{tables:,}",
        f"{rate['events_per_s']:,}",
        f"{rate['events_per_cpu_s']:,}",
        f"{seeded['state_bytes_per_table']:,}",
        f"{seeded['state_bytes_per_partition']:,}",
        f"{rate['memory']['rss'] / MB:,.0f}",
        f"{back['cold_s']:.1f}",
        f"{back['after_kill_s']:.1f}",
        str(number),
    )


def _turns(runs: list[Run]) -> str:
    number, one = _last(runs, "turns")
    if not one:
        return "Two fleets in turn were not measured yet."
    heads = ("tables", "turns", "events per CPU s", "median", "run")
    rows = [
        (f"{tables:,}", str(len(rates)), f"{min(rates):,} to {max(rates):,}",
         f"{statistics.median(rates):,.0f}", str(number))
        for tables, rates in zip(one["tables"], one["events_per_cpu_s"], strict=True)
    ]  # fmt: skip
    small, large = one["tables"]
    more = ratios(*one["events_per_cpu_s"])
    return (
        f"Two planners in turn: an event of {large:,} tables costs {statistics.median(more):.2f} "
        f"times one of {small:,} (median of {len(more)} turns, each against the two around it; "
        f"mean {statistics.mean(more):.2f}, {min(more):.2f} to {max(more):.2f}):"
        f"\n\n{_table(heads, rows)}"
    )


def _takeovers(runs: list[Run]) -> str:
    heads = ("tables", "s to all buckets", "buckets taken", "records read", "run")
    rows = [
        (f"{tables:,}", str(one["seconds"]), str(one["buckets"]), f"{one['records_read']:,}",
         str(number))
        for number, _, tables, size in newest(runs, "takeover")
        for one in (size["takeover"]["cold"],)
    ]  # fmt: skip
    if not rows:
        return "Takeovers were not measured yet."
    return "Of two planners one is killed; until the other one has its buckets, too:\n\n" + _table(
        heads, rows
    )


def _latency(runs: list[Run]) -> str:
    heads = ("driver", "events/s sent", "orders", "not seen", "p50 ms", "p99 ms", "run", "host s")
    rows = {}
    for number, run in enumerate(runs, 1):
        for driver, one in run["drivers"].items():
            for found in one["latency"]:
                shown = (found[name] for name in ("rate", "orders", "missing", "p50_ms", "p99_ms"))
                values = [str(value) for value in shown]
                rows[driver, found["rate"]] = (driver, *values, str(number), _host(found))
    return "From `FilesChanged` on the broker to its order, read there:\n\n" + _table(
        heads, list(rows.values())
    )


def _last(runs: list[Run], part: str) -> tuple[int, Run]:
    """(number, that part) of the newest run that has it; empty where none has."""
    found = [(number, run[part]) for number, run in enumerate(runs, 1) if part in run]
    return found[-1] if found else (0, {})


def _ceilings(runs: list[Run]) -> str:
    number, each = _last(runs, "ceilings")
    if not each:
        return "What a gateway and an enricher take in was not measured yet."
    heads = ("one process", "commits/s as measured", "commits per CPU s", "run")
    rows = [
        (name, f"{one['per_s']:,}", f"{one['per_cpu_s']:,}", str(number))
        for name, one in each.items()
    ]
    return "What the others on a commit's way take in:\n\n" + _table(heads, rows)


def _polling(runs: list[Run]) -> str:
    number, one = _last(runs, "polling")
    if not one:
        return "What polling would read was not measured yet."
    heads = ("to know what changed", "metadata files/hour", "GB/hour", "run")
    names = {
        "firnline": "Firnline's enricher, tables known to it",
        "firnline_unknown": "the same, every table loaded anew at each commit",
        "amoro": "a loop that asks every table each minute, as Amoro's",
    }
    rows = [
        (text, f"{one[name]['files']:,.0f}", f"{one[name]['bytes'] / GB:,.1f}", str(number))
        for name, text in names.items()
    ]
    kinds = ("kind of table", "metadata file, kB", "a commit, files", "kB", "a plan, files", "kB")
    sizes = [_kind(name, kind) for name, kind in one["kinds"].items()]
    return (
        f"Metadata that a fleet of {one['tables']:,} tables makes read:\n\n{_table(heads, rows)}"
        f"\n\nIts parts, means over the newer half of a real table's commits:\n\n"
        f"{_table(kinds, sizes)}"
    )


def _kind(name: str, one: Run) -> tuple[str, ...]:
    metadata, commit, plan = one["metadata"], one["commit"], one["plan"]
    return (
        name,
        f"{metadata['bytes'] / KB:.0f}",
        f"{commit['files']:.1f}",
        f"{commit['bytes'] / KB:.0f}",
        f"{plan['files']:.0f}",
        f"{plan['bytes'] / KB:.0f}",
    )


def _runs(runs: list[Run]) -> str:
    lines = [
        f"{number}. {run['at']}, {run['machine']}, load {run['load']:.1f} before, commit"
        f" {run['commit']}, scale {run['scale']:g}"
        for number, run in enumerate(runs, 1)
    ]
    return "The runs:\n\n" + "\n".join(lines)


def _host(found: Run) -> str:
    """What ten million additions took in Python, before and after; '' = not measured then."""
    return " to ".join(f"{one:g}" for one in found.get("host_s", ()))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
