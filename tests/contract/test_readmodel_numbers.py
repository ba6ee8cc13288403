"""Whatever numbers come, the read model's totals are right, and one record spoils no other."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import redis
from firnline_console.read_model.in_memory import MemoryReadModel
from firnline_console.read_model.port import Built, ReadModel
from firnline_console.read_model.redis import RedisReadModel
from firnline_console.read_model.redis_keys import Keys
from firnline_domain.identity import TableName
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.examples import make

FIRST = Built("first", 1_000)


def in_redis(url: str) -> RedisReadModel:
    client = redis.Redis.from_url(url, decode_responses=True)
    return RedisReadModel(client, Keys(f"t{uuid.uuid4().hex}:view:"))


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.stack)])
def model(request: pytest.FixtureRequest) -> ReadModel:
    is_twin = request.param == "memory"
    model = MemoryReadModel() if is_twin else in_redis(request.getfixturevalue("redis_url"))
    model.begin(FIRST, replace=False)
    return model


def table(number: int) -> TableName:
    return TableName(f"uuid-{number}", ("shop",), f"t{number}")


def claiming(number: int, size: int) -> Any:
    """The state of a table whose files claim to be so large."""
    holds = FileTally(on_target=Tally(1, 1, size))
    return make("table_state/in_flight", table=table(number), holds=holds)


def test_sums_beyond_any_number_stay_right_and_no_reader_is_shown_them(model: ReadModel) -> None:
    """1,025 tables of 2^53 bytes are more than 64 bits: Redis could not add them up."""
    model.apply(FIRST.generation, [claiming(number, 2**53) for number in range(1_025)])
    model.apply(FIRST.generation, [claiming(2_000, 7)])
    assert model.totals(0)["data_bytes"] == 2**53
    drops = [
        make("table_committed/dropped", event_id=f"drop-{number}", table=table(number))
        for number in range(1_025)
    ]
    model.apply(FIRST.generation, drops)
    assert model.totals(0)["data_bytes"] == 7


@pytest.mark.stack
def test_a_value_that_redis_refuses_is_no_outage_and_costs_one_record(redis_url: str) -> None:
    model = in_redis(redis_url)
    model.begin(FIRST, replace=False)
    refused = make("rewrite_files/compact", task_id="task-2", deadline_ms=float("nan"))
    with pytest.raises(ValueError, match="not a valid float"):
        model.apply(FIRST.generation, [refused])
    model.apply(FIRST.generation, [make("rewrite_files/compact", task_id="task-1")])
    assert model.task("task-1") is not None
