"""Of a table whose files others may have (`gc.enabled=false`), what may go all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.sweep import Swept

from libs.iceberg.tests.removal_world import KILLED, CatalogView, World, honest, put

SHARED = {"gc.enabled": "false"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def listed(world: World, **more: Any) -> Path:
    name = world.mine.run(KILLED).list_name
    return put(world.mine.root / "metadata", name, {**honest(world), **more})


def note(world: World) -> Path:
    return put(world.mine.root / "metadata", world.mine.run(KILLED).sent_name, b"")


def swept(world: World, **properties: str) -> Swept:
    return CatalogView(world, "refs", {**SHARED, **properties}).sweep()


def test_what_was_never_sent_is_removed_and_nothing_else(world: World) -> None:
    path = listed(world, sends_noted=True)
    assert swept(world).skipped_by_reason == {}
    assert world.gone() == set(world.mine.leftovers)
    assert not path.exists()


@pytest.mark.parametrize("with_note", [False, True])
def test_a_list_that_does_not_promise_a_note_stays(world: World, with_note: bool) -> None:
    listed(world)
    if with_note:
        note(world)
    assert swept(world).skipped_by_reason == {"gc_disabled": 1}
    assert world.gone() == set()


def test_what_was_sent_stays(world: World) -> None:
    listed(world, sends_noted=True)
    note(world)
    assert swept(world).skipped_by_reason == {"sent": 1}
    assert world.gone() == set()


def test_a_copy_of_another_table_is_left_alone_all_the_same(world: World) -> None:
    """Spark's `snapshot` makes one."""
    listed(world, sends_noted=True)
    assert swept(world, snapshot="true").skipped_by_reason == {"external_files": 1}
    assert world.gone() == set()


def test_a_list_that_names_what_is_not_its_own_stays(world: World) -> None:
    body = honest(world)
    outputs = [*body["outputs"], f"file://{world.secret}"]
    listed(world, sends_noted=True, outputs=outputs)
    assert swept(world).skipped_by_reason == {"invalid_outputs": 1}
    assert world.gone() == set()


def test_a_word_that_is_no_boolean_is_no_list(world: World) -> None:
    listed(world, sends_noted="yes")
    assert swept(world).skipped_by_reason == {"unreadable": 1}


@pytest.mark.parametrize("was_sent", [False, True])
def test_delete_files_of_ones_own_go_at_once_if_no_commit_has_named_them(
    world: World, was_sent: bool
) -> None:
    path = listed(world, sends_noted=True)
    if was_sent:
        note(world)
    table = CatalogView(world, "refs", SHARED).load(world.name)
    files = [f"file://{one}" for one in world.mine.leftovers if "-deletes." in one.name]
    went = removal.remove_uncommitted(table, KILLED, files, f"file://{path}", 0)
    assert went is not was_sent
    assert path.exists() is was_sent
