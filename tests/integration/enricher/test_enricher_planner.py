"""Enricher and planner over one broker in memory and real tables: the counters are the table's.

Events are lost, repeated and late, snapshots expire, both services restart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from firnline_domain.records.events import TableCommitted
from firnline_domain.records.orders import ResyncTable

from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.memory_flow import SCHEMA, SPEC, TARGET, Flow, check_counters, commit, recount, rows

SECONDS_TO_HEAL = 60  # patience of the planner, then its questions


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_lost_the_counters_are_the_tables(
    seed: int, tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    dice = random.Random(seed)
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **{"write.target-file-size-bytes": str(TARGET)})
    flow = Flow(catalog)
    before = None
    for number in range(20):
        commit(catalog.load_table("db.t"), dice, number)
        now = flow.tables.load_named(("db",), "t")
        event = committed(before, now, f"commit-{number}")
        before = now
        for _ in range(dice.choice([0, 1, 1, 1, 2])):
            flow.tell(event)
        if dice.random() < 0.5:
            flow.second()
        if dice.random() < 0.1:
            flow.restart()
    catalog.load_table("db.t").append(rows((9, 99)))
    table = flow.tables.load_named(("db",), "t")
    flow.tell(committed(before, table, "the last"))  # without one more, a loss stays unseen
    for _ in range(SECONDS_TO_HEAL):
        flow.second()
    check_counters(flow)


def test_a_table_that_lived_before_us_is_asked_for_once(
    tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **{"write.target-file-size-bytes": str(TARGET)})
    for number in range(3):
        catalog.load_table("db.t").append(rows((number, number)))
    flow = Flow(catalog)
    before = flow.tables.load_named(("db",), "t")
    catalog.load_table("db.t").append(rows((1, 7)))
    table = flow.tables.load_named(("db",), "t")
    flow.tell(committed(before, table, "first seen"))
    for _ in range(5):
        flow.second()
    questions = flow.broker.records("resync-requests")
    assert [type(one) for one in questions] == [ResyncTable]
    state = flow.state(table.identity.uuid)
    assert {one.scope: one.holds for one in state.partitions} == recount(table)
    assert (state.snapshot_count, state.waiting_for_resync) == (4, False)


def test_a_dropped_table_is_forgotten(
    tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC).append(rows((1, 1)))
    flow = Flow(catalog)
    table = flow.tables.load_named(("db",), "t")
    event = committed(None, table, "created")
    flow.tell(event)
    flow.second()
    catalog.drop_table("db.t")
    flow.tell(event)  # late: its table is gone
    flow.second()
    state = flow.state(table.identity.uuid)
    assert (state.removed, state.partitions) == (True, ())
