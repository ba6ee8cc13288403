"""`firnline-listener`: doorbells in, table-commits out."""

from __future__ import annotations

import signal
import sys
import threading

from firnline_adapters.observability.health import HEALTH
from firnline_adapters.service import run_service
from firnline_domain.errors import RetryLater
from firnline_iceberg.catalog_probe import require_catalogs
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs

from firnline_listener.bootstrap import run
from firnline_listener.settings import ListenerSettings


def main() -> None:
    """Run until SIGTERM or Ctrl-C; exit 1 if a restart is the remedy."""
    with run_service("listener", ListenerSettings) as (settings, log):
        watch_catalogs(HEALTH, settings.connections, catalog_answers)
        require_catalogs(settings.connections, log)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            run(settings, log, stop)
        except RetryLater as error:
            log.error("starting_anew", why=error)
            sys.exit(1)


if __name__ == "__main__":
    main()
