"""`firnline-console`: every topic in, read model, API and page out."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import replace

from firnline_adapters import metrics
from firnline_adapters.logs import start_logging
from firnline_adapters.settings import from_environment, shown
from firnline_domain.errors import Misconfigured
from firnline_domain.settings.groups import groups_of

from firnline_console.bootstrap import serve
from firnline_console.settings import Settings


def main() -> None:
    """Run until SIGTERM or Ctrl-C. Exit code 2 where a setting is missing or wrong."""
    log = start_logging("console")
    parser = argparse.ArgumentParser(prog="firnline-console", description=__doc__)
    help_text = "throw the read model away and read every topic from its beginning"
    parser.add_argument("--rebuild", action="store_true", help=help_text)
    arguments = parser.parse_args()
    try:
        settings = from_environment(Settings, os.environ)
        groups_of(settings.groups)
    except Misconfigured as error:
        log.error("misconfigured", why=error)
        sys.exit(2)
    settings = replace(settings, rebuild=settings.rebuild or arguments.rebuild)
    log.info("starting", **shown(settings))
    metrics.serve(settings.metrics_port)
    asyncio.run(serve(settings, log))


if __name__ == "__main__":
    main()
