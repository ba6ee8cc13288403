"""Another number of buckets on a real broker: what is refused, what is kept, and a fleet that is
counted anew behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka import KafkaInbox, KafkaPublisher
from firnline_adapters.logs import Log
from firnline_adapters.pauses import KafkaPauseReader
from firnline_cli.__main__ import main
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.policy.lanes import topics_of_group
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.records.pauses import FLEET
from firnline_domain.records.results import TaskFailed
from firnline_domain.settings.groups import groups_of
from firnline_local import kafka as broker
from firnline_local import pauses_copy
from firnline_local import rebucket as module
from firnline_local.ports import free_port
from firnline_local.process import serving
from firnline_local.rebucket import Refused, rebucket
from firnline_local.topics import make_topics
from firnline_schemas.topics import all_topics
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.services import service

pytestmark = pytest.mark.stack

OLD, NEW = 4, 6
SCHEMA = Schema(NestedField(1, "id", LongType()))
DEFAULTS = {"firnline.rewrite.min-fragments": "3", "firnline.rewrite.quiet-ms": "0"}


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of this module alone: its topics come and go."""
    folder, port = tmp_path_factory.mktemp("rebucket"), free_port()
    command = broker.command(folder / "kafka", port, free_port(frozenset({port})))
    with serving(command, folder / "kafka.log"):
        yield broker.bootstrap(port)


@pytest.fixture
def fleet(own_kafka: str) -> str:
    """Topics of OLD partitions, without a record."""
    admin = AdminClient({"bootstrap.servers": own_kafka})
    there = module._topics(admin)
    module._delete(admin, [one for one in there if not one.startswith("__")])
    make_topics(own_kafka, OLD)
    return own_kafka


def partitions(kafka: str) -> dict[str, int]:
    """Of every topic but the broker's own, which it makes for its first consumer group."""
    there = module._topics(AdminClient({"bootstrap.servers": kafka}))
    return {name: len(one.partitions) for name, one in there.items() if not name.startswith("__")}


def table() -> TableName:
    return TableName(str(uuid.uuid4()), ("s",), "t")


def pause(of: TableName | None, at_ms: int) -> PauseMaintenance:
    return PauseMaintenance(of, "so", "me", at_ms)


def ordered(kafka: str, *orders: Any) -> None:
    publisher = KafkaPublisher(kafka, partitions(kafka)["operator-orders"], "people")
    for order in orders:
        if order.table is None:
            publisher.broadcast("operator-orders", FLEET, order)
        else:
            publisher.publish("operator-orders", order.table.uuid, order)
        publisher.flush()


def test_every_keyed_topic_gets_its_partitions_and_groups_begin_anew(fleet: str) -> None:
    publisher = KafkaPublisher(fleet, OLD, "test")
    one = table()
    for number in range(3):
        publisher.publish("maintenance-events", one.uuid, failed(one, number))
    publisher.flush()
    inbox = KafkaInbox(fleet, "reader", ["maintenance-events"], publisher, Log("t"))
    read(inbox, 3)
    inbox.close()
    assert rebucket(fleet, NEW) == OLD
    wanted = {one.name: one.partitions(NEW) for one in all_topics()}
    assert partitions(fleet).items() >= wanted.items()
    assert pauses_copy.MOVING not in partitions(fleet)
    publisher = KafkaPublisher(fleet, NEW, "test")
    publisher.publish("maintenance-events", one.uuid, failed(one, 9))
    publisher.flush()
    inbox = KafkaInbox(fleet, "reader", ["maintenance-events"], publisher, Log("t"))
    [found] = read(inbox, 1)
    inbox.close()
    assert (found.record.attempt, found.partition) == (9, bucket_of(one.uuid, NEW))
    assert rebucket(fleet, NEW) == NEW  # nothing left to do


def test_topics_of_groups_are_made_anew_too_whoever_names_the_groups(
    fleet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a run that was killed when they were gone, if it is told of them."""
    make_topics(fleet, OLD, groups_of("etl,adhoc"))
    of_groups = {*topics_of_group("etl"), *topics_of_group("adhoc")}
    rebucket(fleet, NEW)
    assert {partitions(fleet)[one] for one in of_groups} == {NEW}
    with monkeypatch.context() as patched:
        patched.setattr(module, "make_topics", killed)
        with pytest.raises(KeyboardInterrupt):
            rebucket(fleet, OLD)
    assert not of_groups & {*partitions(fleet)}
    rebucket(fleet, OLD, groups_of("etl=3,adhoc"))
    assert {partitions(fleet)[one] for one in of_groups} == {OLD}


def failed(of: TableName, attempt: int) -> TaskFailed:
    return TaskFailed("t", of, "main", None, "rewrite", attempt, "w", "r", "m", True, 1)


def read(inbox: KafkaInbox, count: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(60):
        for delivery in inbox.poll(0.5):
            found.append(delivery)
            inbox.done(delivery)
        inbox.commit()
        if len(found) >= count:
            return found
    pytest.fail(f"{found}")


def test_what_people_have_switched_stays_as_it_was(fleet: str) -> None:
    paused, freed = table(), table()
    others = [table() for _ in range(20)]  # of every partition, old and new
    ordered(fleet, *(pause(one, 1) for one in (paused, freed, *others)))
    ordered(fleet, ResumeMaintenance(freed, "me", 2), pause(None, 3))
    ordered(fleet, ResumeMaintenance(None, "me", 4))
    rebucket(fleet, NEW)
    switches = KafkaPauseReader(fleet)
    assert switches.pause(None) is None
    assert switches.pause(freed.uuid) is None
    assert all(switches.pause(one.uuid) for one in (paused, *others))
    switches.close()
    ordered(fleet, ResumeMaintenance(paused, "me", 5))  # in the partition where its pause is
    switches = KafkaPauseReader(fleet)
    assert switches.pause(paused.uuid) is None
    switches.close()


STEPS = [
    (module, "_delete", NEW),
    (pauses_copy, "_write", OLD),
    (module, "make_topics", OLD),
    (pauses_copy, "put_back", NEW),
    (pauses_copy, "put_back", OLD),
]


@pytest.mark.parametrize(("where", "step", "again"), STEPS)
def test_people_have_lost_nothing_where_it_is_killed_half_way(
    fleet: str, monkeypatch: pytest.MonkeyPatch, where: Any, step: str, again: int
) -> None:
    """Whichever number the next run wants."""
    paused, freed = table(), table()
    ordered(fleet, pause(paused, 1), pause(freed, 1), ResumeMaintenance(freed, "me", 2))
    with monkeypatch.context() as patched:
        patched.setattr(where, step, killed)
        with pytest.raises(KeyboardInterrupt):
            rebucket(fleet, NEW)
    rebucket(fleet, again)
    switches = KafkaPauseReader(fleet)
    assert switches.pause(paused.uuid)
    assert switches.pause(freed.uuid) is None
    switches.close()
    assert partitions(fleet)["operator-orders"] == again
    assert pauses_copy.MOVING not in partitions(fleet)


def test_what_was_said_after_it_was_killed_is_newer(
    fleet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table()
    ordered(fleet, pause(one, 9))  # by a clock that is ahead
    with monkeypatch.context() as patched:
        patched.setattr(pauses_copy, "put_back", killed)
        with pytest.raises(KeyboardInterrupt):
            rebucket(fleet, NEW)
    ordered(fleet, ResumeMaintenance(one, "me", 5))
    rebucket(fleet, NEW)
    switches = KafkaPauseReader(fleet)
    assert switches.pause(one.uuid) is None
    switches.close()


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_nothing_is_touched_while_somebody_reads_or_a_result_waits(fleet: str) -> None:
    publisher = KafkaPublisher(fleet, OLD, "test")
    one = table()
    publisher.publish("task-results", one.uuid, failed(one, 1))
    publisher.flush()
    before = partitions(fleet)
    with pytest.raises(Refused, match="1 results wait for the committer"):
        rebucket(fleet, NEW)
    inbox = KafkaInbox(fleet, "committer", ["task-results"], publisher, Log("t"))
    read(inbox, 1)
    with pytest.raises(Refused, match=r"still reading: committer \(task-results\)"):
        rebucket(fleet, NEW)
    assert partitions(fleet) == before
    inbox.close()
    command = (sys.executable, "-m", "firnline_local.rebucket", "--to", str(NEW))
    done = subprocess.run(
        command,
        env={**os.environ, "FIRNLINE_KAFKA": fleet},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{OLD} buckets were there, {NEW} are" in done.stdout


def counted(kafka: str, uri: str, namespace: str, at: Path, buckets: int) -> dict[str, int]:
    """Files of each table and the partition of its state, by a planner that adopts them all; and
    the tables that it orders rewrites of."""
    common = {"FIRNLINE_KAFKA": kafka, "FIRNLINE_BUCKETS": str(buckets)}
    more = {
        "FIRNLINE_STATE_DIR": str(at / "state"),
        "FIRNLINE_PLANNER_APP": f"planner-{buckets}",
        "FIRNLINE_PLANNER_DRIVER": "kafka",  # the quicker one to start
        "FIRNLINE_DEFAULTS": json.dumps(DEFAULTS),
    }
    publisher = KafkaPublisher(kafka, buckets, "test")
    with ExitStack() as held:
        enricher = service("enricher", at, **common, FIRNLINE_CATALOG_URI=uri)
        for command, log in (enricher, service("planner", at, **common, **more)):
            held.enter_context(serving(command, log, timeout_s=120))
        words = ("--namespace", namespace, "--catalog", uri, "--kafka", kafka, "--rate", "20/s")
        done = CliRunner().invoke(main, ["adopt", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        topics = ["table-states", "rewrite-tasks"]
        inbox = KafkaInbox(kafka, uuid.uuid4().hex, topics, publisher, Log("t"))
        held.callback(inbox.close)
        states: dict[str, int] = {}
        orders: set[str] = set()
        for _ in range(120):
            for one in inbox.poll(0.5):
                assert one.partition == bucket_of(one.record.table.uuid, buckets)
                if one.topic == "table-states":
                    states[one.record.table.name] = one.record.holds.data.files
                else:
                    orders.add(one.record.table.name)
            if len(states) == 4 and orders:
                return {**states, **{f"{name} ordered": 1 for name in orders}}
    pytest.fail(f"{states} {orders}")


def test_a_fleet_is_counted_anew_and_what_was_paused_stays_paused(
    fleet: str, lake: Any, catalog_uri: str, namespace: str, tmp_path: Path
) -> None:
    tables = {
        name: lake.create_table(f"{namespace}.{name}", SCHEMA) for name in ("a", "b", "c", "d")
    }
    row = pa.table({"id": pa.array([1], pa.int64())})
    for name, times in (("a", 1), ("b", 5), ("c", 2), ("d", 2)):
        for _ in range(times):
            tables[name].append(row)
    paused = TableName(str(tables["b"].metadata.table_uuid), (namespace,), "b")
    ordered(fleet, pause(paused, 1))
    tables["c"].append(row)
    first = counted(fleet, catalog_uri, namespace, tmp_path, OLD)
    assert first == {"a": 1, "b": 5, "c": 3, "d": 2, "c ordered": 1}
    tables["d"].append(row)  # meanwhile writers go on
    tables["d"].append(row)
    assert rebucket(fleet, NEW) == OLD
    second = counted(fleet, catalog_uri, namespace, tmp_path, NEW)
    orders = {name for name in second if name.endswith("ordered")}
    assert {name: second[name] for name in "abcd"} == {"a": 1, "b": 5, "c": 3, "d": 4}
    assert orders
    assert "b ordered" not in orders
