"""A table in which rows are deleted all the time: when is the commit sent (decision 0013), and who
waits meanwhile (0013)?

Such a writer fails where a file that it has read was replaced before it commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from firnline_committer.commit.committer import MAX_WAITS
from firnline_committer.commit.timing import DRAIN_S, FEWEST, LONGEST_MS, POLL_S
from firnline_domain.records.events import RewriteCommitted
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.table.catalog_client import Tables

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario


class Sleep:
    """Counts what the committer sleeps; a writer acts meanwhile."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.acts:
            self.acts.pop(0)()


@pytest.fixture
def commit(iceberg: Any, catalog_uri: str, committer_of: Any) -> Callable[..., None]:
    def committed(table: Table, result: Any, sleep: Sleep) -> None:
        before = None if sleep.acts else table.rows()
        (event,) = committer_of(iceberg, catalog_uri, sleep=sleep).handle([result])
        assert isinstance(event, RewriteCommitted), event
        assert before is None or table.rows() == before

    return committed


def parent_of_ours(table: Table) -> int | None:
    head = table.loaded.head("main")
    assert head.summary.operation.value == "replace"
    parent: int | None = head.parent_snapshot_id
    return parent


def test_it_is_sent_right_after_the_next_such_commit(table: Table, commit: Any) -> None:
    data = table.append(*((n, n) for n in range(20)))
    result = table.rewrite()
    for position in range(FEWEST):
        table.delete_rows(data, position)
    before = table.head
    sleep = Sleep(lambda: None, lambda: table.delete_rows(data, 10))
    commit(table, result, sleep)
    after_it = table.loaded.snapshot(parent_of_ours(table))
    assert after_it.parent_snapshot_id == before
    assert len(sleep.slept) <= 2 + DRAIN_S / POLL_S  # for others, of which none comes
    assert table.rows() == [(n, n) for n in range(20) if n not in {*range(FEWEST), 10}]


def test_nobody_waits_for_writers_that_read_no_file(table: Table, commit: Any) -> None:
    table.append((1, 1), (2, 2))
    result = table.rewrite()
    for number in range(FEWEST + 1):
        table.upsert((3, number))
    head, sleep = table.head, Sleep()
    commit(table, result, sleep)
    assert (parent_of_ours(table), sleep.slept) == (head, [])


def test_a_writer_that_stays_away_is_not_waited_for_long(table: Table, commit: Any) -> None:
    data = table.append(*((n, n) for n in range(20)))
    result = table.rewrite()
    for position in range(FEWEST):
        table.delete_rows(data, position)
    head, sleep = table.head, Sleep()
    commit(table, result, sleep)
    assert parent_of_ours(table) == head
    assert 0 < sum(sleep.slept) <= 3 * LONGEST_MS / 1000


def test_a_head_that_moves_each_time_is_waited_for_a_few_times_only(
    table: Table, meddler: Any, iceberg: Any, committer_of: Any
) -> None:
    data = table.append(*((n, n) for n in range(40)))
    result = table.rewrite()
    for position in range(FEWEST):
        table.delete_rows(data, position)
    tries = MAX_WAITS + 3
    meddler.before += [lambda n=n: table.delete_rows(data, 10 + n) for n in range(tries)]
    waited = []
    committer = committer_of(iceberg, meddler.uri, sleep=waited.append)
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted)
    assert meddler.commits == tries + 1
    gone = {*range(FEWEST), *range(10, 10 + tries)}
    assert table.rows() == [(n, n) for n in range(40) if n not in gone]


@pytest.mark.parametrize("moment", ["our commit", "the awaited commit"])
def test_a_statement_that_begins_with_a_commit_waits_and_does_not_fail(
    table: Table, meddler: Any, gateway: str, iceberg: Any, committer_of: Any, moment: str
) -> None:
    """A writer without a pause begins the next one before the committer has seen its commit."""
    data = table.append(*((n, n) for n in range(20)))
    result = table.rewrite()
    for position in range(FEWEST):
        table.delete_rows(data, position)
    writer = replace(table, catalog=rest_catalog(iceberg.jvm, gateway), tables=Tables(gateway))
    go, read = threading.Event(), threading.Event()
    statements = []
    with ThreadPoolExecutor() as pool:

        def begin() -> None:
            statements.append(pool.submit(writer.delete_as_engines_do, go, read))
            read.wait(0.5)  # time enough, if it did not have to wait

        def commit_without_a_pause() -> None:
            writer.delete_rows(data, 10)
            begin()

        act, meddler.before = commit_without_a_pause, []
        if moment == "our commit":
            act, meddler.before = lambda: table.delete_rows(data, 10), [begin]
        sleep = Sleep(lambda: None, act)
        (event,) = committer_of(iceberg, gateway, sleep=sleep).handle([result])
        assert isinstance(event, RewriteCommitted)
        ours = table.head
        go.set()
        assert statements[0].result(30) == ours
    assert len(table.rows()) == 20 - FEWEST - 2
