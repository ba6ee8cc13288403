"""The committer's code on results from a file: examine, swap, look again."""

from __future__ import annotations

import pickle
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firnline_adapters.observability.logs import start_logging
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_committer.handlers import CommitterHandlers
from firnline_domain.errors import RetryLater
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.servers.artifacts import iceberg_jar

from bench.rewrite.child import Act, Question, serve


def start(given: Question) -> Act:
    """Its small JVM is up."""
    log = start_logging("committer")
    commits = JavaCommits(IcebergJvm(iceberg_jar()), given["uri"])
    lake = open_catalog(given["uri"], **given.get("store", {}))
    handlers = CommitterHandlers(Committer(lake, commits, log, _now_ms), lake.tables, _now_ms)

    def act(question: Question) -> dict[str, Any]:
        results = pickle.loads(Path(question["results"]).read_bytes())
        events = _handled(handlers, results)
        return {"events": dict(Counter(type(event).__name__ for event in events)), **_sums(events)}

    return act


def _handled(handlers: CommitterHandlers, results: Sequence[Any]) -> Sequence[Any]:
    """As the pump does, without its pauses."""
    while True:
        try:
            return handlers.handle(results)
        except RetryLater as later:
            print(later, file=sys.stderr, flush=True)


def _sums(events: Sequence[Any]) -> dict[str, Any]:
    """Bytes that reached a commit, and those that did not, with their reasons."""
    done = [event for event in events if isinstance(event, RewriteCommitted)]
    refused = [event for event in events if isinstance(event, RewriteConflicted)]
    reasons = [*(one.lost_reason for one in done), *(one.reason.value for one in refused)]
    return {
        "bytes_committed": sum(event.bytes_after for event in done),
        "bytes_lost": sum(event.bytes_lost for event in done)
        + sum(event.bytes_written for event in refused),
        "rows_repaired": sum(event.rows_repaired for event in done),
        "reasons": dict(Counter(reason for reason in reasons if reason)),
    }


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    serve(start)
