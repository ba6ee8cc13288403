"""firnline-planner: FilesChanged in, orders out."""

from __future__ import annotations

from firnline_adapters.service import starting

from firnline_planner.bootstrap import run
from firnline_planner.settings import Settings


def main() -> None:
    """Parse the environment and serve."""
    with starting("planner", Settings) as (settings, log):
        run(settings, log)


if __name__ == "__main__":
    main()
