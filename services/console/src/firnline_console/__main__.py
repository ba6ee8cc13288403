"""`firnline-console`: every topic in, read model, API and page out."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace

from firnline_adapters.service import run_service
from firnline_domain.settings.groups import parse_groups

from firnline_console.bootstrap import serve
from firnline_console.settings import ConsoleSettings


def main() -> None:
    """Run until SIGTERM or Ctrl-C. Exit with code 2 if a setting is missing or wrong."""
    parser = argparse.ArgumentParser(prog="firnline-console", description=__doc__)
    help_text = "throw the read model away and read every topic from its beginning"
    parser.add_argument("--rebuild", action="store_true", help=help_text)
    arguments = parser.parse_args()
    with run_service("console", ConsoleSettings) as (settings, log):
        parse_groups(settings.groups)
        settings = replace(settings, rebuild=arguments.rebuild)
        asyncio.run(serve(settings, log))


if __name__ == "__main__":
    main()
