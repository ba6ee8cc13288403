"""Old files move to an archive: each row is in one of two tables, whoever is killed when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_cli.commands.act.purge import archive_of
from firnline_cli.purging.report import Archived, PurgeLook, look_for_rows
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.table_action.aged_partitions import AgeReason
from firnline_domain.records.parts.archive_marks import ARCHIVE_OF
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.table_actions.archive_partitions import Archiver, preview_archiving
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.types import LongType

from tests.kit.archive_world import (
    ALL,
    ARROW,
    KEYS,
    SCHEMA,
    TODAY,
    World,
    now_ms,
    refused_by,
)
from tests.kit.meddled_commits import Killed, die

pytestmark = pytest.mark.stack
Make = Callable[..., World]


@pytest.fixture
def make(
    lake: RestCatalog, namespace: str, catalog_uri: str, iceberg: IcebergJvm, java_catalog: Any
) -> Make:
    def made(**properties: str) -> World:
        return World(lake, namespace, catalog_uri, iceberg.jvm, java_catalog, **properties)

    return made


@pytest.fixture
def world(make: Make) -> World:
    return make()


def leftovers(table: LoadedTable) -> list[str]:
    folder = Path(table.metadata.location.removeprefix("file:")) / "metadata"
    return [one.name for one in folder.glob("firnline-*")]


def test_old_files_move_and_are_read_there(world: World) -> None:
    seen = preview_archiving(world.tables, world.table(), world.order(), now_ms())
    assert not isinstance(seen, str)
    assert sum(one.records for one in seen.files) == 3
    result = world.archive()
    assert result.numbers["files_archived"] == result.numbers["rows_archived"] == 3
    assert (world.days(), world.kept()) == ([1], [30, 40, 400])
    archive = world.table("t_archive")
    source = world.table().identity
    assert archive.properties[ARCHIVE_OF] == f"{source.key}/{source.dotted_name}"
    assert archive.properties["firnline.enabled"] == "false"
    assert world.is_settled()
    assert leftovers(archive) == []
    heads = world.table().head("main"), archive.head("main")
    assert world.archive().numbers == {}
    assert (world.table().head("main"), world.table("t_archive").head("main")) == heads
    world.insert(50)
    assert world.archive().numbers["rounds"] == 1
    assert (world.days(), world.kept()) == ([1], [30, 40, 50, 400])


def test_columns_and_partitions_change_and_the_archive_follows(world: World) -> None:
    """Under the table's field ids, which no `CREATE TABLE` would give."""
    table = world.lake.load_table(f"{world.namespace}.t")
    with table.update_schema() as change:
        change.add_column("gone", LongType())
    with table.update_schema() as change:
        change.delete_column("gone")
        change.add_column("late", LongType())
    world.insert(50, late=5)
    world.archive()
    assert world.table("t_archive").schema.as_struct() == world.table().schema.as_struct()
    assert world.table("t_archive").schema.find_field("late").field_id == 4
    with table.update_schema() as change:
        change.rename_column("late", "later")
    with table.update_spec() as spec:
        spec.add_identity("d")
    world.insert(60, later=6)
    world.archive()
    found = world.lake.load_table(f"{world.namespace}.t_archive").scan().to_arrow().to_pylist()
    late = {one["d"]: one["later"] for one in found}
    assert late == {30: None, 40: None, 50: 5, 60: 6, 400: None}
    assert world.days() == [1]


def test_a_purge_of_the_table_looks_into_its_archive(world: World) -> None:
    def seen(where: str) -> PurgeLook:
        table = world.table()
        return look_for_rows(table, archive_of(world.tables, table, {}), where, {}, now_ms())

    said = {"firnline.archive.table": "cold"}  # of the namespace
    world.lake.update_namespace_properties(world.namespace, updates=said)
    assert seen("d = 40").archived is None
    world.archive()
    found = seen("d = 40")
    assert found.archived == Archived(f"{world.namespace}.cold", 2)  # with its manifest
    assert "2 files may have such rows; firnline purge" in [*found.next_steps()][-1]
    assert not found.is_proved
    absent = seen("d = 12345")
    assert (absent.is_proved, absent.archived and absent.archived.files) == (True, 0)
    with world.lake.load_table(f"{world.namespace}.t").update_schema() as schema:
        schema.add_column("late", LongType())
    unknown = seen("late = 5")
    assert unknown.archived is not None
    assert (unknown.archived.files, unknown.is_proved) == (None, False)
    assert "late" in unknown.archived.reason


def test_files_with_deletes_wait(world: World) -> None:
    world.delete(40)
    result = world.archive()
    assert result.numbers["files_with_deletes"] == 1
    assert (world.days(), world.kept()) == ([1], [30, 400])


@pytest.mark.parametrize("meanwhile", ["", "rewrite", "delete"])
@pytest.mark.parametrize("commit", [0, 1])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_worker_leaves_no_row_out_and_none_twice(
    world: World, when: str, commit: int, meanwhile: str
) -> None:
    getattr(world.commits, when)[commit] = die
    with pytest.raises(Killed):
        world.archive()
    left, alive = world.days(), set(ALL)
    assert {*left, *world.kept()} == alive
    if meanwhile and 40 in left:
        getattr(world, meanwhile)(40)
    if meanwhile == "delete" and 40 in left:
        alive.remove(40)
    result = world.archive()
    assert world.is_settled()
    assert sorted(world.days() + world.kept()) == sorted(alive)
    assert world.days() == [1]
    unsettled = (when, commit) in (("after", 0), ("before", 1))
    assert result.numbers.get("rounds_given_up", 0) == (unsettled and meanwhile != "")


def test_a_round_that_was_given_up_is_withdrawn_by_who_comes_next(world: World) -> None:
    world.commits.after[0] = die
    with pytest.raises(Killed):
        world.archive()
    world.rewrite(40)
    for when in (world.commits.after, world.commits.before, world.commits.after):
        when[world.commits.count] = die  # the round is given up, withdrawn, and the next one begun
        with pytest.raises(Killed):
            world.archive()
        assert {*world.days(), *world.kept()} == set(ALL)
    world.archive()
    assert (world.days(), world.kept()) == ([1], [30, 40, 400])


def test_writers_that_come_first_are_looked_at_again(world: World) -> None:
    """Beside the removal a writer's commit: one of something young, then one that deletes a row of
    what was copied."""
    world.commits.before[1] = lambda: world.insert(2)
    world.commits.before[2] = lambda: world.delete(40)
    result = world.archive()
    assert result.numbers["rounds_given_up"] == 1
    assert (world.days(), world.kept()) == ([1, 2], [30, 400])


def test_two_at_once(world: World) -> None:
    """Another one begins and ends while the first one has copied and not committed, and while it
    has committed and not removed."""
    other = Archiver(world.tables, world.commits.commits, "w2", now_ms, KEYS)
    world.commits.before[0] = lambda: other.archive(world.order())
    world.archive()
    assert (world.days(), world.kept()) == ([1], [30, 40, 400])
    world.insert(50)
    world.commits.after[world.commits.count] = lambda: other.archive(world.order())
    world.archive()
    assert (world.days(), world.kept()) == ([1], [30, 40, 50, 400])
    assert world.is_settled()
    assert leftovers(world.table("t_archive")) == []


def test_a_table_that_is_not_its_archive_is_left_alone(make: Make) -> None:
    world = make(**{"firnline.archive.table": "theirs"})
    world.lake.create_table(f"{world.namespace}.theirs", SCHEMA)
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    assert refused.value.reason == "not_an_archive"
    assert world.days() == ALL


def test_it_is_made_where_the_owner_says_and_not_below_the_table(
    world: World, tmp_path: Path
) -> None:
    world.set(**{"firnline.archive.location": f"{world.table().metadata.location}/cold"})
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    assert refused.value.reason == "archive_location"
    world.set(**{"firnline.archive.location": f"file://{tmp_path}/cold"})
    assert refused_by(world) == "archive_location"
    world.allow(f"s3://elsewhere, file://{tmp_path}/col, file://{tmp_path}/cold")
    assert refused_by(world) == "archive_location"  # the place itself is for many
    world.allow(f"s3://elsewhere, file://{tmp_path}")
    world.archive()
    archive = world.table("t_archive")
    live = live_files(archive, archive.head("main").snapshot_id)
    assert len(live.data) == 3
    assert all(one.path.startswith(f"file://{tmp_path}/cold/data/") for one in live.data)
    assert world.kept() == [30, 40, 400]


def test_what_only_a_person_can_tell_is_refused(world: World) -> None:
    before = world.table().head("main").snapshot_id
    world.archive()
    with world.lake.load_table(f"{world.namespace}.t").manage_snapshots() as change:
        change.rollback_to_snapshot(before)
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    assert refused.value.reason == "archive_undone"
    world.lake.drop_table(f"{world.namespace}.t_archive")
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    assert refused.value.reason == "archive_gone"
    assert world.days() == ALL


def test_a_tagged_round_behind_expired_snapshots_was_not_undone(world: World) -> None:
    world.archive()
    table = world.lake.load_table(f"{world.namespace}.t")
    removed = table.current_snapshot()
    assert removed is not None
    with table.manage_snapshots() as change:
        change.create_tag(removed.snapshot_id, "kept")
    for ago in (2, 3):
        world.insert(ago)
    table.refresh()
    between = table.snapshots()[-2].snapshot_id
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [between]})
    world.tables.commit_changes(world.table().identity, (update,))
    world.insert(50)
    assert world.archive().numbers["files_archived"] == 1
    assert (world.days(), world.kept()) == ([1, 2, 3], [30, 40, 50, 400])


def test_a_partition_that_was_written_in_the_archive_gets_no_more(world: World) -> None:
    world.archive()
    row = pa.Table.from_pylist([{"d": 39, "at": TODAY - timedelta(days=40)}], schema=ARROW)
    world.lake.load_table(f"{world.namespace}.t_archive").append(row)
    world.insert(45, ago=40)
    world.insert(405, ago=400)
    assert world.archive().numbers["files_held_back"] == 1
    assert (world.days(), world.kept()) == ([1, 45], [30, 39, 40, 400, 405])


def test_an_announcement_takes_nothing_and_without_one_nothing_goes(world: World) -> None:
    head = world.table().head("main")
    told = world.archiver.archive(world.order(AgeReason.ARCHIVE_ANNOUNCED, announces=1.0))
    assert (told.numbers["going_files"], told.numbers["going_rows"]) == (3, 3)
    with pytest.raises(TaskRefused) as refused:
        world.archiver.archive(world.order(AgeReason.ARCHIVE_DUE, announced_ms=now_ms()))
    assert refused.value.reason == "archive_grace_period"
    world.set(**{"firnline.archive.after-hours": "0"})
    with pytest.raises(TaskRefused) as refused:
        world.archive()
    assert refused.value.reason == "no_archive_age"
    assert world.table().head("main") == head
