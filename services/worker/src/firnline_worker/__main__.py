"""`python -m firnline_worker`: run the worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace

from firnline_adapters.observability.health import say_ready
from firnline_adapters.service import AGAIN, run_service
from firnline_adapters.state_dir import require_state_dir
from firnline_iceberg.java.jars import class_path, own_properties
from firnline_iceberg.java.jvm import require_user

from firnline_worker.host.own_folder import own_folder
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark import jvm


def main() -> int:
    """Run the worker; return its exit code."""
    with run_service("worker", WorkerSettings) as (settings, log):
        require_user()
        own = own_folder(require_state_dir(settings.state_dir), f"{jvm.SCRATCH}-")
        jars = class_path(settings.iceberg_jar, own_properties(settings.connections))
        settings = replace(settings, iceberg_jar=jars, scratch=str(own.path))
        java = jvm.launch(settings)
        # Imported here: 1.3 s beside the JVM's start.
        from firnline_worker.bootstrap import build_worker

        worker = build_worker(settings, log, java)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop.set())
        signal.signal(signal.SIGUSR1, lambda *_: worker.leave.set())  # end when nothing runs
        say_ready(log, master=settings.spark_master, tasks_at_once=settings.tasks_at_once)
        try:
            if not worker.serve():
                return AGAIN
        finally:
            own.close()
        log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
