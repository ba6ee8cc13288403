"""A supervisor without a terminal: `python -m firnline_local --state DIR [--only PART,PART]
[--workers 0..4]`. FIRNLINE_PART_SETTINGS may hold settings of single parts: `{PART: {NAME: VALUE}}`
in JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import psutil

from firnline_local.stack.parts import SETTINGS, Settings, UnknownPart, choose_parts
from firnline_local.stack.state import AlreadyRunning, Event, StateDir
from firnline_local.stack.supervisor import StartFailed, Supervisor
from firnline_local.topics.topics import WrongPartitions
from firnline_local.workers.keeper import ONE_WORKER, read_limits


def own_age_s() -> float:
    """Return the seconds since this process was started, interpreter and imports included."""
    return time.time() - psutil.Process().create_time()


def main() -> int:
    """Run a supervisor. Return the exit code: 0 stopped by a signal, 1 did not start, 2 wrong use
    or already running."""
    flags = argparse.ArgumentParser(prog="firnline_local")
    flags.add_argument("--state", type=Path, required=True)
    flags.add_argument("--only")
    flags.add_argument("--workers", type=read_limits, default=ONE_WORKER)
    given = flags.parse_args()
    only = tuple(given.only.split(",")) if given.only else None
    try:
        settings = settings_of(os.environ.pop(SETTINGS, "{}"))
        state = StateDir.from_path(given.state)
        Supervisor(state, only, _print_event, own_age_s, settings, given.workers).run()
    except (AlreadyRunning, UnknownPart) as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    except (StartFailed, WrongPartitions) as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0


def settings_of(text: str) -> Settings:
    """Return the settings by part. Raises UnknownPart."""
    found: dict[str, dict[str, str]] = json.loads(text)
    choose_parts(tuple(found))
    return found


def _print_event(event: Event) -> None:
    print(event.as_line(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
