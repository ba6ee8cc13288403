"""`make bench-sizing`: what each service uses with 100 to 50,000 real tables. One run of the fleet
for each number of tables. Leaves bench/results/sizing.json, and its table in the README beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.rewrite.markdown import replace_section, table
from bench.rewrite.run import RESULTS, where
from bench.scale.fleet import run_fleet
from bench.scale.fleet_report import Body
from bench.soak.ground import ground

FLEETS = ((100, 1.0), (1_000, 5.0), (5_000, 15.0), (50_000, 25.0))
"""Tables, and commits a second. Two cores have room for 27 beside the services."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--most", type=int, default=FLEETS[-1][0], help="tables")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    body: dict[str, Any] = {**where(), "minutes": given.minutes, "fleets": []}
    for tables, per_second in FLEETS:
        if tables > given.most:
            break
        with (
            tempfile.TemporaryDirectory(prefix="firnline-sizing-") as folder,
            ground("files", Path(folder)) as made,
        ):
            found = run_fleet(made, tables, given.minutes, per_second)
        body["fleets"].append({"tables": tables, **summarize(found)})
        print(body["fleets"][-1], flush=True)
    (given.results / "sizing.json").write_text(json.dumps(body, indent=1) + "\n")
    replace_section(given.results / "README.md", "sizing", describe(body))


def summarize(found: Body) -> dict[str, Any]:
    """Return what each service used while the writers wrote."""
    samples = found["samples"]
    first, last = samples[0], [one for one in samples if "commits" in one][-1]
    created, written = (found["topic_bytes"][name] for name in ("created", "written"))
    return {
        "commits_per_second": found["commits_per_second"],
        "commits": sum(found["commits"].values()),
        "tasks": found["tasks"],
        "cores": {
            name: round((cpu_s - first["cpu_s"][name]) / last["at_s"], 4)
            for name, cpu_s in last["cpu_s"].items()
        },
        "memory_mb": {
            name: max(one["memory_mb"][name] for one in samples) for name in first["memory_mb"]
        },
        "disk_bytes": found["disk_bytes"],
        "topic_bytes_created": created,
        "topic_bytes_written": {
            name: size - created.get(name, 0) for name, size in written.items()
        },
    }


def describe(body: Body) -> str:
    """Return the generated section: a table of services, and one of topics."""
    fleets: Sequence[Body] = body["fleets"]
    begin = (
        f"Taken {body['taken_at']} at {body['commit']} on {body['machine']}. Each number of tables "
        f"for {body['minutes']:g} minutes. Of process trees: cores on average, peak memory, "
        "disk at the end."
    )
    heads = [f"{one['tables']:,} tables" for one in fleets]
    paces = ["commits per second", *(f"{one['commits_per_second']:g}" for one in fleets)]
    used = [[name, *(_use(one, name) for one in fleets)] for name in sorted(fleets[0]["cores"])]
    per_table = (sum(one["topic_bytes_created"].values()) / one["tables"] for one in fleets)
    kept = [["for each new table, all topics", *(f"{size:,.0f}" for size in per_table)]]
    for name in _largest(fleets):
        sizes = (one["topic_bytes_written"].get(name, 0) / one["commits"] for one in fleets)
        kept.append([f"for each commit, `{name}`", *(f"{size:,.0f}" for size in sizes)])
    services = table(("service", *heads), [paces, *used])
    return "\n\n".join([begin, services, table(("bytes in Kafka", *heads), kept)])


def _use(fleet: Body, service: str) -> str:
    return (
        f"{fleet['cores'][service]:.3f} cores, {fleet['memory_mb'][service]:,.0f} MB, "
        f"{fleet['disk_bytes'][service] / 1e6:,.0f} MB of disk"
    )


def _largest(fleets: Sequence[Body]) -> list[str]:
    """Topics with at least 100 bytes for each commit of some fleet."""
    return sorted({
        name for one in fleets for name, size in one["topic_bytes_written"].items()
        if size >= 100 * one["commits"]
    })  # fmt: skip


if __name__ == "__main__":
    main()
