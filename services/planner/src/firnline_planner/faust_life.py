"""A planner under Faust, from its start to a signal: at least once, one record at a time."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import faust
from firnline_adapters.logs import Log
from firnline_domain.thresholds import Thresholds

from firnline_planner import watchdog
from firnline_planner.faust_app import faust_app
from firnline_planner.faust_driver import FaustDriver
from firnline_planner.inputs import TICKS, Reader
from firnline_planner.local_state import LocalState
from firnline_planner.settings import Settings


def serve(settings: Settings, reader: Reader, defaults: Thresholds, log: Log) -> None:
    """Until a signal; leaves the process through SystemExit."""
    local = LocalState(settings.state_dir, f"{settings.app} {settings.buckets}")
    if not local.open():
        log.warning("restoring", why="the last planner here did not stop in order")
    made = faust_app(settings, local.directory)
    stop = partial(watchdog.stop, log)
    driver = FaustDriver(made, settings, reader, defaults, log, stop)
    driver.install()
    signs = {
        "events or recovery": partial(_progress, made.app, driver),
        "commits": partial(_committed, made.app),
    }
    guard = watchdog.Watchdog(signs, settings.stall_s, stop)
    guard.start()
    worker = faust.Worker(
        made.app, loglevel="info", override_logging=False, redirect_stdouts=False, quiet=True
    )
    worker.spinner = None  # it writes to the terminal at every log line
    try:
        worker.execute_from_commandline()
    except SystemExit as ended:
        if not ended.code:
            local.close()
        raise


def _progress(app: Any, driver: FaustDriver) -> Hashable | None:
    """Moves with each event handled (there are ticks) and with each record restored."""
    if not app.started or _idle(app):
        return None
    restored = sum(offset or 0 for offset in dict(app.tables.recovery.active_offsets).values())
    return driver.handled, restored


def _committed(app: Any) -> Hashable | None:
    """Moves with the offsets committed of the ticks, of which there is always another."""
    if not app.started or _idle(app):
        return None
    offsets = dict(app.consumer._committed_offset)
    return sum(offset or 0 for tp, offset in offsets.items() if tp.topic == TICKS)


def _idle(app: Any) -> bool:
    """True for a worker that has joined and was given nothing."""
    return bool(app.unassigned)
