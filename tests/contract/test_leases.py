"""One contract for leases, held by the twin in memory and by Redis itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import redis
from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.redis.leases import PREFIX, RedisLeases
from firnline_domain.ports import Leases


class LeasesHarness:
    """Leases, and a way to let one run out without waiting."""

    def __init__(self, leases: Leases, run_out: Callable[[str], None]) -> None:
        self.leases = leases
        self.run_out = run_out
        self.name = f"task:{uuid.uuid4()}"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.stack)])
def harness(request: pytest.FixtureRequest) -> LeasesHarness:
    if request.param == "memory":
        clock = [0.0]

        def pass_time(_: str) -> None:
            clock[0] += 1_000

        return LeasesHarness(MemoryLeases(lambda: clock[0]), pass_time)
    client = redis.Redis.from_url(request.getfixturevalue("redis_url"))

    def expire(name: str) -> None:
        assert client.pexpire(PREFIX + name, 0)

    return LeasesHarness(RedisLeases(client), expire)


def test_one_owner_at_a_time(harness: LeasesHarness) -> None:
    assert harness.leases.acquire(harness.name, "a", 60)
    assert not harness.leases.acquire(harness.name, "b", 60)
    assert harness.leases.acquire(harness.name, "a", 60)


def test_a_lease_that_ran_out_is_free(harness: LeasesHarness) -> None:
    assert harness.leases.acquire(harness.name, "a", 60)
    harness.run_out(harness.name)
    assert harness.leases.acquire(harness.name, "b", 60)
    assert not harness.leases.renew(harness.name, "a", 60)


def test_only_the_owner_renews_and_releases(harness: LeasesHarness) -> None:
    harness.leases.acquire(harness.name, "a", 60)
    assert not harness.leases.renew(harness.name, "b", 60)
    harness.leases.release(harness.name, "b")
    assert harness.leases.renew(harness.name, "a", 60)
    harness.leases.release(harness.name, "a")
    assert harness.leases.acquire(harness.name, "b", 60)


def test_an_owner_whose_name_begins_like_the_holder_is_another(harness: LeasesHarness) -> None:
    harness.leases.acquire(harness.name, "worker-10", 60)
    assert not harness.leases.acquire(harness.name, "worker-1", 60)
    assert not harness.leases.renew(harness.name, "worker-1", 60)


def test_notes_are_kept_replaced_and_listed(harness: LeasesHarness) -> None:
    harness.leases.acquire(harness.name, "a", 60, note="start=1")
    assert harness.leases.read_notes("task:")[harness.name] == "start=1"
    harness.leases.renew(harness.name, "a", 60)
    assert harness.leases.read_notes(harness.name)[harness.name] == "start=1"
    harness.leases.renew(harness.name, "a", 60, note="start=2")
    assert harness.leases.read_notes(harness.name)[harness.name] == "start=2"
    harness.run_out(harness.name)
    assert harness.name not in harness.leases.read_notes("task:")


def test_the_next_life_of_a_slot_takes_over_what_the_one_before_held(
    harness: LeasesHarness,
) -> None:
    assert harness.leases.acquire(harness.name, "host.0#a/1", 60)
    assert not harness.leases.acquire(harness.name, "host.0#a/2", 60)
    assert not harness.leases.acquire(harness.name, "host.1#b/1", 60)
    assert not harness.leases.acquire(harness.name, "finished", 60)
    assert harness.leases.acquire(harness.name, "host.0#b/1", 60)
    assert not harness.leases.renew(harness.name, "host.0#a/1", 60)
    harness.leases.release(harness.name, "host.0#a/1")
    assert harness.leases.renew(harness.name, "host.0#b/1", 60)


def test_the_live_ones_of_many_are_told_at_once(harness: LeasesHarness) -> None:
    over, other = f"{harness.name}-over", f"{harness.name}-other"
    for name in (harness.name, over):
        assert harness.leases.acquire(name, "a", 900)
    harness.leases.release(over, "a")
    assert harness.leases.read_live([harness.name, over, other]) == {harness.name}
    assert harness.leases.read_live([]) == set()
    harness.run_out(harness.name)
    assert harness.leases.read_live([harness.name]) == set()
