"""Expiry keeps what a running task started from, and refuses where files are shared."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_iceberg.commit import retries
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.expiry.snapshot_selection import expiring_snapshots
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.table_actions import expire_snapshots as expiry
from firnline_worker.table_actions.expire_snapshots import Expirer

from tests.integration.worker.lab import Lab
from tests.kit.expiries import expire

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def running() -> set[int]:
    """Start snapshots of running tasks."""
    return set()


@pytest.fixture
def expirer(tables, java, running) -> Expirer:
    return Expirer(tables, java, lambda uuid: running, "w1", lambda: int(time.time() * 1000))


def order(lab, protected=(), retain_last=1):
    now = int(time.time() * 1000)
    return expire(
        "e1", lab.name, now, now,
        retain_last=retain_last, protected_snapshot_ids=tuple(protected), agreed=True,
    )  # fmt: skip


def filled(lab, **properties):
    """Three appends and an overwrite of all: four snapshots, the old files reachable by three."""
    lab.create("id BIGINT", **properties)
    for number in range(3):
        lab.insert(f"({number})")
    lab.sql("INSERT OVERWRITE {t} SELECT 9")
    return [snapshot.snapshot_id for snapshot in lab.table().snapshots]


def left(lab):
    return [snapshot.snapshot_id for snapshot in lab.table().snapshots]


def test_old_snapshots_and_their_files_go(lab, expirer, in_thread):
    snapshots = filled(lab)
    before = lab.stored()
    result = in_thread(expirer.expire, order(lab))
    assert left(lab) == snapshots[-1:]
    assert (result.expired, result.remaining, result.refused_reason) == (3, 1, None)
    assert result.deleted_files == len(before - lab.stored()) >= 6
    assert lab.rows() == [(9,)]
    again = expirer.expire(order(lab))
    assert (again.expired, again.deleted_files) == (0, 0)


def test_what_a_running_task_started_from_stays(lab, expirer, running):
    snapshots = filled(lab)
    running.add(snapshots[2])
    expirer.expire(order(lab))
    assert left(lab) == snapshots[2:]
    running.clear()
    expirer.expire(order(lab, protected=[snapshots[2]]))
    assert left(lab) == snapshots[2:]
    expirer.expire(order(lab, retain_last=2))
    assert left(lab) == snapshots[2:]
    expirer.expire(order(lab))
    assert left(lab) == snapshots[3:]


def test_what_a_running_task_started_from_stays_by_any_age_limit(lab, java, expirer, running):
    """It is younger than the order's cut-off, and older than the limit of its branch. Schemas that
    nobody needs are removed at the same time."""
    snapshots = filled(lab)
    for name in ("a", "b"):  # no snapshot has the first of these schemas
        lab.sql(f"ALTER TABLE {{t}} ADD COLUMN {name} INT")
    java.load(lab.name).java.manageSnapshots().setMaxSnapshotAgeMs("main", 1).commit()
    running.add(snapshots[2])
    older_than_ms = lab.table().snapshot(snapshots[1]).timestamp_ms
    asked = replace(order(lab), older_than_ms=older_than_ms)
    result = expirer.expire(asked)
    assert (result.expired, result.numbers["schemas_removed"]) == (2, 1)
    assert left(lab) == snapshots[2:]


def test_files_that_a_branch_reaches_stay(lab, expirer):
    snapshots = filled(lab)
    lab.sql(f"ALTER TABLE {{t}} CREATE TAG kept AS OF VERSION {snapshots[1]}")
    expirer.expire(order(lab))
    assert left(lab) == [snapshots[1], snapshots[3]]
    tagged = lab.sql("SELECT * FROM {t} VERSION AS OF 'kept'").collect()
    assert sorted(row[0] for row in tagged) == [0, 1]


def test_a_table_whose_files_are_shared_is_refused(lab, expirer):
    snapshots = filled(lab, **{"gc.enabled": "false"})
    result = expirer.expire(order(lab))
    assert (result.refused_reason, result.expired) == ("gc_disabled", 0)
    assert left(lab) == snapshots


def careful(lab, **more):
    """As it is ordered of a table whose owner has said nothing."""
    return replace(order(lab), agreed=False, grace_ms=DAY_MS, **more)


def test_what_would_go_is_found_out_and_nothing_goes_before_the_grace_period(lab, expirer):
    snapshots, before = filled(lab), lab.stored()
    now = int(time.time() * 1000)
    refused = expirer.expire(careful(lab))
    assert refused.refused_reason == "grace_period"
    told = expirer.expire(careful(lab, older_than_ms=now + DAY_MS, begins_at_ms=now + DAY_MS))
    assert (told.expired, told.remaining, told.begins_at_ms) == (0, 4, now + DAY_MS)
    assert (told.going_snapshots, told.going_files) == (3, 3)
    assert told.going_bytes > 0
    early = expirer.expire(careful(lab, announced_at_ms=now - DAY_MS + 60_000))
    assert early.refused_reason == "grace_period"
    assert (left(lab), lab.stored()) == (snapshots, before)
    begun = expirer.expire(careful(lab, announced_at_ms=now - DAY_MS))
    assert (begun.expired, left(lab)) == (told.going_snapshots, snapshots[-1:])


@pytest.mark.parametrize("allowed", [True, False])
def test_files_outside_stay_until_owner_and_operator_say_that_they_may_go(
    lab, java, catalog_uri, tmp_path, allowed
):
    """`add_files` puts files into a table that lie where somebody else has put them."""
    properties = {"firnline.external-files": f"file://{tmp_path}"} if allowed else {}
    tables = Tables(CatalogConnection("lake", {"uri": catalog_uri, **properties}))
    expirer = Expirer(tables, java, lambda _: (), "w1", lambda: int(time.time() * 1000))
    other = str(tmp_path / "others")
    lab.create("id BIGINT")
    lab.spark.range(3).coalesce(1).write.parquet(other)
    files = sorted(Path(other).glob("*.parquet"))
    source = f"`parquet`.`{other}`"
    lab.sql(f"CALL lake.system.add_files(table => '{lab.namespace}.t', source_table => '{source}')")
    lab.sql("INSERT OVERWRITE {t} SELECT 9")
    assert len(left(lab)) == 2
    refused = expirer.expire(order(lab))
    assert (refused.refused_reason, refused.expired) == ("external_files", 0)
    assert sorted(Path(other).glob("*.parquet")) == files
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.expire.enabled' = 'true')")
    assert expirer.expire(order(lab)).expired == 1
    assert sorted(Path(other).glob("*.parquet")) == ([] if allowed else files)


def test_what_the_owner_has_said_since_the_order_holds(lab, expirer):
    snapshots = filled(lab, **{"firnline.retain.hours": "1"})
    assert expirer.expire(order(lab)).expired == 0
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.expire.enabled' = 'false')")
    assert expirer.expire(order(lab)).refused_reason == "expire_disabled"
    assert left(lab) == snapshots


def test_more_snapshots_than_an_order_may_expire_go_in_turn(lab, expirer, monkeypatch):
    snapshots = filled(lab)
    monkeypatch.setattr(expiry, "MAX_SNAPSHOTS", 2)
    monkeypatch.setattr(expiry, "MAX_COMMITS", 1)
    assert expirer.expire(order(lab)).expired == 2
    assert left(lab) == snapshots[2:]
    assert expirer.expire(order(lab)).expired == 1


def test_more_snapshots_than_a_commit_may_expire_go_in_several(lab, tables, expirer, monkeypatch):
    snapshots = filled(lab)
    monkeypatch.setattr(expiry, "MAX_SNAPSHOTS", 2)
    commits = []
    counting = beside(expirer, tables, lambda: commits.append(left(lab)))
    result = counting.expire(order(lab))
    assert (result.expired, left(lab)) == (3, snapshots[-1:])
    assert commits == [snapshots, snapshots[2:]]
    assert lab.rows() == [(9,)]


@dataclass(frozen=True)
class Meanwhile:
    """The catalog's tables; `happens` just before a commit is sent."""

    tables: Tables
    happens: Callable[[], object]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tables, name)

    def commit_changes(self, *asked: Any) -> bool:
        self.happens()
        return self.tables.commit_changes(*asked)


def beside(expirer: Expirer, tables: Tables, happens: Callable[[], object]) -> Expirer:
    return dataclasses.replace(expirer, tables=Meanwhile(tables, happens))


def test_a_rollback_to_a_snapshot_that_is_about_to_go_keeps_the_branch(lab, tables, expirer):
    """Iceberg's own expiry asks for no head: the catalog removed `main` with its snapshot."""
    snapshots = filled(lab)
    name = f"{lab.namespace}.t"
    call = f"CALL lake.system.rollback_to_snapshot('{name}', {snapshots[0]})"

    def roll_back() -> None:
        if lab.table().head_id("main") != snapshots[0]:
            lab.sql(call)

    result = beside(expirer, tables, roll_back).expire(order(lab))
    assert (result.expired, left(lab)) == (2, [snapshots[0], snapshots[3]])
    assert lab.rows() == [(0,)]


def test_a_commit_that_always_loses_is_tried_again_later(lab, tables, expirer, monkeypatch):
    snapshots = filled(lab)
    monkeypatch.setattr(retries, "WAIT_S", 0.0)
    busy = beside(expirer, tables, lambda: lab.insert("(7)"))
    with pytest.raises(RetryLater, match="writers were faster"):
        busy.expire(order(lab))
    assert left(lab)[:4] == snapshots
    assert expirer.expire(order(lab)).expired == len(snapshots) + retries.TRIES - 1


def test_iceberg_itself_would_choose_the_same(lab, java):
    """Branches with limits of their own, refs that are too old, and snapshots that none reaches."""
    snapshots = filled(lab)
    for name, at in (("few", 2), ("young", 3), ("old", 1), ("short", 2)):
        lab.sql(f"ALTER TABLE {{t}} CREATE BRANCH {name} AS OF VERSION {snapshots[at]}")
    lab.sql(f"ALTER TABLE {{t}} CREATE TAG aged AS OF VERSION {snapshots[0]}")
    lab.sql("INSERT INTO {t}.branch_few VALUES (5)")
    change = java.load(lab.name).java.manageSnapshots()
    change.setMinSnapshotsToKeep("few", 2).setMaxSnapshotAgeMs("young", 3_600_000)
    change.setMaxSnapshotAgeMs("short", 1)
    change.setMaxRefAgeMs("old", 1).setMaxRefAgeMs("aged", 1).commit()
    lab.sql("INSERT INTO {t} VALUES (6)")
    table = lab.table()
    for keep in (1, 2, 9):
        for cut_off in sorted(one.timestamp_ms + 1 for one in table.snapshots):
            own = expiring_snapshots(table, cut_off, keep, int(time.time() * 1000))
            theirs = java.load(lab.name).java.expireSnapshots().expireOlderThan(cut_off)
            chosen = {one.snapshotId() for one in theirs.retainLast(keep).apply()}
            assert {one.snapshot_id for one in own} == chosen, (keep, cut_off)


def test_what_another_expiry_has_removed_already_is_no_error(lab, tables, expirer):
    """Chaos, seed 156624: a writer expired the same snapshots: their manifest lists were gone."""
    snapshots = filled(lab)
    [first, *_] = lab.table().snapshots
    gone = Path(first.manifest_list.removeprefix("file:"))
    result = beside(expirer, tables, gone.unlink).expire(order(lab))
    assert (result.expired, left(lab)) == (3, snapshots[-1:])
    assert lab.rows() == [(9,)]


def test_an_expiry_that_loses_what_it_retains_is_put_off(lab, expirer, monkeypatch):
    """Another one goes further, while ours cleans up; the next one ends what this has begun."""
    filled(lab)
    rows, cleaned = lab.rows(), expiry.remove_unneeded

    def gone(*_: Any) -> None:
        raise MetadataFileGone("snap-1.avro")

    monkeypatch.setattr(expiry, "remove_unneeded", gone)
    with pytest.raises(TaskRefused) as refused:
        expirer.expire(order(lab))
    assert (refused.value.reason, refused.value.retryable) == ("metadata_file_gone", True)
    assert len(left(lab)) == 1
    stored = lab.stored()
    monkeypatch.setattr(expiry, "remove_unneeded", cleaned)
    result = expirer.expire(order(lab))
    assert (result.expired, result.deleted_files) == (0, len(stored - lab.stored()) - 1)
    assert result.deleted_files >= 6
    assert lab.rows() == rows


@pytest.mark.parametrize("killed_at", ["write_journal", "remove_unneeded", "end_journal"])
def test_a_worker_that_dies_leaves_nothing_behind_for_ever(lab, expirer, monkeypatch, killed_at):
    filled(lab)
    real, rows = getattr(expiry, killed_at), lab.rows()

    def die(*given: Any) -> None:
        if killed_at == "write_journal":
            real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(expiry, killed_at, die)
    with pytest.raises(KeyboardInterrupt):
        expirer.expire(order(lab))
    monkeypatch.setattr(expiry, killed_at, real)
    expirer.expire(order(lab))
    assert lab.rows() == rows
    assert len(left(lab)) == 1
    live = {one.removeprefix("file:") for one in named(lab)}
    metadata = {one for one in lab.stored() if one.endswith(".metadata.json")}
    assert lab.stored() == live | metadata


def named(lab: Lab) -> set[str]:
    """Every file that the table's only snapshot has."""
    table = lab.table()
    [snapshot] = table.snapshots
    manifests = table.manifests_of(snapshot)
    entries = [entry.path for one in manifests for entry in table.entries_of(one) if entry.is_live]
    return {snapshot.manifest_list, *(one.path for one in manifests), *entries}
