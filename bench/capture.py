"""How soon a commit becomes a task, by how it is noticed: `make bench-capture CAPTURE=postgres`.

Prints, as JSON: seconds from the snapshot's own time (before the catalog has accepted it) to the
task on its topic, one table for each commit, with the load that the host had.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.thresholds import Thresholds
from firnline_local.stack.parts import CAPTURES, parts_with
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import initial_buckets
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64())])
UNMEASURED = {"committer", "worker", "console"}  # parts behind the task
SETTLE_S = 20.0  # all but the last commit of each table are noticed
WAIT_S = 120.0


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--capture", choices=CAPTURES, default="postgres")
    asked.add_argument("--tables", type=int, default=100)
    given = asked.parse_args()
    parts = tuple(one for one in parts_with(given.capture) if one not in UNMEASURED)
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder) / "s", parts) as stack:
        waits = sorted(measure_tables(stack, given.tables))
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    found = {
        "capture": given.capture,
        "commits": len(waits),
        "commit_to_task_p50_s": round(cuts[49], 3),
        "commit_to_task_p99_s": round(cuts[98], 3),
        "longest_s": round(waits[-1], 3),
        "load_of_host": round(os.getloadavg()[1], 1),
    }
    print(json.dumps(found, indent=2))


def measure_tables(stack: Stack, count: int) -> list[float]:
    """Seconds from the commit that crosses a table's threshold to its task."""
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    catalog.create_namespace("bench")
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    group = f"bench-{uuid.uuid4()}"
    inbox = KafkaInbox(stack.kafka, group, ["rewrite-tasks"], publisher, Log("bench"))
    try:
        tables = [fill_table(catalog, number) for number in range(count)]
        time.sleep(SETTLE_S)
        return [await_task(inbox, one) for one in tables]
    finally:
        inbox.close()


def fill_table(catalog: RestCatalog, number: int) -> Table:
    """Make a table that a further file makes due."""
    properties = {"firnline.rewrite.quiet-ms": "0"}
    table: Table = catalog.create_table(f"bench.t{number}", SCHEMA, properties=properties)
    for value in range(Thresholds().min_fragments - 1):
        table.append(pa.table({"id": [value]}, schema=SCHEMA))
    return table


def await_task(inbox: KafkaInbox, table: Table) -> float:
    """Commit the file that makes the table due; wait for its task. Raises TimeoutError."""
    table.append(pa.table({"id": [-1]}, schema=SCHEMA))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for delivery in inbox.poll(0.02):
            inbox.mark_done(delivery)
            record = delivery.record
            if isinstance(record, RewriteFiles) and record.table.name == table.name()[-1]:
                return time.time() - snapshot.timestamp_ms / 1000
    raise TimeoutError(f"no task for {table.name()} within {WAIT_S:g} s")


if __name__ == "__main__":
    main()
