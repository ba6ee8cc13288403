"""Every driver of the planner, for tests that hold for all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_domain.identity import TableName

from tests.kit.planner_drives import (
    Drive,
    InMemory,
    OverKafka,
    over_kafka,
)


@pytest.fixture(
    scope="module",
    params=["memory", *(pytest.param(one, marks=pytest.mark.stack) for one in ("faust", "kafka"))],
)
def planner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OverKafka | None]:
    """A module's worth of tests meets one process of each driver; only one runs at a time, for two
    planners would both send orders."""
    if request.param == "memory":
        yield None
        return
    kafka: str = request.getfixturevalue("kafka")
    home: Path = tmp_path_factory.mktemp("planner")
    with over_kafka(request.param, kafka, home) as driven:
        yield driven


@pytest.fixture
def drive(planner: OverKafka | None) -> Drive:
    return planner or InMemory()


@pytest.fixture
def table() -> TableName:
    return TableName(str(uuid.uuid4()), ("db",), "t")
