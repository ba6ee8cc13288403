"""`make policy-year`: what a year of maintenance costs single tables, and its readers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firnline_domain.base.values import replace

from bench.simulate.figures import shown
from bench.simulate.parameters import GB, HOUR_S, MB, Parameters
from bench.simulate.run import RESULTS, system_of
from bench.simulate.stories import MINUTE_S, STORIES, Story, year_of
from bench.simulate.world import World
from bench.simulate.year_plot import svg

SYSTEMS = ("firnline", "firnline_heat", "amoro", "hourly_convert", "nightly_deletes")
# Readers are the same every day, so nothing has to be found out in days before.
YEAR = replace(
    Parameters(),
    days=365.0,
    warm_days=0.0,
    tick_s=3_600.0,
    grain_s=300.0,
    sample_s=1_500.0,  # at any time of an hour: its commits come all at its beginning
    late_share=0.0,
    workers_per_table=4.0,
)
Figures = dict[str, dict[str, float]]  # by story, by measure


def year_by(name: str, p: Parameters = YEAR, stories: Sequence[Story] = STORIES) -> Figures:
    """The year of one system."""
    p = replace(p, tables=len(stories))
    fleet, p, deletes = year_of(tuple(stories), p)
    world = World(p, fleet)
    world.lake.came[0] = deletes
    world.lake.came[1] = deletes * 10_000
    world.run(system_of(name, world))
    ledger, readers = world.ledger.by_table, world.readers
    found = {}
    for table, story in enumerate(stories):
        came = max(float(world.ingested_of[table]), 1.0)
        units = fleet.table == table
        found[story.name] = {
            "written_gb": float(ledger["bytes_written"][table]) / GB,
            "write_amplification": 1 + float(ledger["bytes_written"][table]) / came,
            "key_gb": float(ledger["key_bytes"][table]) / GB,
            "cpu_hours": float(ledger["cpu_s"][table]) / HOUR_S,
            "read_amplification": float(
                readers.cost_of[table] / max(readers.ideal_of[table], 1e-9)
            ),
            "worst_hour": float(readers.worst_of[table]),
            "oldest_delete_hours": float(readers.oldest_of[table]) / HOUR_S,
            "commits": float(ledger["commits"][table]),
            "ingested_gb": came / GB,
            "holds_gb": float(world.lake.all.bytes[units].sum()) / GB,
        }
    return found


COLUMNS = (
    ("cpu_hours", "CPU hours"),
    ("written_gb", "GB rewritten"),
    ("write_amplification", "write amplification"),
    ("key_gb", "GB of keys read"),
    ("read_amplification", "read amplification"),
    ("worst_hour", "the worst"),
    ("oldest_delete_hours", "oldest equality delete, h"),
    ("commits", "commits"),
)


def table_of(found: Mapping[str, Figures]) -> str:
    """A row per story and system."""
    lines = [
        "| table | system | " + " | ".join(what for _, what in COLUMNS) + " |",
        "| --- | --- |" + " ---: |" * len(COLUMNS),
    ]
    for story in [one.name for one in STORIES]:
        for name, figures in found.items():
            if story not in figures:
                continue
            cells = " | ".join(shown(figures[story][key]) for key, _ in COLUMNS)
            lines.append(f"| {story} | {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; leave bench/results/policy_year.json and .svg, with the systems that were
    run before; with another tick policy_minutes.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=YEAR.days)
    parser.add_argument("--tick", type=float, default=YEAR.tick_s, help="s; 60: no commits as one")
    parser.add_argument("--target", type=int, default=128, help="MB")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--stories", default="", help="but those; as they are called, with ;")
    parser.add_argument("--streams", action="store_true", help="but those with a commit a minute")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    given = parser.parse_args()
    p = replace(YEAR, days=given.days, target_bytes=given.target * MB, tick_s=given.tick)
    p = replace(p, grain_s=min(p.grain_s, p.tick_s))
    whole = p.tick_s == YEAR.tick_s
    path = given.folder / ("policy_year.json" if whole else "policy_minutes.json")
    wanted = set(filter(None, given.stories.split(";")))
    if given.streams:
        wanted |= {one.name for one in STORIES if one.period_s == MINUTE_S}
    if unknown := wanted - {one.name for one in STORIES}:
        raise SystemExit(f"no story is called {', '.join(sorted(unknown))}")
    body: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if (body.get("days"), body.get("target_mb")) != (p.days, given.target):
        body = {"days": p.days, "target_mb": given.target, "systems": {}}
    for name in given.systems.split(","):
        started = time.process_time()
        stories = [one for one in STORIES if not wanted or one.name in wanted]
        body["systems"].setdefault(name, {}).update(year_by(name, p, stories))
        path.write_text(json.dumps(body, indent=1) + "\n")
        print(f"{name}: {time.process_time() - started:.0f} CPU s", flush=True)
    if whole:
        path.with_suffix(".svg").write_text(svg(body["systems"]))
    print(table_of(body["systems"]))


if __name__ == "__main__":
    main()
