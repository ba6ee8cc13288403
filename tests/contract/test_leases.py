"""One contract for leases, held by the twin in memory and by Redis itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import redis
from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.leases import PREFIX, RedisLeases
from firnline_domain.ports import Leases


class Bench:
    """Leases, and a way to let one run out without waiting."""

    def __init__(self, leases: Leases, run_out: Callable[[str], None]) -> None:
        self.leases = leases
        self.run_out = run_out
        self.name = f"task:{uuid.uuid4()}"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.stack)])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        clock = [0.0]

        def pass_time(_: str) -> None:
            clock[0] += 1_000

        return Bench(MemoryLeases(lambda: clock[0]), pass_time)
    client = redis.Redis.from_url(request.getfixturevalue("redis_url"))

    def expire(name: str) -> None:
        assert client.pexpire(PREFIX + name, 0)

    return Bench(RedisLeases(client), expire)


def test_one_owner_at_a_time(bench: Bench) -> None:
    assert bench.leases.acquire(bench.name, "a", 60)
    assert not bench.leases.acquire(bench.name, "b", 60)
    assert bench.leases.acquire(bench.name, "a", 60)


def test_a_lease_that_ran_out_is_free(bench: Bench) -> None:
    assert bench.leases.acquire(bench.name, "a", 60)
    bench.run_out(bench.name)
    assert bench.leases.acquire(bench.name, "b", 60)
    assert not bench.leases.renew(bench.name, "a", 60)


def test_only_the_owner_renews_and_releases(bench: Bench) -> None:
    bench.leases.acquire(bench.name, "a", 60)
    assert not bench.leases.renew(bench.name, "b", 60)
    bench.leases.release(bench.name, "b")
    assert bench.leases.renew(bench.name, "a", 60)
    bench.leases.release(bench.name, "a")
    assert bench.leases.acquire(bench.name, "b", 60)


def test_an_owner_whose_name_begins_like_the_holder_is_another(bench: Bench) -> None:
    bench.leases.acquire(bench.name, "worker-10", 60)
    assert not bench.leases.acquire(bench.name, "worker-1", 60)
    assert not bench.leases.renew(bench.name, "worker-1", 60)


def test_notes_are_kept_replaced_and_listed(bench: Bench) -> None:
    bench.leases.acquire(bench.name, "a", 60, note="start=1")
    assert bench.leases.notes("task:")[bench.name] == "start=1"
    bench.leases.renew(bench.name, "a", 60)
    assert bench.leases.notes(bench.name)[bench.name] == "start=1"
    bench.leases.renew(bench.name, "a", 60, note="start=2")
    assert bench.leases.notes(bench.name)[bench.name] == "start=2"
    bench.run_out(bench.name)
    assert bench.name not in bench.leases.notes("task:")


def test_the_next_life_of_a_slot_takes_over_what_the_one_before_held(bench: Bench) -> None:
    assert bench.leases.acquire(bench.name, "host.0#a/1", 60)
    assert not bench.leases.acquire(bench.name, "host.0#a/2", 60)
    assert not bench.leases.acquire(bench.name, "host.1#b/1", 60)
    assert not bench.leases.acquire(bench.name, "finished", 60)
    assert bench.leases.acquire(bench.name, "host.0#b/1", 60)
    assert not bench.leases.renew(bench.name, "host.0#a/1", 60)
    bench.leases.release(bench.name, "host.0#a/1")
    assert bench.leases.renew(bench.name, "host.0#b/1", 60)
