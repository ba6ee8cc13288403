"""What of a paused fleet can still commit or delete is seen from its groups and its leases."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
import redis
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_here
from firnline_adapters.redis.leases import PREFIX, RedisLeases
from firnline_cli.commands.act import pause as pausing
from firnline_cli.commands.act.sweep_outputs import refuse_if_running
from firnline_cli.shared.fleet import FleetClient
from firnline_cli.shared.services import COMMITTER, RESULTS, WORKER, Services
from firnline_domain.records.pauses import Pause

from tests.examples import make

pytestmark = pytest.mark.stack
PATIENCE_S = 30.0
PAUSE = Pause(7, "me", "why")


class Member:
    """Of a group; `poll` until its partitions are there."""

    def __init__(self, kafka: str, group: str, topic: str) -> None:
        publisher = KafkaPublisher(kafka, 8, "rest")
        self.inbox = KafkaInbox(kafka, group, [topic], publisher, Log("rest"))
        self.open: list[Any] = []

    def look(self) -> None:
        self.open += self.inbox.poll(0.2)

    def end_all(self) -> None:
        self.look()
        for delivery in self.open:
            self.inbox.mark_done(delivery)
        self.open = []
        self.inbox.commit()


@pytest.fixture
def member(kafka: str) -> Iterator[Callable[[str, str], Member]]:
    made: list[Member] = []

    def join(group: str, topic: str) -> Member:
        made.append(Member(kafka, group, topic))
        return made[-1]

    yield join
    for one in made:
        one.inbox.close()


def until(step: Callable[[], Any], look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        step()
    return found


def test_an_order_that_has_not_ended_is_at_work(kafka: str, member: Any) -> None:
    services = Services(KafkaConnection(kafka))
    at_work = lambda: [  # noqa: E731
        one for one in services.at_work(PAUSE, signer_here()) if "table-tasks" in one
    ]
    publisher = KafkaPublisher(kafka, 8, "rest")
    order = make("expire_snapshots/old_snapshots")
    publisher.publish("table-tasks", order.table.key, order)
    publisher.flush()
    assert at_work() == []  # no worker is there: nobody begins it
    worker = member(WORKER, "table-tasks")
    [text] = until(worker.look, at_work, lambda found: bool(found) and bool(worker.open))
    assert "have not ended in the workers (worker)" in text
    until(worker.end_all, at_work, lambda found: not found)
    assert any(f"group {WORKER}: " in one for one in services.running_members())


def test_a_committer_is_at_rest_when_it_says_so_of_this_pause(kafka: str, member: Any) -> None:
    services = Services(KafkaConnection(kafka))
    committer = member(COMMITTER, RESULTS)

    def confirmed() -> bool:
        found = services.at_work(PAUSE, signer_here())
        return not any("has not confirmed" in one for one in found)

    until(committer.look, lambda: services.running_members(), lambda found: bool(found))
    assert not confirmed()
    committer.inbox.write_note(Pause(6, "me", "").to_note)  # of an earlier one
    assert not confirmed()
    until(lambda: (committer.look(), committer.inbox.write_note(PAUSE.to_note)), confirmed, bool)
    committer.end_all()  # a later commit keeps it
    assert confirmed()


def test_a_note_stays_beside_the_offsets_and_moves_none(kafka: str, member: Any) -> None:
    group = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, 8, "rest")
    event = make("rewrite_committed/native")
    publisher.publish("maintenance-events", event.table.key, event)
    publisher.flush()
    reading = member(group, "maintenance-events")
    until(reading.look, lambda: reading.open, bool)
    first = [(one.partition, one.offset) for one in reading.open]
    reading.inbox.write_note("at rest")
    asked = [TopicPartition("maintenance-events", number) for number in range(8)]
    reader = Consumer({"bootstrap.servers": kafka, "group.id": group})
    noted = reader.committed(asked, timeout=10)
    assert {one.metadata for one in noted} == {"at rest"}
    offsets = {one.partition: one.offset for one in noted}
    assert all(offsets[partition] <= offset for partition, offset in first)  # none is done
    reader.close()


def test_a_lease_without_a_member_is_seen(kafka: str, redis_url: str) -> None:
    """A worker that the group has put out goes on with what it has begun."""
    leases = RedisLeases(redis.Redis.from_url(redis_url))
    name = f"expire:{uuid.uuid4().hex}"
    leases.acquire(name, "w", 60)
    leases.acquire(f"finished:{name}", "finished", 60)
    services = Services(KafkaConnection(kafka), redis_url)
    held = [one for one in services.running_members() if name in one]
    assert held == [f"a task holds the lease {name}"]
    fleet = FleetClient({}, KafkaConnection(kafka))
    with pytest.raises(click.ClickException, match=f"something still runs.*{name}"):
        refuse_if_running(fleet, redis_url)
    leases.release(name, "w")
    assert [one for one in services.running_members() if name in one] == []
    assert PREFIX  # the marks of what is over are kept beside the leases


def test_a_sweep_without_a_broker_is_not_idle() -> None:
    with pytest.raises(click.ClickException, match="Name it with --kafka"):
        refuse_if_running(FleetClient({}, None), None)


def test_a_wait_ends_in_time_and_says_what_still_runs(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FleetClient({}, KafkaConnection(kafka))
    monkeypatch.setattr(Services, "at_work", lambda *_: ["3 orders of table-tasks"])
    with pytest.raises(click.ClickException, match="resumed meanwhile"):
        pausing.wait_for_rest(fleet, None, 0.0)
    board = fleet.read_pauses()
    board.fold_record(make("pause_maintenance/fleet"), 0)
    monkeypatch.setattr(FleetClient, "read_pauses", lambda self: board)
    with pytest.raises(click.ClickException, match="3 orders of table-tasks"):
        pausing.wait_for_rest(fleet, None, 0.0)
