"""Counters summed from deltas equal a recount, over commits of Iceberg's own writers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from firnline_domain.events import ChangeKind
from firnline_domain.identity import Scope
from firnline_domain.tallies import FileTally
from firnline_enricher.tallying import partition_changes
from firnline_iceberg.manifests import Detail
from firnline_iceberg.planning import live_entries
from firnline_iceberg.tables import LoadedTable

pytestmark = [pytest.mark.spark, pytest.mark.stack]
COMMITS = 16
TARGET = 4096


def recount(table: LoadedTable) -> dict[Scope, FileTally]:
    head = table.head_id("main")
    entries = [] if head is None else live_entries(table, head, Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, TARGET)}


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(seed: int, make_history: Callable, follower: Callable) -> None:
    history = make_history("followed", seed)
    behind = follower("followed")
    for number in range(COMMITS):
        if number == COMMITS // 2 and seed % 3 == 0:
            history.upgrade_to_v3()
        history.step()
        table = behind.follow()
        assert behind.head == table.head_id("main")
        assert behind.holds == recount(table)
    assert ChangeKind.DELTA in behind.kinds
