"""Held changes leave once, whatever a clock shows meanwhile."""

from __future__ import annotations

import pytest
from firnline_domain.counters.fold.folding import fold_change
from firnline_domain.counters.fold.missing_snapshots import AHEAD_MS, next_held
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import FilesChanged

from tests.kit.changes import delta

NOW_MS = 1_795_000_000_000
TABLE = TableName("u", ("db",), "t")


def told(snapshot: int, parent: int | None) -> FilesChanged:
    return delta(TABLE, snapshot, NOW_MS, parent_snapshot_id=parent)


@pytest.mark.parametrize("back_ms", [0, AHEAD_MS + 1, 10 * AHEAD_MS])
def test_a_held_change_is_folded_once_if_the_clock_is_set_back(back_ms: int) -> None:
    """Else the planner folds it again and again, for all tables, and in its next life, too."""
    table = fold_change(TableCounters(TABLE, MAIN), {}, told(1, None), NOW_MS).table
    table = fold_change(table, {}, told(3, 2), NOW_MS).table
    table = fold_change(table, {}, told(2, 1), NOW_MS - back_ms).table
    turns = 0
    while turns < 3 and (held := next_held(table)) is not None:
        turns += 1
        table = fold_change(table, {}, held, NOW_MS - back_ms).table
    assert (turns, table.head_snapshot_id, table.held) == (1, 3, ())
