"""The committer's code on results from a file: examine, swap, look again."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from pathlib import Path
from typing import Any

from firnline_adapters.logs import start_logging
from firnline_committer.handlers import Handlers
from firnline_committer.outputs import Outputs
from firnline_committer.repairs import Repairs
from firnline_committer.swapping import Swapper
from firnline_iceberg.commits import JavaCommits
from firnline_iceberg.jvm import IcebergJvm
from firnline_iceberg.tables import Tables
from firnline_local.artifacts import iceberg_jar

from bench.rewrite.child import Act, Question, serve


def start(given: Question) -> Act:
    """Its small JVM is up."""
    log = start_logging("committer")
    commits = JavaCommits(IcebergJvm(iceberg_jar()), given["uri"])
    tables = Tables(given["uri"], **given.get("store", {}))
    outputs, repairs = Outputs(tables, log), Repairs(tables, log, _now_ms)
    swapper = Swapper(tables, commits, outputs, repairs, log, _now_ms, time.sleep)
    handlers = Handlers(swapper, tables, _now_ms)

    def act(question: Question) -> dict[str, Any]:
        results = pickle.loads(Path(question["results"]).read_bytes())
        events = handlers.handle(results)
        return {"events": dict(Counter(type(event).__name__ for event in events))}

    return act


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    serve(start)
