"""Live files and their deletes, held against Java's own plan over random histories."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from firnline_domain.identity import normal_path
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.delete_pruning import may_match
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.spark, pytest.mark.stack]
COMMITS = 14
Plan = dict[tuple[str, int], set[tuple[str, int | None]]]
"""(data file, its sequence number) -> (delete file, offset of a vector)."""


def plan_of_java(history, snapshot_id: int) -> Plan:
    return {
        (normal_path(task.file().location()), int(task.file().dataSequenceNumber())): {
            (normal_path(one.location()), one.contentOffset()) for one in task.deletes()
        }
        for task in history.tasks(snapshot_id)
    }


def our_plan(table: LoadedTable, live: LiveFiles, prune: bool) -> Plan:
    return {
        (file.normal_path, file.sequence_number): {
            one.key
            for one in live.delete_index.for_data_file(file)
            if not prune
            or one.kind is not DeleteKind.EQUALITY
            or may_match(file, one, table.schema)
        }
        for file in live.data
    }


@pytest.mark.parametrize("seed", mark_long(range(4), but=[0]))
def test_the_plan_is_that_of_java(
    seed: int, make_history: Callable, catalog_uri: str, namespace: str
) -> None:
    history = make_history("planned", seed)
    for number in range(COMMITS):
        if number == COMMITS // 2 and seed % 3 == 0:
            history.upgrade_to_v3()
        history.step()
    table = Tables(catalog_uri).load_named((namespace,), "planned")
    compared = 0
    for snapshot in table.snapshots:
        live = live_files(table, snapshot.snapshot_id, Detail.STATS)
        expected = plan_of_java(history, snapshot.snapshot_id)
        assert our_plan(table, live, prune=True) == expected
        whole = our_plan(table, live, prune=False)
        assert all(deletes <= whole[file] for file, deletes in expected.items())
        without_stats = live_files(table, snapshot.snapshot_id)
        assert our_plan(table, without_stats, prune=False) == whole
        compared += sum(map(len, expected.values()))
    assert compared > 0
