"""A commit and a sweep never meet: what a committer has seen too long ago is looked at again."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_committer.commit import committer as committing
from firnline_committer.commit.held_catalog import without_gateway
from firnline_committer.examine.outputs import Outputs
from firnline_committer.handlers import CommitterHandlers
from firnline_domain.base.values import replace
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.table.catalog_client import Tables

from tests.kit.lake.writer import local
from tests.kit.write_ahead import outputs, started

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
Meddler = Any  # tests.meddling.Meddler
LIVES = Lifetimes()


# ---- a commit and a sweep never meet


class Clock:
    """Passes only when told; `jumps`: milliseconds to pass at each of the next looks."""

    def __init__(self) -> None:
        self.ms = 1_000
        self.jumps: list[int] = []

    def __call__(self) -> int:
        self.ms += self.jumps.pop(0) if self.jumps else 0
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clocked(iceberg: Any, meddler: Meddler, clock: Clock) -> CommitterHandlers:
    """A committer whose time is the clock's and whose catalog is the meddler."""
    tables, log = Tables(meddler.uri), Log("test")
    lake, java = without_gateway(tables), JavaCommits(iceberg, meddler.uri)
    committer = committing.Committer(lake, java, log, clock, lambda _: None, LIVES)
    return CommitterHandlers(committer, tables, clock)


def test_a_committer_that_was_stopped_looks_again_before_it_sends(
    table: Table, clocked: Committer, meddler: Meddler, clock: Clock, monkeypatch: Any
) -> None:
    """It wakes up after two days, between its look at the outputs and its request; they have been
    swept, and the head is still the one that it has pinned."""
    result = started(table)
    before, head = table.rows(), table.head
    lost = Outputs.first_missing

    def then_stopped(self: Outputs, *args: Any) -> str | None:
        found = lost(self, *args)
        if outputs(result)[0].exists():
            clock.ms += 2 * LIVES.sweep_ms
            outputs(result)[0].unlink()
        return found

    monkeypatch.setattr(Outputs, "first_missing", then_stopped)
    (event,) = clocked.handle([result])
    assert event.reason in (ConflictReason.TOO_OLD, ConflictReason.OUTPUTS_GONE)
    assert meddler.commits == 0
    assert (table.head, table.rows()) == (head, before)


def test_after_a_pause_that_harmed_nobody_it_commits(
    table: Table, clocked: Committer, meddler: Meddler, clock: Clock, monkeypatch: Any
) -> None:
    result = started(table)
    pauses = [LIVES.send_ms + 1]
    lost = Outputs.first_missing

    def then_paused(self: Outputs, *args: Any) -> str | None:
        clock.ms += pauses.pop() if pauses else 0
        return lost(self, *args)

    monkeypatch.setattr(Outputs, "first_missing", then_paused)
    before = table.rows()
    (event,) = clocked.handle([result])
    assert isinstance(event, RewriteCommitted)
    assert (meddler.commits, table.rows()) == (1, before)
    assert len(list(local(table.loaded.metadata.location).rglob("snap-*"))) == 3  # none of the try


def test_a_clock_that_is_set_back_counts_as_a_pause(
    table: Table, clocked: Committer, meddler: Meddler, clock: Clock, monkeypatch: Any
) -> None:
    lost = Outputs.first_missing

    def backwards(self: Outputs, *args: Any) -> str | None:
        clock.ms -= 1
        return lost(self, *args)

    monkeypatch.setattr(Outputs, "first_missing", backwards)
    result = started(table)
    assert clocked.advance([result]).open == [result]
    assert meddler.commits == 0


def test_a_result_that_may_be_swept_is_not_committed(
    table: Table, clocked: Committer, meddler: Meddler, clock: Clock
) -> None:
    result = started(table)
    clock.ms = result.started_at_ms + LIVES.result_ms
    later = replace(result, task_id="later", started_at_ms=result.started_at_ms - 1)
    (event,) = clocked.handle([later])
    assert event.reason is ConflictReason.TOO_OLD
    assert meddler.commits == 0
    (event,) = clocked.handle([result])
    assert isinstance(event, RewriteCommitted)
    (event,) = clocked.handle([replace(later, task_id=result.task_id)])
    assert event.redelivered  # what is in the table is in the table, however old
