"""bench/results/scale.json into the README beside it, between its two markers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.rewrite.markdown import replace_section, table

RESULTS = Path(__file__).parents[1] / "results"
BAR_RATIO, BAR_S = 0.9, 15.0
Body = Mapping[str, Any]


def main() -> None:
    """Rewrite the page's generated section."""
    write(json.loads((RESULTS / "scale.json").read_text()))


def write(body: Body, page: Path = RESULTS / "README.md") -> None:
    replace_section(page, "scale", figures(body))


def figures(body: Body) -> str:
    """The generated section."""
    said = (
        f"Taken {body['taken_at']} at {body['commit']} on {body['machine']}, load before it "
        f"{body['load_before']:.1f}. A worker has {body['share']:g} of a core. A task rewrites "
        "five files of 20,000 rows into one."
    )
    return "\n\n".join([said, table(HEADS, map(_drain, body["drains"])), _bars(body)])


HEADS = (
    *("workers", "tasks", "s until ready", "s in all", "CPU s in all", "of it until ready"),
    *("tasks per CPU s, from the 20th on", "from the 20th to the 80th of each", "by worker"),
    "CPU s of 2 million additions meanwhile",
    *("partitions with one file", "rewritten twice", "tables with other rows"),
)


def _drain(one: Body) -> tuple[str, ...]:
    return (
        *(str(one[name]) for name in ("workers", "tasks", "ready_s", "wall_s", "cpu_s")),
        *(str(one[name]) for name in ("start_cpu_s", "tasks_per_cpu_s", "young_tasks_per_cpu_s")),
        ", ".join(map(str, one["by_worker"])),
        f"{one['host_s']:.3f}",
        *(str(one[name]) for name in ("healthy", "rewritten_twice", "wrong_rows")),
    )


def _bars(body: Body) -> str:
    rows = [
        (what, f"{found:.2f}", bar, "met" if good else "**not met**")
        for what, found, bar, good in _measured(body)
    ]
    return table(("what", "found", "bar", ""), rows)


def _measured(body: Body) -> list[tuple[str, float, str, bool]]:
    found = list[tuple[str, float, str, bool]]()
    by_count = {one["workers"]: one for one in body["drains"]}
    if by_count:
        one, most = by_count[min(by_count)], by_count[max(by_count)]
        for name, what in (
            ("young_tasks_per_cpu_s", "of equally old workers"),
            ("tasks_per_cpu_s", "from the 20th task of each on"),
        ):
            ratio = most[name] / one[name]
            text = f"tasks per CPU s, {most['workers']} workers by {one['workers']}, {what}"
            found.append((text, ratio, f"at least {BAR_RATIO}", ratio >= BAR_RATIO))
    for kill in body.get("churn", {}).get("kills", ()):
        for text, seconds in (
            ("a task of a killed worker's tables begins, s", kill["first_s"]),
            ("the last of its running tasks begins again, s", max(kill["running_s"], default=None)),
        ):
            if seconds is not None:
                found.append((text, seconds, f"below {BAR_S:g}", seconds < BAR_S))
    if planner := body.get("planner"):
        text = f"a killed planner: {planner['tables']} commits right after it have their tasks, s"
        found.append((text, planner["last_task_s"], f"below {BAR_S:g}",
                      planner["last_task_s"] < BAR_S))  # fmt: skip
    for name, part in (("drains", d) for d in body["drains"]):
        found += _counted(f"{name}, {part['workers']} workers", part)
    if churn := body.get("churn"):
        found += _counted("workers added and killed", churn)
    return found


def _counted(text: str, part: Body) -> list[tuple[str, float, str, bool]]:
    twice, wrong = part["rewritten_twice"], part["wrong_rows"]
    unhealthy = part["tasks"] - part["healthy"]
    return [
        (f"{text}: partitions rewritten twice, left or with other rows", twice + wrong + unhealthy,
         "0", twice + wrong + unhealthy == 0)
    ]  # fmt: skip


if __name__ == "__main__":
    main()
