"""The table of the part `cluster`."""

from __future__ import annotations

from typing import Any

from bench.rewrite.markdown import megabytes, table

HEADS = (
    "",
    "wall",
    "CPU of executors",
    "a host's executors and their Python at most, MB",
    "CPU of the driver",
    "its process tree at most, MB",
    "output files",
    "rows right",
)


def cluster_table(result: Any) -> str:
    """A row per side; one that did not finish says why."""
    return table(HEADS, [_row(who, one) for who, one in result["runs"].items()])


def _row(who: str, one: Any) -> tuple[str, ...]:
    cost = (
        f"{one['wall_s']:.0f} s",
        f"{one['executors_cpu_s']:.0f} s",
        megabytes(one["host_pss_peak"]),
    )
    if "failed" in one:
        return (who, *cost, "did not finish", "", "", one["failed"].splitlines()[0][:120])
    driver = (f"{one['driver_cpu_s']:.0f} s", megabytes(one["driver_pss_peak"]))
    right = "yes" if one["same_rows"] else "**no**"
    return (who, *cost, *driver, str(one["output_files"]), right)
