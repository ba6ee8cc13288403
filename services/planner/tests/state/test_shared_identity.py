"""Two tables of one uuid: what one of them does changes nothing of the other."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, TableScanned
from firnline_domain.records.orders import ResyncTable, RewriteFiles
from firnline_planner.state.bucket_state import BucketState

from tests.kit.names import TABLE
from tests.kit.planner_world import A, PlannerWorld, part

IMPOSTOR = TableName(TABLE.uuid, ("dev",), "copy")


@pytest.fixture
def world() -> PlannerWorld:
    found = PlannerWorld(now_ms=10 * HOUR_MS)
    found.commit(part(A, 1))
    return found


def theirs(world: PlannerWorld, **more: Any) -> FilesChanged:
    """A commit of the other table onto our head; with settings and files of its own."""
    settings = {"firnline.enabled": "false"}
    change: FilesChanged = world.change(
        world.head + 100, world.head, part(A, 50), table=IMPOSTOR, settings=settings,
        external_files=3, **more,
    )  # fmt: skip
    return change


def refused(world: PlannerWorld, record: object) -> PoisonousRecord:
    with pytest.raises(PoisonousRecord) as why:
        world.take(record)
    world.bucket.discard()
    return why.value


def kept(world: PlannerWorld) -> Any:
    table = BucketState(world.store).table(TABLE.key, MAIN)
    assert table is not None
    return table.counters


def test_a_table_that_has_anothers_uuid_changes_nothing_of_it(world: PlannerWorld) -> None:
    before = kept(world)
    asked = world.take(theirs(world))
    world.tick()
    for _ in range(3):
        why = refused(world, theirs(world))
        assert why.reason == "shared_identity"
        assert "lake:dev.copy" in str(why)
        assert "lake:db.t" in str(why)
    refused(world, theirs(world, ref="other"))
    after = kept(world)
    assert (after.table, after.settings, after.totals) == (TABLE, before.settings, before.totals)
    assert not after.has_external_files
    assert not [one for one in asked if isinstance(one, RewriteFiles)]


def test_it_may_be_dropped_and_the_other_one_is_not_forgotten(world: PlannerWorld) -> None:
    gone = theirs(world, kind=ChangeKind.REMOVED, operation="drop-table")
    world.take(gone)
    assert not kept(world).removed
    assert not world.state().removed
    world.commit(*(part(A, 1) for _ in range(1)))
    assert kept(world).head_snapshot_id == world.head


def test_reads_of_the_other_one_do_not_count(world: PlannerWorld) -> None:
    scanned = TableScanned(IMPOSTOR, world.now_ms - 1_000, world.now_ms, 5_000, 50_000)
    world.take(scanned)
    table = BucketState(world.store).table(TABLE.key, MAIN)
    assert table is not None
    assert table.work.reads is None
    world.take(TableScanned(TABLE, world.now_ms - 1_000, world.now_ms, 5_000, 50_000))
    table = BucketState(world.store).table(TABLE.key, MAIN)
    assert table is not None
    assert table.work.reads is not None


def test_a_rename_moves_the_name(world: PlannerWorld) -> None:
    renamed = theirs(
        world, renamed_from=TABLE.path, snapshot_id=None, partitions=(), event_id="renamed"
    )
    world.take(renamed)
    assert kept(world).table == IMPOSTOR
    world.take(theirs(world))
    assert kept(world).totals.holds.fragments.files == 51


def test_a_rename_of_the_other_one_is_no_rename_of_this_one(world: PlannerWorld) -> None:
    other = ("dev", "before")
    world.take(theirs(world, renamed_from=other))
    refused(world, theirs(world, renamed_from=other))
    assert kept(world).table == TABLE


def asks(world: PlannerWorld) -> list[TableName]:
    return [one.record.table for one in world.sent if isinstance(one.record, ResyncTable)]


def test_a_rename_past_the_gateway_is_found_by_asking_for_the_old_name(
    world: PlannerWorld,
) -> None:
    world.take(theirs(world))
    world.tick()
    assert asks(world)[-1:] == [TABLE]
    world.take(world.change(0, None, kind=ChangeKind.REMOVED, snapshot_id=None))
    world.take(theirs(world))
    world.tick()
    assert kept(world).table == IMPOSTOR


def test_the_old_name_is_asked_for_once_an_hour(world: PlannerWorld) -> None:
    """Each answer is a read of the whole table, which the other one's writer shall not cause."""
    world.take(theirs(world))
    world.tick()
    world.take(world.change(world.head, None, part(A, 1), kind=ChangeKind.ABSOLUTE))
    count = len(asks(world))
    assert count == 1
    for _ in range(20):
        refused(world, theirs(world))
        world.tick()
    assert len(asks(world)) == count
    world.now_ms += HOUR_MS
    world.take(theirs(world))
    world.tick()
    assert len(asks(world)) == count + 1
