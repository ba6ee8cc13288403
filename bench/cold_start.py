"""How long until Firnline works: `make bench-start`.

Prints, as JSON: seconds from `firnline up` to ready; seconds from the commit that crosses a
threshold to the first byte that its rewrite reads, for the first task after the start (cold) and
for the median of later ones (warm).
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.results import RewriteFinished
from firnline_domain.settings.thresholds import Thresholds
from firnline_local.servers.artifacts import iceberg_jar
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import initial_buckets
from pyiceberg.catalog.rest import RestCatalog

SCHEMA = pa.schema([("id", pa.int64())])
ROUNDS = 6  # the first is cold
WAIT_S = 120.0


def main() -> None:
    """Fetch what is needed first, so that only starting is measured."""
    iceberg_jar()
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        with run_stack(Path(folder) / "state") as stack:
            ready = time.monotonic() - start
            waits = [round(wait, 2) for wait in first_bytes(stack)]
    found = {
        "up_to_ready_s": round(ready, 1),
        "commit_to_first_byte_cold_s": waits[0],
        "commit_to_first_byte_warm_s": statistics.median(waits[1:]),
        "all_s": waits,
    }
    print(json.dumps(found, indent=2))


def first_bytes(stack: Stack) -> list[float]:
    """Seconds per round; each round fills a table of its own up to the threshold."""
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    catalog.create_namespace("bench")
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    group = f"bench-{uuid.uuid4()}"
    inbox = KafkaInbox(stack.kafka, group, ["task-results"], publisher, Log("bench"))
    try:
        return [one_round(catalog, inbox, number) for number in range(ROUNDS)]
    finally:
        inbox.close()


def one_round(catalog: RestCatalog, inbox: KafkaInbox, number: int) -> float:
    """Commit small files until a rewrite is due; wait for its result."""
    properties = {"firnline.rewrite.quiet-ms": "0"}
    table = catalog.create_table(f"bench.t{number}", SCHEMA, properties=properties)
    for value in range(Thresholds().min_fragments):
        table.append(pa.table({"id": [value]}, schema=SCHEMA))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    waited_ms: float = first_byte_ms(inbox, table.name()[-1]) - snapshot.timestamp_ms
    return waited_ms / 1000


def first_byte_ms(inbox: KafkaInbox, table: str) -> float:
    """Moment at which the table's rewrite began to read. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for delivery in inbox.poll(0.5):
            inbox.mark_done(delivery)
            record = delivery.record
            if isinstance(record, RewriteFinished) and record.table.name == table:
                assert record.first_byte_at_ms is not None, record
                return float(record.first_byte_at_ms)
    raise TimeoutError(f"no result for {table} within {WAIT_S:g} s")


if __name__ == "__main__":
    main()
