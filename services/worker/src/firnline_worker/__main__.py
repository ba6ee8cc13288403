"""`python -m firnline_worker`: run the worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import sys

from firnline_adapters.health import say_ready
from firnline_adapters.service import starting

from firnline_worker import jvm
from firnline_worker.settings import Settings

AGAIN = 75  # EX_TEMPFAIL: start me again


def main() -> int:
    with starting("worker", Settings) as (settings, log):
        java = jvm.launch(settings, jvm.archive_options(settings))
        # Imported here: 1.3 s beside the JVM's start.
        from firnline_worker import class_archive
        from firnline_worker.bootstrap import build

        worker = build(settings, log, java)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop.set())
        signal.signal(signal.SIGUSR1, lambda *_: worker.leave.set())  # end when nothing runs
        class_archive.make_later(settings)
        say_ready(log, master=settings.spark_master, tasks_at_once=settings.tasks_at_once)
        if not worker.serve():
            return AGAIN
        log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
