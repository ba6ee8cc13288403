"""No file goes that is reachable, foreign or not ours, whatever a list or a table's owner says; and
what a killed run left does go.

The oracle knows what every file of a small world is, because it made it; it shares nothing with the
code under test but the names of Firnline's files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg import removal
from firnline_iceberg.in_memory import MemoryTables
from firnline_iceberg.naming import Run
from firnline_iceberg.output_lists import OutputList, Place
from firnline_iceberg.removal import Found, NotRemovable, Removal
from firnline_iceberg.single_send import WrittenMetadata
from firnline_iceberg.sweeping import Sweeper, Swept
from firnline_iceberg.tables import LoadedTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from .conftest import StoredCatalog

AGE_MS, NOW_MS = 1_000, 1_900_000_000_000
OLD_S, YOUNG_S = 1_000_000, NOW_MS / 1000
SCHEMA = Schema(NestedField(1, "id", LongType()))
TASKS = ("a" * 32, "b" * 32, "c" * 32)
WORKED, KILLED, OLDER = TASKS


@dataclass
class Owned:
    """A table with live files of a task, files of another that only history has, and leftovers."""

    table: Table
    uuid: str = field(init=False)
    root: Path = field(init=False)
    live: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uuid = str(self.table.metadata.table_uuid)
        self.root = Path(self.table.metadata.location.removeprefix("file://"))

    def run(self, task: str, attempt: int = 1) -> Run:
        return Run(self.uuid, task, attempt, "cafe0000")

    def write(self, name: str) -> Path:
        path = self.root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [1, 2]}), path)
        return path

    def fill(self) -> None:
        # of one killed run, first what another committer has committed since: two of its outputs
        old = self.write(self.run(OLDER).output_name(0, 0))
        self.table.add_files([f"file://{old}"])
        self.table.delete("id < 9")  # only history has it now
        mine = [self.write(self.run(WORKED).output_name(0, number)) for number in range(2)]
        self.table.add_files([f"file://{path}" for path in mine])
        self.table.append(pa.table({"id": [5]}))
        self.live = [old, *mine]
        killed = self.run(KILLED)
        row_map = self.root / "metadata" / killed.row_map_name
        row_map.write_bytes(b"x")
        outputs = [self.write(killed.output_name(0, number)) for number in range(2)]
        deletes = self.write(killed.delete_name(0, False))
        self.leftovers = [*outputs, deletes, row_map]


class World:
    """Two tables of one catalog, side by side, and somebody else's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = StoredCatalog(f"file://{folder}")
        self.tables = MemoryTables(self.catalog)
        self.mine = Owned(self.catalog.make("ns.tbl", SCHEMA))
        self.other = Owned(self.catalog.make("ns.tbl2", SCHEMA))
        for one in (self.mine, self.other):
            one.fill()
        self.secret = folder / "secret.parquet"
        self.secret.write_text("x")
        # somebody's copy of the table's files, under the names that they have
        self.copies = folder / "tbl-backup"
        self.copies.mkdir()
        (self.mine.root / "data" / "link").symlink_to(self.copies)
        for path in self.mine.leftovers:
            (self.copies / path.name).write_bytes(path.read_bytes())
        self.content = {path: path.read_bytes() for path in self.files()}

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.is_file()}

    def restore(self) -> None:
        for path in self.files() - self.content.keys():
            path.unlink()
        for path, content in self.content.items():
            if not path.exists() or path.suffix == ".json":
                path.write_bytes(content)

    @property
    def name(self) -> TableName:
        return TableName(self.mine.uuid, ("ns",), "tbl")

    def load(self) -> LoadedTable:
        return self.tables.load(self.name)

    def gone(self) -> set[Path]:
        return {path for path in self.content if not path.exists()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(made: World) -> Iterator[World]:
    made.restore()
    yield made
    made.restore()


@dataclass
class Told:
    """Tables as a catalog tells of them: whole, or less the snapshots that no ref points at, or
    less all; and with what the table's owner has set."""

    world: World
    snapshots: str = "all"
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None

    def load(self, _: TableName) -> LoadedTable:
        table = self.world.load()
        head = table.head_id("main")
        kept = {
            "all": table.snapshots,
            "refs": [one for one in table.snapshots if one.snapshot_id == head],
            "none": [],
        }[self.snapshots]
        metadata = table.metadata.model_copy(
            update={
                "snapshots": list(kept),
                "properties": self.properties,
                "location": self.location or table.metadata.location,
            }
        )
        return replace(table, metadata=metadata)

    def sweep(self) -> Swept:
        sweeper = Sweeper(self, lambda: NOW_MS, AGE_MS, lambda _: NOW_MS)
        return sweeper.sweep(self.world.name)


def honest(world: World, task: str = KILLED) -> dict[str, Any]:
    """What a killed worker's list says: everything that it may have written."""
    run, data = world.mine.run(task), f"file://{world.mine.root}/data"
    names = [run.output_name(0, number) for number in range(3)] + [run.delete_name(0, False)]
    row_map = f"file://{world.mine.root}/metadata/{run.row_map_name}"
    return {
        "task_id": task, "attempt": 1, "table_uuid": world.mine.uuid, "worker": "w",
        "written_at_ms": OLD_S, "outputs": [*(f"{data}/{name}" for name in names), row_map],
        "deadline_ms": 0,
    }  # fmt: skip


def put(folder: Path, name: str, body: Any, at_s: float = OLD_S) -> Path:
    path = folder / name
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    os.utime(path, (at_s, at_s))
    return path


def test_what_a_killed_run_left_goes_and_the_rest_stays(world: World) -> None:
    metadata = world.mine.root / "metadata"
    killed = put(metadata, world.mine.run(KILLED).list_name, honest(world))
    worked = put(metadata, world.mine.run(WORKED).list_name, honest(world, WORKED))
    older = put(metadata, world.mine.run(OLDER).list_name, honest(world, OLDER))
    swept = Told(world).sweep()
    assert world.gone() == set(world.mine.leftovers)
    assert len(swept.removed) == 4
    assert swept.reachable == 3
    assert not any(path.exists() for path in (killed, worked, older))


@pytest.mark.parametrize("snapshots", ["refs", "none"])
def test_a_catalog_that_leaves_snapshots_out_is_not_believed(world: World, snapshots: str) -> None:
    metadata = world.mine.root / "metadata"
    put(metadata, world.mine.run(OLDER).list_name, honest(world, OLDER))
    put(metadata, world.mine.run(WORKED).list_name, honest(world, WORKED))
    swept = Told(world, snapshots).sweep()
    assert (swept.reachable, world.gone()) == (3, set())


def test_a_neighbours_files_are_not_named_by_ones_own_task(world: World) -> None:
    """The owner has set `write.data.path` to the neighbour's, whose task has the same id."""
    theirs = [f"file://{path}" for path in world.other.leftovers[:3]]
    body = {**honest(world), "outputs": theirs}
    put(world.mine.root / "metadata", world.mine.run(KILLED).list_name, body)
    told = Told(world, properties={"write.data.path": f"file://{world.other.root}/data"})
    assert told.sweep().reasons == {"foreign": 1}
    assert world.gone() == set()


def mangled(path: str, how: int) -> str:
    head, name = path.rsplit("/", 1)
    plain = path.removeprefix("file://")
    return [
        path, path, path, plain, f"file:{plain}", f"FILE://{plain}", f"file://localhost{plain}",
        f"{head}//{name}", f"{head}/./{name}", f"{head}/x/../{name}", f"{head}/%2e%2e/{name}",
        f"s3:/{plain}", f"s3a://bucket{plain}", f"{path}?x", f"{path}#x", f"{path};x", f"{path}/",
        name, "", f" {path}", f"{path}\n", path.upper(), head,
    ][how]  # fmt: skip


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


@pytest.mark.parametrize(
    "by", ["tbl-backup", "ns/tbl/data/link", "ns/tbl/data/../../../tbl-backup"]
)
def test_a_copy_outside_of_the_table_stays(world: World, by: str) -> None:
    names = [path.name for path in world.mine.leftovers[:3]]
    body = {**honest(world), "outputs": [f"file://{world.folder}/{by}/{name}" for name in names]}
    put(world.mine.root / "metadata", world.mine.run(KILLED).list_name, body)
    assert Told(world).sweep().reasons == {"foreign": 1}
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
def test_no_forged_list_removes_what_is_reachable_foreign_or_not_ours(
    world: World, choice: dict[str, Any]
) -> None:
    world.restore()
    placed, told = forged(world, choice)
    with suppress(RetryLater, TaskRefused):
        told.sweep()
    gone = world.gone()
    assert gone <= set(world.mine.leftovers)
    if choice == HONEST:
        assert gone == set(world.mine.leftovers)
    if gone:
        assert choice["gc"] in (None, "TRUE")
        assert (choice["stored_s"], choice["written"] == NOW_MS) == (OLD_S, False)
        assert {choice["task"], choice["uuid"]} == {KILLED, "mine"}
        assert not placed.exists()


def forged(world: World, choice: dict[str, Any]) -> tuple[Path, Told]:
    paths = sorted(world.content)
    owners = {"mine": world.mine, "other": world.other}
    files = [mangled(f"file://{paths[n % len(paths)]}", how) for n, how in choice["files"]]
    if choice["honest_too"]:
        files += honest(world)["outputs"]
    body = {
        "task_id": choice["task"],
        "attempt": choice["attempt"],
        "table_uuid": owners[choice["uuid"]].uuid if choice["uuid"] else "",
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
    return placed, Told(world, choice["snapshots"], given_, places[choice["location"]])


def test_the_forger_is_not_merely_clumsy(world: World) -> None:
    """One of its lists is an honest one, and does remove: else the property would say nothing."""
    _, told = forged(world, HONEST)
    told.sweep()
    assert world.gone() == set(world.mine.leftovers)


def test_files_that_another_table_may_share_never_go(world: World) -> None:
    table = Told(world, properties={"gc.enabled": "no"}).load(world.name)
    run, body = world.mine.run(KILLED), honest(world)
    listed = OutputList(**{**body, "outputs": tuple(body["outputs"])})
    found = Found(Place(f"file://{world.mine.root}/metadata/{run.list_name}", 0), listed, run)
    decided = Removal.of(table, [found])
    for path in listed.outputs:
        with pytest.raises(NotRemovable, match="shared"):
            decided.remove(found, path)
    assert world.gone() == set()


# ---- those who delete at once


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_after_a_commit_only_the_runs_own_list_and_row_map_go(
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
    allowed = {metadata / run.row_map_name} if task == KILLED else set()
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
    theirs = [one.path for snapshot in table.snapshots for one in table.manifests(snapshot)]
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
    return WrittenMetadata(sequence_number, frozenset({OURS}), (f"file://{written}", *lists))


@pytest.mark.parametrize("snapshots", ["all", "none"])
def test_of_a_refused_commit_goes_what_nothing_has(world: World, snapshots: str) -> None:
    refused = attempt(world, 0)
    table = Told(world, snapshots).load(world.name)
    assert removal.remove_refused(table, [refused]) == 2  # its manifest and its list
    assert world.gone() == set()
    assert not (world.mine.root / "metadata" / "uuid-m0.avro").exists()


def test_a_refused_commit_that_a_copy_may_still_bring_stays(world: World) -> None:
    """Its sequence number is not given out yet: after a rollback it would be applied."""
    table = world.load()
    refused = attempt(world, table.last_sequence_number)
    assert removal.remove_refused(table, [refused]) == 0
    assert (world.mine.root / "metadata" / "uuid-m0.avro").exists()
