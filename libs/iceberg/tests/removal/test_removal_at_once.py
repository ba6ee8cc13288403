"""Deletions that no sweep makes: after a commit, a refusal, or a run that told nobody."""

from __future__ import annotations

import fastavro
import pytest
from firnline_iceberg.commit.single_send import WrittenMetadata
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.removal import NotRemovable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.iceberg.tests.removal_world import (
    KILLED,
    TASKS,
    WORKED,
    CatalogView,
    World,
    honest,
    mangled,
    put,
)


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_after_a_commit_only_what_lies_beside_the_runs_list_goes(
    world: World, data: st.DataObject
) -> None:
    world.restore()
    run = world.mine.run(KILLED)
    metadata = world.mine.root / "metadata"
    listed = put(metadata, run.list_name, honest(world))
    paths = [*sorted(world.content), listed]
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(paths), st.integers(0, 22)), max_size=6))
    named = [mangled(f"file://{path}", how) for path, how in chosen]
    task = data.draw(st.sampled_from(TASKS))
    removal.remove_unneeded(world.load(), task, named)
    mine = {metadata / run.row_map_name, metadata / run.marks_name}
    allowed = mine if task == KILLED else set()
    assert world.gone() <= allowed
    assert task == KILLED or listed.exists()


def test_what_a_run_of_ours_wrote_goes_before_anybody_is_told(world: World) -> None:
    run, table = world.mine.run(KILLED), world.load()
    listed = put(world.mine.root / "metadata", run.list_name, honest(world))
    removal.remove_unpublished(table, run, honest(world)["outputs"], f"file://{listed}")
    assert world.gone() == set(world.mine.leftovers)
    assert not listed.exists()


def test_a_run_removes_nothing_at_all_if_one_file_is_not_its_own(world: World) -> None:
    run, table = world.mine.run(KILLED), world.load()
    listed = put(world.mine.root / "metadata", run.list_name, honest(world))
    for wrong in (world.secret, world.other.leftovers[0], world.mine.live[1]):
        paths = [*honest(world)["outputs"], f"file://{wrong}"]
        with pytest.raises(NotRemovable):
            removal.remove_unpublished(table, run, paths, f"file://{listed}")
    assert world.gone() == set()


def test_delete_files_that_have_landed_stay(world: World) -> None:
    """Whatever number the result had: what counts is what this process read of the table."""
    run = world.mine.run(WORKED)
    listed = put(world.mine.root / "metadata", run.list_name, honest(world, WORKED))
    files = [f"file://{path}" for path in world.mine.live[1:]]
    assert not removal.remove_uncommitted(world.load(), WORKED, files, f"file://{listed}", 1)
    assert (world.gone(), listed.exists()) == (set(), False)


OURS = 77  # snapshot of a refused commit


def attempt(world: World, sequence_number: int) -> WrittenMetadata:
    """Of a refused commit: new manifests of its own, and some that the table has taken since."""
    table, metadata = world.load(), world.mine.root / "metadata"
    own = put(metadata, "uuid-m0.avro", b"x")
    theirs = [one.path for snapshot in table.snapshots for one in table.manifests_of(snapshot)]
    lists = [snapshot.manifest_list for snapshot in table.snapshots]
    written = metadata / "uuid-list.avro"
    rows = [
        {"path": path, "length": 1, "spec": 0, "added": OURS}
        for path in (f"file://{own}", f"file://{world.secret}", *theirs)
    ]
    ids = {"path": (500, "string"), "length": (501, "long"), "spec": (502, "int")}
    fields = [
        {"name": name, "type": kind, "field-id": number}
        for name, (number, kind) in {**ids, "added": (503, "long")}.items()
    ]
    with written.open("wb") as sink:
        fastavro.writer(sink, {"type": "record", "name": "manifest_file", "fields": fields}, rows)
    return WrittenMetadata(sequence_number, (OURS,), (f"file://{written}", *lists))


@pytest.mark.parametrize("snapshots", ["all", "none"])
def test_of_a_refused_commit_goes_what_nothing_has(world: World, snapshots: str) -> None:
    refused = attempt(world, 0)
    table = CatalogView(world, snapshots).load(world.name)
    assert removal.remove_refused(table, [refused]) == 2  # its manifest and its list
    assert world.gone() == set()
    assert not (world.mine.root / "metadata" / "uuid-m0.avro").exists()


def test_a_refused_commit_that_a_copy_may_still_bring_stays(world: World) -> None:
    """Its sequence number is not given out yet: after a rollback it would be applied."""
    table = world.load()
    refused = attempt(world, table.last_sequence_number)
    assert removal.remove_refused(table, [refused]) == 0
    assert (world.mine.root / "metadata" / "uuid-m0.avro").exists()
