"""Whatever numbers come, the read model's totals are right, and one record spoils no other."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_console.read_model.port import Built
from firnline_domain.identity import TableName
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.examples import make
from tests.kit.console_model import TestReadModel

pytestmark = pytest.mark.stack

FIRST = Built("first", 1_000)


@pytest.fixture
def model(redis_url: str) -> TestReadModel:
    model = TestReadModel(redis_url)
    model.begin_generation(FIRST, replace=False)
    return model


def table(number: int) -> TableName:
    return TableName(f"uuid-{number}", ("shop",), f"t{number}")


def claiming(number: int, size: int) -> Any:
    """The state of a table whose files claim to be so large."""
    holds = FileTally(on_target=Tally(1, 1, size))
    return make("table_state/in_flight", table=table(number), holds=holds)


def test_sums_beyond_any_number_stay_right_and_no_reader_is_shown_them(
    model: TestReadModel,
) -> None:
    """1,025 tables of 2^53 bytes are more than 64 bits: Redis could not add them up."""
    model.apply(FIRST.generation, [claiming(number, 2**53) for number in range(1_025)])
    model.apply(FIRST.generation, [claiming(2_000, 7)])
    assert model.read_totals(0)["data_bytes"] == 2**53
    drops = [
        make("table_committed/dropped", event_id=f"drop-{number}", table=table(number))
        for number in range(1_025)
    ]
    model.apply(FIRST.generation, drops)
    assert model.read_totals(0)["data_bytes"] == 7


def test_a_value_that_redis_refuses_is_no_outage_and_costs_one_record(
    model: TestReadModel,
) -> None:
    refused = make("rewrite_files/compact", task_id="task-2", deadline_ms=float("nan"))
    with pytest.raises(ValueError, match="not a valid float"):
        model.apply(FIRST.generation, [refused])
    model.apply(FIRST.generation, [make("rewrite_files/compact", task_id="task-1")])
    assert model.find_task("task-1") is not None
