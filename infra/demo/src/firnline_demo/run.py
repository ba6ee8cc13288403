"""The demo from the first process to the verdict."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firnline_adapters.config.config_file import with_config
from firnline_adapters.kafka.connection import KAFKA, Kafka, connection_here
from firnline_adapters.records.signing import RecordSigner, signer_here
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import initial_buckets
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession
from rich.console import Console

from firnline_demo import report, writers
from firnline_demo.feed import Feed
from firnline_demo.lake import DemoLake
from firnline_demo.measure import TableHealth, measure_health, rows_of
from firnline_demo.model import TableModel, compare_rows
from firnline_demo.report import TableReport
from firnline_demo.session import writer_session
from firnline_demo.writers import DemoWriter

ALONE_SHARE = 0.5  # of the time, the writers run while Firnline only watches
QUIET_S = 8.0  # without an open task, a new snapshot or one to plan for: Firnline is done
SETTLE_S = 120.0  # at most, after the writers have stopped
WRITERS = {
    "clicks": "appends",
    "accounts": "upserts",
    "orders": "MoR deletes",
}


@dataclass(frozen=True)
class Fleet:
    """The services beside the demo. `stack`: None if they run elsewhere."""

    kafka: Kafka
    gateway_uri: str
    signer: RecordSigner
    stack: Stack | None = None


@dataclass
class Demo:
    """The parts of one run."""

    fleet: Fleet
    console: Console
    spark: SparkSession
    catalog: RestCatalog
    namespace: str
    writers: list[DemoWriter]
    going: threading.Event
    stopping: threading.Event
    started: float

    def print_line(self, line: str) -> None:
        """Print a line with the seconds since the start."""
        self.console.print(f"[dim]{time.monotonic() - self.started:6.1f} s[/dim]  {line}")


def run_demo(
    state_dir: Path,
    seconds: float,
    seed: int,
    kills: Sequence[str] = (),
    as_json: bool = False,
    config: Path | None = None,
    on_running_fleet: bool = False,
) -> int:
    """Run the whole demo, and return the exit code. Lines go to stderr where JSON is asked for.
    Raises Misconfigured.

    `config`: a `firnline.toml` with the catalog that the tables are made in. `kills` names parts of
    the stack that are killed (SIGKILL) one after another on the way. `on_running_fleet`: no stack
    is started, the environment names the fleet."""
    console = Console(stderr=as_json, highlight=False)
    started = time.monotonic()
    console.print("[bold]Firnline demo[/bold]: three writers, one gateway, real servers")
    lake = DemoLake.of_running_fleet() if on_running_fleet else DemoLake.open_lake(config)
    with open_fleet(lake, state_dir) as fleet:
        console.print(f"stack is ready after {time.monotonic() - started:.1f} s")
        console.print(f"  catalog for writers  {fleet.gateway_uri}")
        if fleet.stack is not None:
            console.print(f"  console              {fleet.stack.console_uri}")
        with prepare_demo(fleet, console, lake, state_dir, seed) as demo:
            reports = play_demo(demo, seconds, kills)
    end = report.judge(reports)
    report.print_report(console, reports)
    console.print(f"[bold]{end.text}[/bold]")
    if as_json:
        sys.stdout.write(report.as_json(reports, end) + "\n")
    return end.code


@contextmanager
def open_fleet(lake: DemoLake, state_dir: Path) -> Iterator[Fleet]:
    """Start a stack for the block, unless the lake is that of a running fleet. Raises
    Misconfigured."""
    if lake.running and lake.connection is not None:
        servers = with_config(os.environ).get(KAFKA.variable, "")
        yield Fleet(connection_here(servers), lake.connection.uri, signer_here())
        return
    with run_stack(state_dir, lake.parts, lake.settings) as stack:
        yield Fleet(stack.kafka, stack.gateway_uri, stack.signer, stack)


@contextmanager
def prepare_demo(
    fleet: Fleet, console: Console, lake: DemoLake, state_dir: Path, seed: int
) -> Iterator[Demo]:
    """Create tables and writers, which do not run yet. The session ends with the block."""
    catalog = lake.writer_catalog(fleet.gateway_uri)
    spark = writer_session(
        lake.class_path, lake.spark_settings(fleet.gateway_uri), state_dir / "writers"
    )
    going, stopping = threading.Event(), threading.Event()
    try:
        fresh_namespace(catalog, lake.namespace)
        made = make_writers(catalog, spark, lake.namespace, seed, going, stopping)
        started = time.monotonic()
        yield Demo(fleet, console, spark, catalog, lake.namespace, made, going, stopping, started)
        if lake.connection is not None:  # somebody's lake: as it was before
            console.print(f"tables of {lake.namespace} are dropped; their files stay")
            drop_all(catalog, lake.namespace)
    finally:
        stopping.set()
        going.set()
        spark.stop()


def fresh_namespace(catalog: RestCatalog, namespace: str) -> None:
    """Create the namespace without the tables of an earlier demo in the same state directory."""
    catalog.create_namespace_if_not_exists(namespace)
    for identifier in catalog.list_tables(namespace):
        catalog.drop_table(identifier)


def drop_all(catalog: RestCatalog, namespace: str) -> None:
    """Drop the namespace with its tables."""
    for identifier in catalog.list_tables(namespace):
        catalog.drop_table(identifier)
    catalog.drop_namespace(namespace)


def make_writers(
    catalog: RestCatalog,
    spark: SparkSession,
    namespace: str,
    seed: int,
    going: threading.Event,
    stopping: threading.Event,
) -> list[DemoWriter]:
    """Return the three writers; each creates its own table."""
    dice = [random.Random(seed + number) for number in range(3)]
    clicks = TableModel("clicks", lambda row: row)
    accounts = TableModel("accounts", lambda row: row[:2])
    orders = TableModel("orders", lambda row: row[:1])
    plan = [
        (clicks, writers.clicks_writer(catalog, namespace, dice[0]), 0.8),
        (accounts, writers.accounts_writer(catalog, spark, namespace, dice[1], accounts), 0.8),
        (orders, writers.orders_writer(catalog, spark, namespace, dice[2], orders), 0.8),
    ]
    return [DemoWriter(model, commit, pause, stopping, going) for model, commit, pause in plan]


def play_demo(demo: Demo, seconds: float, kills: Sequence[str]) -> list[TableReport]:
    """Run the writers without Firnline, measure, enable Firnline, run the writers, settle, measure,
    compare."""
    stack, fleet = demo.fleet.stack, demo.fleet
    with Feed(
        fleet.kafka, initial_buckets(), demo.namespace, demo.print_line, fleet.signer
    ) as feed:
        demo.print_line(f"writers go; Firnline only watches for {seconds * ALONE_SHARE:.0f} s")
        demo.going.set()
        for writer in demo.writers:
            writer.start()
        watch_writers(demo, seconds * ALONE_SHARE)
        before = measure_paused(demo)
        demo.print_line("Firnline is switched on (firnline.enabled = true); the writers go on")
        enable_maintenance(demo)
        demo.going.set()
        share = seconds * (1 - ALONE_SHARE) / (len(kills) + 1)
        watch_writers(demo, share)
        for part in kills:
            assert stack is not None  # of another's fleet nothing is killed
            demo.print_line(f"[red]kill -9[/red] {part} (pid {stack.kill_part(part)})")
            watch_writers(demo, share)
        stop_writers(demo)
        if stack is not None:
            for part in kills:  # the time to settle counts from the last part's start
                stack.wait_ready(part)
        wait_until_settled(demo, feed)
    return [report_table(demo, writer, before[writer.model.name], feed) for writer in demo.writers]


def watch_writers(demo: Demo, seconds: float) -> None:
    """Let the writers run. A writer that failed ends the demo with its error."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.2)
        raise_writer_error(demo)


def raise_writer_error(demo: Demo) -> None:
    """Raise the error of a writer that failed."""
    for writer in demo.writers:
        if writer.error is not None:
            raise RuntimeError(f"the writer of {writer.model.name} failed") from writer.error


def full_name(demo: Demo, model: TableModel) -> str:
    """Return the table's name for Spark."""
    return f"{demo.catalog.name}.{demo.namespace}.{model.name}"


def measure_paused(demo: Demo) -> dict[str, TableHealth]:
    """Hold the writers between two commits and measure their tables."""
    demo.going.clear()
    found = {}
    for writer in demo.writers:
        with writer.model.lock:  # a commit in flight ends first
            found[writer.model.name] = measure_health(demo.spark, full_name(demo, writer.model))
    commits = ", ".join(f"{writer.model.name} {writer.model.commits}" for writer in demo.writers)
    demo.print_line(f"measured; commits so far: {commits}")
    return found


def enable_maintenance(demo: Demo) -> None:
    """Enable maintenance of the tables, as an owner would: by a table property."""
    for writer in demo.writers:
        table = demo.catalog.load_table(f"{demo.namespace}.{writer.model.name}")
        table.transaction().set_properties({"firnline.enabled": "true"}).commit_transaction()


def stop_writers(demo: Demo) -> None:
    """Stop the writers' commits."""
    demo.stopping.set()
    for writer in demo.writers:
        writer.thread.join()
    raise_writer_error(demo)
    commits = sum(writer.model.commits for writer in demo.writers)
    demo.print_line(f"writers stopped after {commits} commits; waiting for Firnline to finish")


def wait_until_settled(demo: Demo, feed: Feed) -> None:
    """Wait until no task is open, no table has moved and the planner has known every head for a
    while."""
    deadline = time.monotonic() + SETTLE_S
    seen, since = head_snapshots(demo), time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = head_snapshots(demo)
        planned = now.items() <= feed.planned_heads.items()
        if now != seen or feed.open or not planned:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            demo.print_line("quiet")
            return
    demo.print_line(f"not quiet after {SETTLE_S:.0f} s")


def head_snapshots(demo: Demo) -> dict[str, int | None]:
    """Return the head snapshot of every table."""
    names = [f"{demo.namespace}.{writer.model.name}" for writer in demo.writers]
    return {name: demo.catalog.load_table(name).metadata.current_snapshot_id for name in names}


def report_table(demo: Demo, writer: DemoWriter, before: TableHealth, feed: Feed) -> TableReport:
    """Measure a table again and compare its rows with the model's."""
    name = full_name(demo, writer.model)
    return TableReport(
        name=f"{demo.namespace}.{writer.model.name}",
        writer=WRITERS[writer.model.name],
        commits=writer.model.commits,
        writer_retries=writer.model.retries,
        before=before,
        after=measure_health(demo.spark, name),
        upkeep=feed.upkeep[f"{demo.namespace}.{writer.model.name}"],
        difference=compare_rows(writer.model.all_rows(), rows_of(demo.spark, name)),
    )
