"""A table of format version 4 in a catalog: its writers pass, every source tells of its commits,
one reason refuses it everywhere, and the table beside it is served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from firnline_adapters.in_memory import MemoryBroker, MemoryLeases, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import keys_here
from firnline_cli.__main__ import main
from firnline_cli.adoption.catalog_tables import CatalogLake, Unreadable
from firnline_domain.base.times import DAY_MS
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.events import TableCommitted
from firnline_domain.records.orders import CompareRows, RewriteFiles, TableOrder
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.table.catalog_client import Tables
from firnline_listener.port import Doorbell
from firnline_worker.bootstrap import Host, handlers_of
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases
from firnline_worker.settings import WorkerSettings
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.expiries import expire
from tests.kit.gateway_thread import gateway_before
from tests.kit.memory_flow import SCHEMA, TARGET, Flow, check_counters, rows
from tests.kit.memory_listener import Capture, NamespaceTables

pytestmark = pytest.mark.stack
REASON = "format_version_4"
SCOPE = Scope(0, "[]")
COLUMN = {"id": 1, "name": "id", "type": "long", "required": False}


class NewerTable:
    """`four` in a namespace, made and written as a program does that knows version 4. No client
    here can: only the catalog is asked."""

    def __init__(self, uri: str, namespace: str) -> None:
        self._tables = f"{uri}/v1/namespaces/{namespace}/tables"
        schema = {"type": "struct", "schema-id": 0, "fields": [COLUMN]}
        asked = {"name": "four", "schema": schema, "properties": {"format-version": "4"}}
        metadata = self._post("", asked)["metadata"]
        assert metadata["format-version"] == 4
        self.uuid = metadata["table-uuid"]
        self.heads = list[int]()

    def commit(self) -> None:
        """Add a snapshot, whose paths are relative to the table."""
        parent, number = self.heads[-1] if self.heads else None, len(self.heads) + 1
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"metadata/root-{number}.parquet",
            "summary": {"operation": "append", "added-data-files": "1"},
            "schema-id": 0,
            "first-row-id": number - 1,
            "added-rows": 1,
        }
        if parent:
            snapshot["parent-snapshot-id"] = parent
        moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
        required = [
            {"type": "assert-table-uuid", "uuid": self.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
        ]
        updates = [
            {"action": "add-snapshot", "snapshot": snapshot},
            {**moved, "snapshot-id": number},
        ]
        self._post("/four", {"requirements": required, "updates": updates})
        self.heads.append(number)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = requests.post(self._tables + path, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def beside(lake: RestCatalog, namespace: str) -> Any:
    """A table of version 2, `t`, in the same namespace."""
    small = {"write.target-file-size-bytes": str(TARGET)}
    return lake.create_table(f"{namespace}.t", SCHEMA, properties=small)


def check_told(flow: Flow, four: NewerTable, namespace: str) -> None:
    """The planner knows its version, orders nothing, and counts its neighbour."""
    for _ in range(8):  # after the planner's patience with a missing parent
        flow.second()
    state = flow.state(four.uuid)
    assert state.hold is not None
    assert state.hold.reason == REASON
    assert not state.waiting_for_resync
    assert state.head_snapshot_id == four.heads[-1]
    check_counters(flow, "t", namespace)
    topics = ("rewrite-tasks", "table-tasks")
    asked = [one.table.uuid for topic in topics for one in flow.broker.records(topic)]
    assert four.uuid not in asked


def test_its_commits_pass_the_gateway(
    catalog_uri: str, namespace: str, beside: Any, tmp_path: Path
) -> None:
    flow = Flow(Tables(catalog_uri))
    with gateway_before({"lake": catalog_uri}, tmp_path) as gateway:
        uri = f"{gateway.uri}/lake"
        four = NewerTable(uri, namespace)
        tell_all(flow, gateway.events(1))
        for number in range(3):
            four.commit()
            RestCatalog("x", uri=uri).load_table(f"{namespace}.t").append(rows((1, number)))
        events = [one for one in gateway.events(7) if one.snapshots]
    of_four = [one for one in events if one.table.uuid == four.uuid]
    assert [new.snapshot_id for one in of_four for new in one.snapshots] == four.heads
    tell_all(flow, events)
    check_told(flow, four, namespace)


def tell_all(flow: Flow, events: list[TableCommitted]) -> None:
    for event in events:
        flow.tell(event)
        flow.second()


@pytest.mark.parametrize("sweeps", [True, False])
def test_the_listener_and_its_sweep_tell_of_it(
    catalog_uri: str, namespace: str, beside: Any, sweeps: bool
) -> None:
    four = NewerTable(catalog_uri, namespace)
    capture = Capture(NamespaceTables(catalog_uri, namespace), sweeps)
    bells = [Doorbell("lake", (namespace,), name) for name in ("four", "t")]
    for number in range(3):
        capture.ring(*() if sweeps else bells)
        four.commit()
        beside.append(rows((1, number)))
        for _ in range(6 if sweeps else 1):
            capture.second()
    capture.ring(*() if sweeps else bells)
    check_told(capture, four, namespace)


def test_every_order_is_refused_with_one_reason(catalog_uri: str, namespace: str) -> None:
    """No order is given. One may be under way when the table is upgraded."""
    four = NewerTable(catalog_uri, namespace)
    four.commit()
    broker, log = MemoryBroker(), Log("test")
    publisher = MemoryPublisher(broker)
    leases = TaskLeases(MemoryLeases(time.monotonic), "w", 60.0, log, time.monotonic)
    beats = Heartbeats(publisher, "w", lambda: 0)
    host = Host("w", leases, publisher, beats, log, lambda: False)
    settings = WorkerSettings(
        kafka="-", redis="-", catalog_uri=catalog_uri, iceberg_jar="", state_dir=""
    )
    unused: Any = None
    parts = (Tables(catalog_uri), unused, unused, unused, unused)
    handlers = handlers_of(settings, *parts, host, keys_here())
    table, now_ms = TableName(four.uuid, (namespace,), "four"), time.time_ns() // 1_000_000
    at = (1, now_ms, now_ms + DAY_MS)
    orders: list[Any] = [
        *(TableOrder(one, table, one, "requested", 1, *at) for one in handlers.table_actions),
        *(RewriteFiles("r", table, "main", SCOPE, one, "requested", 1, *at) for one in Action),
        expire("e", table, now_ms, now_ms),
    ]
    reasons = {one.action: handlers.run(one).reason for one in orders}
    assert len(reasons) > 12
    assert set(reasons.values()) == {REASON}, reasons
    compared = handlers.run(CompareRows("c", table, "main", SCOPE, (1,), 1, "x", now_ms))
    assert compared.reason == REASON


def test_the_commands_say_it_and_read_the_others(
    catalog_uri: str, namespace: str, beside: Any
) -> None:
    NewerTable(catalog_uri, namespace).commit()
    beside.append(rows((1, 1)))
    at, four = ("--catalog", catalog_uri), f"{namespace}.four"
    for words, shown in (
        (("assess", "--namespace", namespace), "1 table read"),
        (("plan", "--namespace", namespace), f"{namespace}.t\t"),
        (("run", four, "compact", "--all-partitions", "--dry-run"), f"Error: {four}"),
    ):
        result = CliRunner().invoke(main, [*words, *at])
        assert shown in result.output
        assert four in result.output
        assert REASON in result.output
    tables = Tables(catalog_uri)
    adoption = CatalogLake(tables, tables, Thresholds(), lambda _: None, lambda: 0.0)
    with pytest.raises(Unreadable, match=REASON):
        adoption.weigh_by_summary((namespace, "four"))
    assert adoption.weigh_by_summary((namespace, "t")).table.name == "t"
