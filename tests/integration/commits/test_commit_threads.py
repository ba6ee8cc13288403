"""Tables are committed to at the same time, by the threads of one committer with one JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from firnline_domain.records.events import RewriteCommitted

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
ROUNDS = 3


def test_a_commit_whose_answer_takes_long_holds_up_no_other_table(
    make_table: Any, meddled: Committer, meddler: Any
) -> None:
    """The second table's is made, sent and answered while the first one's is on its way."""
    first, second = make_table(), make_table()
    for table in (first, second):
        table.append((1, 1), (2, 1))
        table.delete_ids(1)
    theirs: list[Any] = []
    results = [first.rewrite(), second.rewrite()]
    with ThreadPoolExecutor(1) as other:

        def meanwhile() -> None:
            theirs.extend(other.submit(meddled.handle, results[1:]).result(60))

        meddler.before = [meanwhile]
        ours = meddled.handle(results[:1])
    assert [type(one) for one in (*ours, *theirs)] == [RewriteCommitted] * 2
    assert ours[0].committed_at_ms >= theirs[0].committed_at_ms
    for table in (first, second):
        assert table.rows() == [(2, 1)]


def test_rows_are_right_when_all_threads_commit(make_table: Any, committer: Committer) -> None:
    """With repairs, whose files and callbacks are each table's own."""
    tables = [make_table() for _ in range(4)]

    def written(table: Table) -> Any:
        path = table.append((1, 1), (2, 1), (3, 1))
        result = table.rewrite()
        table.delete_rows(path, 0)
        table.append((4, 1))
        return result

    for _ in range(ROUNDS):
        results = [written(table) for table in tables]
        with ThreadPoolExecutor(4) as threads:
            events = threads.map(lambda one: committer.handle([one]), results)
        assert [event.rows_repaired for (event,) in events] == [1] * 4
    expected = sorted([(2, 1), (3, 1), (4, 1)] * ROUNDS)
    assert [sorted(table.rows()) for table in tables] == [expected] * 4
