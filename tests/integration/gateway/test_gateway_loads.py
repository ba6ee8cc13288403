"""PyIceberg reports no scans: through the gateway its reads are seen all the same, and a Spark
writer beside it is none."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    PartitionChange,
    TableScanned,
    TickPassed,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableReads, TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_gateway import bootstrap
from firnline_gateway.middlewares import scan_counter
from firnline_gateway.reads.table_loads import HOLD_MS
from firnline_gateway.settings import GatewaySettings
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.ports import free_port
from firnline_local.servers import catalog
from firnline_planner.bucket.bucket import PlannerBucket
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from tests.kit.memory_store import MemoryStore

pytestmark = [pytest.mark.stack, pytest.mark.spark]

MINUTE_MS = 60_000
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(bootstrap, "now_ms", found)
    monkeypatch.setattr(scan_counter, "SETTLE_S", 0.02)
    return found


@contextmanager
def gateway(upstream: str, directory: Path, broker: MemoryBroker) -> Iterator[str]:
    """A gateway in a thread of this process, whose clock is ours. Its URI."""
    port, ready, loop = free_port(), threading.Event(), asyncio.new_event_loop()
    settings = GatewaySettings(
        upstream_uri=upstream,
        kafka="-",
        listen_address=ListenAddress("127.0.0.1", port),
        state_dir=str(directory),
        scan_report_s=0.05,
    )
    stop = asyncio.Event()

    async def serve() -> None:
        async with bootstrap.run_gateways(settings, MemoryPublisher(broker), Log("gateway")):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield catalog.uri(port)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()


def believed(events: list[TableScanned]) -> TableReads | None:
    """What a planner makes of them."""
    bucket, now_ms = PlannerBucket(MemoryStore(), Thresholds()), events[0].from_ms
    tally = FileTally(fragments=Tally(4, 8, 4_000))
    part = PartitionChange(Scope(0, "[]"), tally, FileTally())
    table = events[0].table
    bucket.handle(
        FilesChanged(
            "e", table, "main", ChangeKind.DELTA, 1, None, 1, now_ms, "append", (part,), 2
        ),
        now_ms,
    )
    bucket.commit()
    for event in events:
        now_ms = event.to_ms
        bucket.handle(event, now_ms)
        bucket.commit()
    outputs = bucket.handle(TickPassed(0, now_ms + MINUTE_MS), now_ms + MINUTE_MS).outputs
    [state] = [one.record for one in outputs if isinstance(one.record, TableState)]
    return state.reads


def test_reads_of_pyiceberg_are_seen_and_commits_of_spark_are_not(
    spark: SparkSession,
    catalog_uri: str,
    lake: RestCatalog,
    namespace: str,
    clock: Clock,
    tmp_path: Path,
) -> None:
    broker, every_ms, reads = MemoryBroker(), 3 * MINUTE_MS, 40
    made = lake.create_table(f"{namespace}.t", ROWS.schema)
    made.append(ROWS)
    with gateway(catalog_uri, tmp_path / "gateway", broker) as uri:
        prefix = "spark.sql.catalog.beside"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for name, text in {"type": "rest", "uri": uri, "cache-enabled": "false"}.items():
            spark.conf.set(f"{prefix}.{name}", text)
        reader, ours = RestCatalog("reader", uri=uri), Tables(uri)
        for number in range(reads):
            assert reader.load_table(f"{namespace}.t").scan().to_arrow().num_rows >= 3
            if number % 4 == 0:
                spark.sql(f"INSERT INTO beside.{namespace}.t VALUES ({number})")
            ours.load_named((namespace,), "t")
            clock.ms += every_ms
            time.sleep(0.1)
        clock.ms += HOLD_MS
        deadline = time.monotonic() + 20
        while sum(one.loads for one in broker.records("table-scans")) < reads:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    events: list[TableScanned] = broker.records("table-scans")
    assert {one.table.uuid for one in events} == {str(made.metadata.table_uuid)}
    assert sum(one.loads for one in events) == reads
    assert sum(one.scans for one in events) == 0
    found = believed(events)
    assert found is not None
    assert found.reported == pytest.approx(20, rel=0.1)
    assert found.in_force == pytest.approx(20, rel=0.2)
