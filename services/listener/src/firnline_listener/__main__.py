"""`firnline-listener`: doorbells in, table-commits out."""

from __future__ import annotations

import signal
import threading

from firnline_adapters.observability.health import HEALTH
from firnline_adapters.service import run_service
from firnline_iceberg.catalog_probe import require_catalogs
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs

from firnline_listener.bootstrap import run
from firnline_listener.settings import ListenerSettings


def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    with run_service("listener", ListenerSettings) as (settings, log):
        watch_catalogs(HEALTH, settings.connections, catalog_answers)
        require_catalogs(settings.connections, log)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        run(settings, log, stop)


if __name__ == "__main__":
    main()
