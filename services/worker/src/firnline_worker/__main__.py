"""`python -m firnline_worker`: run the worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys

from firnline_adapters import metrics
from firnline_adapters.logs import start_logging
from firnline_adapters.settings import from_environment, shown
from firnline_domain.errors import Misconfigured

from firnline_worker.bootstrap import build
from firnline_worker.settings import Settings

AGAIN = 75  # EX_TEMPFAIL: start me again


def main() -> int:
    log = start_logging("worker")
    try:
        settings = from_environment(Settings, os.environ)
        log.info("starting", **shown(settings))
        worker = build(settings, log)
    except Misconfigured as error:
        log.error("misconfigured", why=error)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: worker.leave.set())  # end when nothing runs
    metrics.serve(settings.metrics_port)
    log.info("ready", master=settings.spark_master, tasks_at_once=settings.tasks_at_once)
    if not worker.serve():
        return AGAIN
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
