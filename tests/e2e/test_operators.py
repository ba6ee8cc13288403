"""What people order, on the whole stack: a partition that fails is parked and freed by a word, and
a commit is taken back and not made again. The test is the worker.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_cli.__main__ import main
from firnline_domain.policy.fleet.lanes import TOPICS
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import (
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
    TaskFailed,
)
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.write_format import SchemaChecksums
from firnline_local.stack.parts import SERVERS
from firnline_local.stack.stack import Stack, run_stack
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
PARTS = (*SERVERS, "gateway", "enricher", "planner", "committer", "console")
PATIENCE_S = 180.0
PROPERTIES = {
    "firnline.rewrite.min-fragments": "4",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
    "format-version": "2",
}
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with run_stack(tmp_path_factory.mktemp("operators") / "stack", PARTS) as stack:
        yield stack


class Worker:
    """Takes orders of one table, and answers as it is told."""

    def __init__(self, kafka: str, table: Table, name: str) -> None:
        self.uuid, self.dotted = str(table.metadata.table_uuid), name
        self._publisher = KafkaPublisher(kafka, 8, "test")
        group = f"t-{uuid.uuid4().hex}"
        lanes = list(TOPICS.values())  # what runs out of memory goes to the other one
        self._inbox = KafkaInbox(kafka, group, lanes, self._publisher, Log("test"))
        self.orders: list[RewriteFiles] = []

    def look(self, seconds: float) -> None:
        for delivery in self._inbox.poll(seconds):
            if delivery.record.table.uuid == self.uuid:
                self.orders.append(delivery.record)

    def order(self, number: int) -> RewriteFiles:
        """The order of that number, from 1."""
        eventually(lambda: self.look(0.5), lambda _: len(self.orders) >= number)
        return self.orders[number - 1]

    def answer(self, result: Any) -> None:
        self._publisher.publish("task-results", self.uuid, result)
        self._publisher.flush()


@pytest.fixture
def table(stack: Stack) -> Table:
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(namespace)
    made = catalog.create_table(f"{namespace}.t", ROWS.schema, properties=PROPERTIES)
    for _ in range(4):
        made.append(ROWS)
    return made


@pytest.fixture
def worker(stack: Stack, table: Table) -> Worker:
    return Worker(stack.kafka, table, ".".join(table.name()))


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def firnline(stack: Stack, *words: str) -> str:
    result = CliRunner().invoke(main, [*words, "--state", str(stack.state.root)])
    assert result.exit_code == 0, result.output
    return result.output


def explained(stack: Stack, table: str) -> dict[str, Any]:
    """The first partition as `firnline explain` has it."""
    result = CliRunner().invoke(
        main, ["explain", table, "--json", "--state", str(stack.state.root)]
    )
    found = json.loads(result.output)["partitions"] if result.exit_code == 0 else []
    return found[0] if found else {"status": "", "reason": "", "words": ""}


def failed(order: RewriteFiles) -> TaskFailed:
    return TaskFailed(
        order.task_id, order.table, order.ref, order.scope, "rewrite", order.attempt, "w",
        "out_of_memory", "", False, int(time.time() * 1000),
    )  # fmt: skip


def rewritten(order: RewriteFiles, table: LoadedTable) -> RewriteFinished:
    """All files of the table into one, as a worker says it."""
    head = table.head("main")
    files = [one.data for one in live_files(table, head.snapshot_id).files_of_scope(order.scope)]
    inputs = tuple(InputFile(f.path, f.sequence_number, f.records, f.bytes) for f in files)
    whole = pa.concat_tables([ROWS] * len(files))
    output = written(table, whole, order)
    group = RewriteGroup(inputs, (output,), len(whole), 0, len(whole))
    now_ms = int(time.time() * 1000)
    return RewriteFinished(
        order.task_id, order.table, order.ref, order.scope, order.attempt, "w", Mode.NATIVE,
        head.snapshot_id, head.sequence_number or 0, 0, (group,), (), None,
        order.ordered_at_ms, now_ms, None, now_ms, format_version=table.format_version,
        schema_checksum=SchemaChecksums(table.metadata)[0],
    )  # fmt: skip


def written(table: LoadedTable, rows: pa.Table, order: RewriteFiles) -> OutputFile:
    run = TaskRun(order.table.uuid, order.task_id, order.attempt, "cafe0000")
    path = f"{table.metadata.location}/data/{run.output_name(0, 0)}"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    local = Path(path.removeprefix("file:"))
    pa.parquet.write_table(rows.cast(pa.schema([field])), local, store_schema=False)
    size = local.stat().st_size
    body = {
        "spec-id": 0, "content": "data", "file-path": path, "file-format": "parquet",
        "partition": [], "file-size-in-bytes": size, "record-count": len(rows),
    }  # fmt: skip
    return OutputFile(path, len(rows), size, json.dumps(body))


@pytest.mark.long
def test_a_table_that_fails_is_parked_until_a_person_frees_it(stack: Stack, worker: Worker) -> None:
    for number in (1, 2, 3):
        worker.answer(failed(worker.order(number)))
    shown = eventually(
        lambda: explained(stack, worker.dotted), lambda one: one["status"] == "parked"
    )
    assert (shown["reason"], shown["failures"]) == ("out_of_memory", 3)
    assert worker.dotted in firnline(stack, "unpark", "--all")
    again = worker.order(4)
    assert (again.attempt, again.task_id) == (4, worker.orders[0].task_id)
    firnline(stack, "unpark", worker.dotted, "--partition", "[]")  # nothing is left to free
    worker.look(3.0)
    assert len(worker.orders) == 4


def test_the_switch_stops_orders_and_commits_at_once(
    stack: Stack, table: Table, worker: Worker
) -> None:
    """A result that is ready when the switch is pulled waits, and is committed after it."""
    order = worker.order(1)
    tables = Tables(stack.gateway_uri)
    before = tables.load(order.table).head_id("main")
    try:
        assert "all tables" in firnline(stack, "pause", "--fleet", "--reason", "migration")
        fleet = eventually(
            lambda: json.loads(firnline(stack, "status", "--json"))["pauses"], lambda found: found
        )
        assert (fleet[0]["table"], fleet[0]["reason"]) == ("", "migration")
        assert "PAUSED: MAINTENANCE OF ALL TABLES" in firnline(stack, "status")
        waited = firnline(stack, "pause", "--fleet", "--reason", "migration", "--wait")
        assert "at rest: nothing that runs can commit or delete" in waited
        worker.answer(rewritten(order, tables.load(order.table)))
        worker.look(5.0)
        assert tables.load(order.table).head_id("main") == before
        text = firnline(stack, "explain", worker.dotted)
        assert "Delayed: maintenance was paused by a person" in text
    finally:
        firnline(stack, "resume", "--fleet")
    eventually(lambda: tables.load(order.table).head_id("main"), lambda head: head != before)
    eventually(
        lambda: json.loads(firnline(stack, "status", "--json"))["pauses"], lambda one: not one
    )
    assert len(worker.orders) == 1


def test_a_sweep_of_a_fleet_that_runs_is_refused(stack: Stack, table: Table) -> None:
    at = ("--state", str(stack.state.root))
    words = ("sweep-outputs", "--older-than", "1h", "--idle", *at)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "a member of the consumer group committer: " in result.output
    assert "Stop workers and committers first" in result.output
    assert "would remove" in firnline(stack, *words[:4], "--dry-run")


@pytest.mark.long
def test_an_action_that_a_person_runs_is_an_order_and_refused_where_no_planner_is(
    stack: Stack,
) -> None:
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(namespace)
    few = catalog.create_table(f"{namespace}.few", ROWS.schema, properties=PROPERTIES)
    for _ in range(2):
        few.append(ROWS)
    worker = Worker(stack.kafka, few, ".".join(few.name()))
    eventually(lambda: explained(stack, worker.dotted), lambda one: one.get("fragments") == 2)
    assert "merge ordered" in firnline(stack, "run", worker.dotted, "merge", "--all-partitions")
    order = worker.order(1)
    assert (order.action, order.reason) == ("merge", "requested")
    stack.stop_part("planner")
    try:
        words = ["run", worker.dotted, "merge", "--state", str(stack.state.root)]
        refused = eventually(
            lambda: CliRunner().invoke(main, words), lambda result: result.exit_code == 1
        )
        assert "No planner reads the broker" in refused.output
        assert "--here" in refused.output
    finally:
        stack.start_part("planner")


def test_a_commit_is_taken_back_and_not_made_again(
    stack: Stack, table: Table, worker: Worker
) -> None:
    order = worker.order(1)
    tables = Tables(stack.gateway_uri)
    before = tables.load(order.table).head_id("main")
    worker.answer(rewritten(order, tables.load(order.table)))
    eventually(lambda: tables.load(order.table).head_id("main"), lambda head: head != before)
    eventually(
        lambda: CliRunner().invoke(
            main, ["undo", order.task_id[:8], "--state", str(stack.state.root)]
        ),
        lambda result: result.exit_code == 0 and "nothing was changed" in result.output,
    )
    assert "undone" in firnline(stack, "undo", order.task_id[:8], "--yes")
    assert tables.load(order.table).head_id("main") == before
    shown = eventually(
        lambda: explained(stack, worker.dotted),
        lambda one: one["reason"] == "undone" and one.get("fragments") == 4,
    )
    assert (shown["status"], "reverted by a person" in shown["words"]) == ("parked", True)
    worker.look(5.0)
    assert len(worker.orders) == 1
    assert table.refresh().scan().to_arrow().num_rows == 8
    firnline(stack, "unpark", worker.dotted)
    again = worker.order(2)
    assert again.attempt > order.attempt
