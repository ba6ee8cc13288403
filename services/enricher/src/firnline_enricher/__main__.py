"""`firnline-enricher`: table-commits and resync-requests in, file-changes out."""

from __future__ import annotations

import signal
import threading

from firnline_adapters.observability.health import HEALTH, say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.service import run_service
from firnline_domain.errors import RetryLater
from firnline_iceberg.catalog_probe import require_catalogs
from firnline_iceberg.connection.auth import catalog_answers
from firnline_iceberg.connection.settings import watch_catalogs

from firnline_enricher.bootstrap import build_pump
from firnline_enricher.settings import EnricherSettings

POLL_S = 0.1  # what a lone commit waits for company


def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    with run_service("enricher", EnricherSettings) as (settings, log):
        stop = threading.Event()
        run(settings, log, stop)


def run(settings: EnricherSettings, log: Log, stop: threading.Event) -> None:
    """Pump until `stop`; the next run reads again what was read and not sent. Raises
    Misconfigured, or RetryLater if a restart is the remedy."""
    watch_catalogs(HEALTH, settings.connections, catalog_answers)
    require_catalogs(settings.connections, log)
    pump, inbox = build_pump(settings, log)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    say_ready(log)
    try:
        while not stop.is_set():
            pump.step(POLL_S)
    except RetryLater:
        inbox.close()
        raise
    except BaseException:
        inbox.close(died=True)
        raise
    inbox.close()
    log.info("stopped")


if __name__ == "__main__":
    main()
