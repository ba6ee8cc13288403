"""Builds the planner: the one place that knows how its parts fit."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import faust
from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_adapters.records import RecordCodec
from firnline_adapters.schema_topic import SchemaTopic
from firnline_domain.errors import Misconfigured
from firnline_domain.thresholds import Thresholds
from firnline_domain.windows import problem

from firnline_planner import watchdog
from firnline_planner.defaults import with_defaults
from firnline_planner.faust_app import faust_app
from firnline_planner.faust_driver import FaustDriver, wall_ms
from firnline_planner.inputs import TICKS, Reader
from firnline_planner.local_state import LocalState
from firnline_planner.settings import Settings


def thresholds_of(settings: Settings) -> Thresholds:
    """Defaults for tables that say nothing. Raises Misconfigured."""
    for variable, text in (
        ("FIRNLINE_WINDOW", settings.window),
        ("FIRNLINE_BLACKOUT", settings.blackout),
    ):
        if wrong := problem(text):
            raise Misconfigured(f"{variable}: {wrong}")
    limits = Thresholds(
        window=settings.window,
        blackout=settings.blackout,
        shadow=settings.shadow,
        min_fragments=settings.min_fragments,
        min_equality_deletes=settings.min_equality_deletes,
        min_position_deletes=settings.min_position_deletes,
    )
    return with_defaults(settings.defaults, limits, wall_ms())


def run(settings: Settings, log: Log) -> None:
    """Serve until a signal; leaves the process through SystemExit. Raises Misconfigured."""
    defaults = thresholds_of(settings)
    metrics.serve(settings.metrics_port)
    local = LocalState(settings.state_dir)
    if not local.open():
        log.warning("restoring", why="the last planner here did not stop in order")
    made = faust_app(settings, local.directory)
    reader = Reader(RecordCodec(SchemaTopic(settings.kafka).find), log)
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
