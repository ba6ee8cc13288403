"""`firnline-committer`: task-results in, commits and maintenance-events out."""

from __future__ import annotations

import signal
import threading

from firnline_adapters.observability.health import HEALTH, say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.service import run_service
from firnline_domain.errors import RetryLater
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs
from firnline_iceberg.java.jvm import JavaFailed, JvmEnded

from firnline_committer.bootstrap import open_pump
from firnline_committer.settings import CommitterSettings

POLL_S = 0.1  # what a lone result waits for company
FINISH_S = 10.0  # for the commits in work; supervisors kill after 15 s


def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    with run_service("committer", CommitterSettings) as (settings, log):
        stop = threading.Event()
        watch_catalogs(HEALTH, settings.connections, catalog_answers)
        try:
            run(settings, log, stop)
        except (JvmEnded, JavaFailed) as error:
            raise RetryLater(str(error)) from error
        log.info("stopped")


def run(settings: CommitterSettings, log: Log, stop: threading.Event) -> None:
    """Pump until `stop` is set. The next run reads again what was read and not handled."""
    with open_pump(settings, log) as pump:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        say_ready(log)
        while not stop.is_set():
            pump.step(POLL_S)
        pump.finish(FINISH_S)


if __name__ == "__main__":
    main()
