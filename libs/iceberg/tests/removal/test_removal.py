"""No file goes that is reachable, external or not ours, whatever a list or an owner says; and
what a killed run left does go.

The oracle knows what every file of a small world is, because it made it; it shares nothing with the
code under test but the names of Firnline's files.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_iceberg.outputs.write_ahead_list import ListPlace, OutputList
from firnline_iceberg.removal.removal import NotRemovable, OutputRemoval, StoredList
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.iceberg.tests.removal_world import (
    KILLED,
    NOW_MS,
    OLD_S,
    OLDER,
    TASKS,
    WORKED,
    YOUNG_S,
    CatalogView,
    World,
    honest,
    mangled,
    put,
)

HONEST: dict[str, Any] = {
    "task": KILLED, "name_of": KILLED, "named_by": "mine", "attempt": 1, "uuid": "mine",
    "written": 1, "deadline": 0, "stored_s": OLD_S, "files": [], "honest_too": True,
    "where": "mine", "data_path": None, "metadata_path": None, "location": None, "gc": None,
    "snapshots": "none", "extra": {}, "cut": None, "start": b"",
}  # fmt: skip
FILES = st.one_of(  # the world's by number, for their names differ from run to run
    st.lists(st.tuples(st.integers(0, 99), st.just(0)), min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 22)), min_size=1, max_size=4),
)
FORGED: dict[str, st.SearchStrategy[Any]] = {
    "task": st.sampled_from([*TASKS, "", "../" * 9, "x" * 99, "é"]),
    "name_of": st.sampled_from([*TASKS, None]),
    "named_by": st.sampled_from(["mine", "other", "junk"]),
    "attempt": st.sampled_from([0, 2, 10**8, -1, 1.5, "1", None]),
    "uuid": st.sampled_from(["other", ""]),
    "written": st.sampled_from([0, NOW_MS, NOW_MS * 9, -5, "x"]),
    "deadline": st.sampled_from([NOW_MS + 1, 10**17, None]),
    "stored_s": st.just(YOUNG_S),
    "honest_too": st.just(False),
    "where": st.just("other"),
    "data_path": st.sampled_from(["other", "root", "mine"]),
    "metadata_path": st.just("other"),
    "location": st.sampled_from(["other", "root"]),
    "gc": st.sampled_from(["false", "no", "TRUE"]),
    "snapshots": st.sampled_from(["all", "refs"]),
    "extra": st.just({"start_sequence_number": 10**15}),
    "cut": st.sampled_from([5, 60]),
    "start": st.sampled_from([b"\xff", b"\xef\xbb\xbf", b"[" * 9]),
}


def test_what_a_killed_run_left_goes_and_the_rest_stays(world: World) -> None:
    metadata = world.mine.root / "metadata"
    killed = put(metadata, world.mine.run(KILLED).list_name, honest(world))
    worked = put(metadata, world.mine.run(WORKED).list_name, honest(world, WORKED))
    older = put(metadata, world.mine.run(OLDER).list_name, honest(world, OLDER))
    swept = CatalogView(world).sweep()
    assert world.gone() == set(world.mine.leftovers)
    assert len(swept.removed) == 5
    assert swept.reachable == 3
    assert not any(path.exists() for path in (killed, worked, older))


@pytest.mark.parametrize("snapshots", ["refs", "none"])
def test_a_catalog_that_leaves_snapshots_out_is_not_believed(world: World, snapshots: str) -> None:
    metadata = world.mine.root / "metadata"
    put(metadata, world.mine.run(OLDER).list_name, honest(world, OLDER))
    put(metadata, world.mine.run(WORKED).list_name, honest(world, WORKED))
    swept = CatalogView(world, snapshots).sweep()
    assert (swept.reachable, world.gone()) == (3, set())


def test_a_neighbours_files_are_not_named_by_ones_own_task(world: World) -> None:
    """The owner has set `write.data.path` to the neighbour's, whose task has the same id."""
    theirs = [f"file://{path}" for path in world.other.leftovers[:3]]
    body = {**honest(world), "outputs": theirs}
    put(world.mine.root / "metadata", world.mine.run(KILLED).list_name, body)
    catalog = CatalogView(world, properties={"write.data.path": f"file://{world.other.root}/data"})
    assert catalog.sweep().skipped_by_reason == {"shared_location": 1}
    catalog.known = ()  # the neighbour is in a catalog that nobody knows
    assert catalog.sweep().skipped_by_reason == {"invalid_outputs": 1}
    assert world.gone() == set()


@pytest.mark.parametrize(
    "by", ["tbl-backup", "ns/tbl/data/link", "ns/tbl/data/../../../tbl-backup"]
)
def test_a_copy_outside_of_the_table_stays(world: World, by: str) -> None:
    names = [path.name for path in world.mine.leftovers[:3]]
    body = {**honest(world), "outputs": [f"file://{world.folder}/{by}/{name}" for name in names]}
    put(world.mine.root / "metadata", world.mine.run(KILLED).list_name, body)
    assert CatalogView(world).sweep().skipped_by_reason == {"invalid_outputs": 1}
    assert world.gone() == set()


@st.composite
def forgeries(draw: st.DrawFn) -> dict[str, Any]:
    """An honest list of a killed run but for a few fields, mostly for the files that it names."""
    fields = draw(st.lists(st.sampled_from(sorted(FORGED)), max_size=3, unique=True))
    choice = {**HONEST, **{one: draw(FORGED[one]) for one in fields}}
    if draw(st.integers(0, 3)):
        choice |= {"files": draw(FILES), "honest_too": draw(st.booleans())}
    return choice


@given(choice=forgeries())
@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_forged_list_removes_what_is_reachable_external_or_not_ours(
    world: World, choice: dict[str, Any]
) -> None:
    world.restore()
    placed, catalog = forged(world, choice)
    with suppress(RetryLater, TaskRefused):
        catalog.sweep()
    gone = world.gone()
    assert gone <= set(world.mine.leftovers)
    if choice == HONEST:
        assert gone == set(world.mine.leftovers)
    if gone:
        assert choice["gc"] in (None, "TRUE")
        assert (choice["stored_s"], choice["written"] == NOW_MS) == (OLD_S, False)
        assert {choice["task"], choice["uuid"]} == {KILLED, "mine"}
        assert not placed.exists()


def forged(world: World, choice: dict[str, Any]) -> tuple[Path, CatalogView]:
    paths = sorted(world.content)
    owners = {"mine": world.mine, "other": world.other}
    files = [mangled(f"file://{paths[n % len(paths)]}", how) for n, how in choice["files"]]
    if choice["honest_too"]:
        files += honest(world)["outputs"]
    body = {
        "task_id": choice["task"],
        "attempt": choice["attempt"],
        "table_key": owners[choice["uuid"]].uuid if choice["uuid"] else "",
        "worker": "w",
        "written_at_ms": choice["written"],
        "outputs": files,
        "deadline_ms": choice["deadline"],
        **choice["extra"],
    }
    namer = owners.get(choice["named_by"])
    name = "firnline-junk.json"
    if namer is not None:
        name = namer.run(choice["name_of"] or KILLED).list_name
    content = choice["start"] + json.dumps(body).encode()[: choice["cut"]]
    places = {"other": f"file://{world.other.root}", "root": "file:///", None: None}
    places["mine"] = f"file://{world.mine.root}"
    properties = {
        "write.data.path": places[choice["data_path"]],
        "write.metadata.path": places[choice["metadata_path"]],
        "gc.enabled": choice["gc"],
    }
    given_ = {key: value for key, value in properties.items() if value is not None}
    folder = owners[choice["where"]].root / "metadata"
    placed = put(folder, name, content, choice["stored_s"])
    return placed, CatalogView(world, choice["snapshots"], given_, places[choice["location"]])


def test_the_forger_is_not_merely_clumsy(world: World) -> None:
    """One of its lists is an honest one, and does remove: else the property would say nothing."""
    _, catalog = forged(world, HONEST)
    catalog.sweep()
    assert world.gone() == set(world.mine.leftovers)


def test_files_that_another_table_may_share_never_go(world: World) -> None:
    table = CatalogView(world, properties={"gc.enabled": "no"}).load(world.name)
    run, body = world.mine.run(KILLED), honest(world)
    listed = OutputList(**{**body, "outputs": tuple(body["outputs"])})
    found = StoredList(
        ListPlace(f"file://{world.mine.root}/metadata/{run.list_name}", 0), listed, run
    )
    decided = OutputRemoval.read_reachable(table, [found])
    for path in listed.outputs:
        with pytest.raises(NotRemovable, match="shared"):
            decided.remove_output(found, path)
    assert world.gone() == set()
