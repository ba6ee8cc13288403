"""firnline-planner: FilesChanged in, orders out."""

from __future__ import annotations

from firnline_adapters.service import run_service

from firnline_planner.bootstrap import run
from firnline_planner.settings import PlannerSettings


def main() -> None:
    """Parse the environment and serve."""
    with run_service("planner", PlannerSettings) as (settings, log):
        run(settings, log)


if __name__ == "__main__":
    main()
