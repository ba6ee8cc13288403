"""The debt that the planner shows by its counters is what the worker's plan takes away."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import debt_files
from firnline_domain.records.parts.tallies import FileTally, Tally, size_class
from firnline_domain.records.results import DeleteKind
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles
from firnline_worker.plan.planning import plan

from tests.kit.file_entries import data, entry
from tests.kit.partitions import policy_input

TARGET, SMALL, UNDER, GOOD, HUGE = 80_000, 1_000, 20_000, 80_000, 200_000
OLD, NEW = 1, 9
KINDS = {
    DeleteKind.EQUALITY: "equality_deletes",
    DeleteKind.POSITION: "position_deletes",
    DeleteKind.DELETION_VECTOR: "deletion_vectors",
}


def files(count: int, size: int, partition: str = "[1]") -> list[DataFileEntry]:
    return [data(f"{partition}/{size}/{n}", OLD, size, partition) for n in range(count)]


def equality(count: int, partition: str = "[1]") -> list[DeleteFileEntry]:
    about = {"kind": DeleteKind.EQUALITY, "equality_ids": (1,)}
    return [DeleteFileEntry(**entry(f"e{n}", NEW, 9, partition), **about) for n in range(count)]


def positions(of: Iterable[DataFileEntry], kind: DeleteKind) -> list[DeleteFileEntry]:
    return [
        DeleteFileEntry(
            **{**entry(f"p{file.path}", NEW, 9, file.partition), "records": 1},
            kind=kind,
            referenced_data_file=file.path,
            **(
                {"content_offset": 4, "content_size": 9}
                if kind not in (DeleteKind.POSITION,)
                else {}
            ),
        )
        for file in of
    ]


def holds_of(live: LiveFiles, partition: str) -> FileTally:
    found = FileTally()
    for file in live.data:
        if file.partition == partition:
            kind = size_class(file.bytes, TARGET)
            found += FileTally(**{kind: Tally(1, file.records, file.bytes)})
    for delete in live.deletes:
        if delete.partition == partition:
            found += FileTally(**{KINDS[delete.kind]: Tally(1, delete.records, delete.bytes)})
    return found


def shown(live: LiveFiles) -> int:
    """What the planner would show."""
    tallies = {scope: holds_of(live, scope.partition) for scope in live.scopes}
    totals = sum(tallies.values(), FileTally())
    counters = TableCounters(TableName("u", ("n",), "t"), MAIN)
    table = Table(replace(counters, totals=replace(counters.totals, holds=totals)))
    limits = Thresholds(target_bytes=TARGET)
    return sum(
        debt_files(policy_input(table, Partition(PartitionCounters(scope, holds=holds)), limits))
        for scope, holds in tallies.items()
    )


def foretold(live: LiveFiles) -> int:
    """What a dry run would say: files before less files after."""
    spared = 0
    for scope in live.scopes:
        best = max(
            (plan(live, scope, TARGET, action) for action in (Action.COMPACT, Action.MERGE)),
            key=lambda one: len(one.inputs) - one.outputs + len(one.deletes),
        )
        spared += len(best.inputs) - best.outputs + len(best.deletes)
    return spared


MIXED = [*files(8, SMALL), *files(1, GOOD)]
SHAPES = {
    "nothing": ([], []),
    "one small file": (files(1, SMALL), []),
    "two small files are the table": (files(2, SMALL), []),
    "12 small files are the table": (files(12, SMALL), []),
    "300 partitions of 5": (
        [file for n in range(300) for file in files(5, SMALL, f"[{n}]")],
        [],
    ),
    "small files beside a good one": (MIXED, []),
    "small files of more than a target": (files(200, SMALL), []),
    "good files": (files(4, GOOD), []),
    "huge files": (files(3, HUGE), []),
    "undersized files wait": (files(3, UNDER), []),
    "undersized files fill a target": (files(6, UNDER), []),
    "equality deletes on small files": (files(6, SMALL), equality(3)),
    "equality deletes on one good file": (files(1, GOOD), equality(2)),
    "equality deletes on good files": (files(4, GOOD), equality(2)),
    "equality deletes on undersized files": (files(4, UNDER), equality(1)),
    "equality deletes on all sizes": ([*MIXED, *files(2, UNDER)], equality(5)),
    "position deletes of one good file": (
        files(4, GOOD),
        positions(files(1, GOOD), DeleteKind.POSITION),
    ),
    "vectors of all good files": (
        files(4, GOOD),
        positions(files(4, GOOD), DeleteKind.DELETION_VECTOR),
    ),
    "a vector beside small files": (MIXED, positions(files(1, GOOD), DeleteKind.DELETION_VECTOR)),
    "a small file beside a good one, with deletes, of a larger table": (
        [*files(1, SMALL), *files(1, GOOD), *files(1, GOOD, "[2]")],
        equality(1),
    ),
    "small files beside many good ones, with deletes": (
        [*files(6, SMALL), *files(50, GOOD)],
        equality(2),
    ),
    "vectors of good files, beside a small one": (
        [*files(4, GOOD), *files(1, SMALL)],
        positions(files(4, GOOD), DeleteKind.DELETION_VECTOR),
    ),
    "a vector of the only small file": (
        files(1, SMALL),
        positions(files(1, SMALL), DeleteKind.DELETION_VECTOR),
    ),
    "one small file with a delete": (files(1, SMALL), equality(1)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_debt_is_what_a_dry_run_foretells(shape: str) -> None:
    made, deletes = SHAPES[shape]
    live = LiveFiles(1, tuple(made), tuple(deletes))
    assert shown(live) == foretold(live)


MEANING = "how many files fewer a compaction would leave, data files and delete files together"


@pytest.mark.parametrize(
    "place",
    [
        "services/console/src/firnline_console/page.html",
        "infra/cli/src/firnline_cli/commands/look/tables.py",
        "docs/get-started/concepts.md",
        "docs/get-started/quick-start.md",
        "docs/reference/metrics.md",
    ],
)
def test_debt_has_one_meaning(place: str) -> None:
    text = (Path(__file__).parents[2] / place).read_text()
    assert MEANING in " ".join(text.split())
