"""Iceberg itself leaves traces of ancestors alone, whatever is committed, moved and taken back
(`firnline_domain.commits.ancestry`): tried on a catalog that shows all of the history."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from firnline_domain.commits.ancestry import traced_snapshots
from firnline_domain.identity import MAIN
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.lake.scenario import CommitScenario
from tests.kit.long_run import mark_long

pytestmark = pytest.mark.stack
STEPS = 40


def seen(table: LoadedTable, snapshot_id: int) -> frozenset[int]:
    """All that a snapshot has of anybody."""
    manifests = table.manifests_of(table.snapshot(snapshot_id))
    entries = [entry for one in manifests for entry in table.entries_of(one)]
    return traced_snapshots(manifests, entries)


def write_manifests_anew(table: CommitScenario) -> None:
    """Entries go into new manifests, one each."""
    identity = table.jvm.java.util.function.Function.identity()
    table.java.rewriteManifests().clusterBy(identity).commit()


def merging_append(table: CommitScenario) -> None:
    java = table.java
    file = table.writer.java_file(java, table.data([(1, 1)]))
    java.newAppend().appendFile(file).commit()


def move(table: CommitScenario, dice: random.Random) -> None:
    """To any snapshot that there ever was."""
    anywhere = dice.choice([one.snapshot_id for one in table.loaded.snapshots])
    table.java.manageSnapshots().setCurrentSnapshot(anywhere).commit()


def some_file(table: CommitScenario, dice: random.Random) -> Any:
    return dice.choice(live_files(table.loaded, table.head).data)


def cherry_pick(table: CommitScenario, dice: random.Random) -> None:
    """Of a snapshot that an append has staged, and nothing has published."""
    change = table.writer.planned_append(table.data([(9, 9)]))
    text = f"w{dice.randrange(10**9)}"
    change.set("wap.id", text).stageOnly().commit()
    staged = next(
        one for one in table.loaded.snapshots if (one.summary or {}).get("wap.id") == text
    )
    table.append((8, 8))
    table.java.manageSnapshots().cherrypick(staged.snapshot_id).commit()


def compact(table: CommitScenario, dice: random.Random) -> None:
    old = some_file(table, dice)
    new = table.data([(n, n) for n in range(old.records)])
    table.writer.rewrite([old], [new], table.head, table.loaded.last_sequence_number)


def replace_table(table: CommitScenario, _: random.Random) -> None:
    """CREATE OR REPLACE: the new head has no parent."""
    java = table.java
    parser = table.jvm.org.apache.iceberg.catalog.TableIdentifierParser
    name = table.name
    text = f'{{"namespace": ["{name.namespace[0]}"], "name": "{name.name}"}}'
    made = table.catalog.buildTable(parser.fromJson(text), java.schema()).replaceTransaction()
    made.commitTransaction()
    table.append((1, 1), (2, 2))


WRITES: dict[str, Callable[[CommitScenario, random.Random], object]] = {
    "fast append": lambda table, dice: table.append((dice.randrange(99), 1), (1, 2)),
    "merging append": lambda table, _: merging_append(table),
    "upsert": lambda table, dice: table.upsert((dice.randrange(99), 3)),
    "delete of rows": lambda table, dice: table.delete_rows(some_file(table, dice).path, 0),
    "delete of a file": lambda table, dice: table.writer.delete(some_file(table, dice)),
    "compaction": compact,
    "new manifests": lambda table, _: write_manifests_anew(table),
    "move": move,
    "cherry-pick": cherry_pick,
    "replaced": replace_table,
}


@pytest.mark.parametrize("seed", mark_long(range(3), but=[0]))
def test_iceberg_carries_on_what_its_parent_had_and_nothing_else(
    make_table: Callable[..., CommitScenario], seed: int
) -> None:
    dice = random.Random(seed)
    table = make_table(**{"commit.manifest.min-count-to-merge": "3"})
    table.append((1, 1), (2, 2))
    looked, done = 0, set[str]()
    for _ in range(STEPS):
        word = dice.choice(list(WRITES))
        if not live_files(table.loaded, table.head).data:
            word = "fast append"
        WRITES[word](table, dice)
        done.add(word)
        loaded = table.loaded
        head = loaded.head(MAIN).snapshot_id
        behind = {one.snapshot_id for one in loaded.ancestors(head)}
        found = seen(loaded, head)
        assert found <= behind, word
        looked += len(found - {head})
    assert looked > STEPS
    assert len(done) > len(WRITES) // 2
