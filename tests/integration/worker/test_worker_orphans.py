"""Orphans wait in a quarantine, and no file that a table needs goes; Iceberg's action beside it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.java.api import removal_json
from firnline_iceberg.metadata.manifest_file_names import _plain_names
from firnline_iceberg.removal.moves import FileMove, Mover
from firnline_iceberg.removal.removal import QUARANTINE
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.retained_names import RetainedNames, content_paths
from firnline_standalone.previews import preview
from firnline_worker.table_actions.remove_orphans import OrphanRemover

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
OLD_S = 10 * 86_400
RUN = "3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab"


@pytest.fixture
def remover(tables: Any) -> OrphanRemover:
    return OrphanRemover(tables, "w1", now_ms)


def order(table: TableName, quarantine_h: float = 168.0) -> TableOrder:
    at = now_ms()
    numbers = {"min_age_h": 72.0, "quarantine_h": quarantine_h}
    return TableOrder(
        "o1", table, OrphanRemoval.name, "orphan_interval", 1, 1, at, at + 3_600_000, numbers
    )


def root(lab: Lab) -> Path:
    return Path(lab.table().metadata.location.removeprefix("file:"))


def age(folder: Path) -> None:
    """Everything is ten days old."""
    for path in folder.rglob("*"):
        old = path.stat().st_mtime - OLD_S
        os.utime(path, (old, old))


def left_behind(lab: Lab, name: str = f"data/00000-0-{RUN}-00001.parquet") -> Path:
    path = root(lab) / name
    path.write_bytes(b"12345")
    return path


def filled(lab: Lab) -> list[Any]:
    """Rows in several snapshots, with deletes; of v3, so with a vector in a Puffin file."""
    lab.create(
        "id BIGINT, p STRING",
        "PARTITIONED BY (p)",
        **{"format-version": "3", "write.delete.mode": "merge-on-read"},
    )
    for number in range(3):
        lab.insert(f"({number}, 'a=b/c'), ({number + 10}, 'x')")
    lab.sql("DELETE FROM {t} WHERE id = 1")
    lab.sql("INSERT OVERWRITE {t} SELECT id, p FROM {t} WHERE id < 12")
    return lab.rows()


def test_an_orphan_goes_through_the_quarantine_and_all_else_stays(lab, remover, tables):
    rows = filled(lab)
    snapshots = [one.snapshot_id for one in lab.table().snapshots]
    history = [lab.sql(f"SELECT * FROM {{t}} VERSION AS OF {one}").count() for one in snapshots]
    orphan, before = left_behind(lab), lab.stored()
    age(root(lab))
    young = left_behind(lab, f"data/00001-1-{RUN}-00001.parquet")
    shown = preview(tables, order(lab.name), now_ms())
    assert (shown.files, shown.bytes, orphan.exists()) == (1, 5, True)
    numbers = remover.remove(order(lab.name)).numbers
    assert (numbers["files_quarantined"], numbers["bytes_quarantined"]) == (1, 5)
    assert not orphan.exists()
    assert young.exists()
    kept = [one for one in lab.stored() if QUARANTINE in one]
    assert [Path(one).name for one in kept] == [orphan.name]
    again = remover.remove(order(lab.name)).numbers
    assert (again["files_quarantined"], again["files_deleted"]) == (0, 0)
    gone = remover.remove(order(lab.name, quarantine_h=0.0)).numbers
    assert (gone["files_deleted"], gone["bytes_deleted"]) == (1, 5)
    assert lab.stored() - {str(young)} == before - {str(orphan)}
    assert lab.rows() == rows
    assert history == [
        lab.sql(f"SELECT * FROM {{t}} VERSION AS OF {one}").count() for one in snapshots
    ]


def test_names_in_manifests_of_icebergs_java_are_those_that_it_wrote(lab):
    """Of data files, deletion vectors, and what was taken out; none of them decoded."""
    filled(lab)
    table = lab.table()
    manifests = RetainedNames(table).manifests
    assert len(manifests) >= 4
    for path in manifests:
        names = {file_name(one) for one in content_paths(table, path, live_alone=False)}
        assert _plain_names(table.io, path) == names


def test_a_file_that_a_writer_commits_while_it_is_moved_goes_back(lab, remover, monkeypatch):
    """Written ten days ago, and committed only now."""
    rows = filled(lab)
    data = next(one for one in lab.stored() if one.endswith(".parquet") and "p=x" in one)
    copy = Path(data).with_name(f"00002-2-{RUN}-00001.parquet")
    copy.write_bytes(Path(data).read_bytes())
    late, moved = entry_of(lab, copy), Mover._move_file
    age(root(lab))

    def move(mover: Mover, move: FileMove) -> bool:
        found = moved(mover, move)
        if move.to.endswith(copy.name):
            lab.writer.append(late)
        return found

    monkeypatch.setattr(Mover, "_move_file", move)
    numbers = remover.remove(order(lab.name)).numbers
    assert (numbers["files_quarantined"], numbers["files_restored"]) == (1, 1)
    assert copy.exists()
    assert len(lab.rows()) > len(rows)


def entry_of(lab: Lab, path: Path) -> str:
    """Of a copy of a data file of the table's, for an append."""
    table = lab.table()
    like = next(f for f in live_files(table, table.head_id(MAIN)).data if f.partition == '["x"]')
    entry = replace(like, path=f"file:{path}", bytes=path.stat().st_size)
    return removal_json(entry, 1)


def test_a_table_within_another_ends_it_where_icebergs_action_removes_its_files(lab, remover):
    """`remove_orphan_files` takes all that is below the location for the table's own (#4194)."""
    filled(lab)
    left_behind(lab)
    inner = f"lake.{lab.namespace}.inner"
    lab.sql(f"CREATE TABLE {inner} (id BIGINT) USING iceberg LOCATION '{root(lab)}/data/inner'")
    lab.sql(f"INSERT INTO {inner} VALUES (1)")
    age(root(lab))
    stored = lab.stored()
    with pytest.raises(TaskRefused, match="inner") as refused:
        remover.remove(order(lab.name))
    assert refused.value.reason == "shared_location"
    assert lab.stored() == stored
    call = f"CALL lake.system.remove_orphan_files(table => '{lab.namespace}.t', dry_run => true)"
    theirs = {row[0].removeprefix("file:") for row in lab.sql(call).collect()}
    assert any("/inner/data/" in one and one.endswith(".parquet") for one in theirs)


def test_shared_files_are_refused(lab, remover):
    lab.create("id BIGINT", **{"gc.enabled": "false"})
    lab.insert("(1)")
    orphan = left_behind(lab)
    age(root(lab))
    assert remover.remove(order(lab.name)).refused_reason == "gc_disabled"
    assert orphan.exists()
