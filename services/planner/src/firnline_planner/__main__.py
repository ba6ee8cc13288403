"""firnline-planner: FilesChanged in, orders out."""

from __future__ import annotations

import os
import sys

from firnline_adapters.logs import start_logging
from firnline_adapters.redaction import redacted
from firnline_adapters.settings import from_environment, shown
from firnline_domain.errors import Misconfigured

from firnline_planner.bootstrap import run
from firnline_planner.settings import Settings


def main() -> None:
    """Parse the environment and serve."""
    log = start_logging("planner")
    try:
        settings = from_environment(Settings, os.environ)
        log.info("starting", **shown(settings))
        run(settings, log)
    except Misconfigured as wrong:
        sys.exit(redacted(str(wrong)))


if __name__ == "__main__":
    main()
