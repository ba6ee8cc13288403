"""A neighbour's files stay where they are, whatever is below the table's location."""

from __future__ import annotations

import os
from pathlib import Path
from unicodedata import normalize

import fastavro
import pyarrow as pa
import pytest
from firnline_domain.errors import TaskRefused
from firnline_iceberg.removal.orphan_quarantine import move_in, release_files
from firnline_iceberg.removal.orphans import find_orphans
from firnline_iceberg.removal.removal import QUARANTINE
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.retained_names import RetainedNames
from pyarrow import parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from libs.iceberg.tests.removal.test_orphans import LIMIT_MS, OLD_S, RUN, Site, left

THEIRS = Schema(NestedField(1, "amount", LongType()))


class Street(Site):
    """A table, and a neighbour whose files are old, live, and named as writers name them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.neighbour = self.catalog.make("db.victim", THEIRS)
        self.neighbour.append(pa.table({"amount": pa.array([1], pa.int64())}))
        self.victim = Path(self.neighbour.metadata.location.removeprefix("file://"))
        self.age()

    def age(self) -> None:
        for path in self.victim.parent.rglob("*"):
            os.utime(path, (OLD_S, OLD_S), follow_symlinks=False)

    def theirs(self) -> dict[Path, bytes]:
        """Their live data file, wherever it is."""
        return {one: one.read_bytes() for one in self.victim.rglob("*.parquet")}

    def clear_up(self) -> dict[str, str]:
        """Twice, with all that has been in the quarantine deleted in between."""
        kept: dict[str, str] = {}
        for at_ms in (5_000, 6_000):
            table = self.table()
            names, storage = RetainedNames(table), Storage(table)
            found = find_orphans(table, names, storage, LIMIT_MS, forced=True)
            move_in(storage, found.files, at_ms)
            release_files(table, names, storage, before_ms=9_000)
            kept |= found.kept
        return kept


@pytest.fixture
def street(tmp_path: Path) -> Street:
    return Street(tmp_path)


@pytest.mark.parametrize(
    "place",
    ["data/more", "data/p=x/more", "data/p=z", "more", "metadata/more", f"{QUARANTINE}/123"],
)
def test_a_link_to_a_neighbours_folder_is_not_followed(street: Street, place: str) -> None:
    theirs = street.theirs()
    link = street.root / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(street.victim / "data")
    street.put(f"data/{left()}")
    kept = street.clear_up()
    assert street.theirs() == theirs
    assert link.is_symlink()
    assert f"data/{left()}" not in street.stored()
    if QUARANTINE not in place:
        assert "a link" in kept[place]


def test_a_quarantine_that_is_a_link_ends_it(street: Street) -> None:
    theirs = street.theirs()
    (street.root / QUARANTINE).symlink_to(street.victim / "data")
    street.put(f"data/{left()}")
    with pytest.raises(TaskRefused, match=QUARANTINE) as refused:
        street.clear_up()
    assert refused.value.reason == "link_in_location"
    assert street.theirs() == theirs
    assert f"data/{left()}" in street.stored()


def test_what_somebody_else_has_put_into_the_quarantine_stays(street: Street) -> None:
    street.put(f"{QUARANTINE}/123/victim/data/{left()}")
    street.put(f"{QUARANTINE}/123/data/report.csv")
    street.put(f"{QUARANTINE}/123/data/{left()}")
    table = street.table()
    gone = release_files(table, RetainedNames(table), Storage(table), before_ms=9_000)
    assert gone.deleted == 1
    assert len(gone.left) == 2
    assert f"{QUARANTINE}/123/victim/data/{left()}" in street.stored()


def test_a_link_to_a_neighbours_file_stays(street: Street) -> None:
    theirs = street.theirs()
    link = street.root / "data" / left()
    link.symlink_to(next(iter(theirs)))
    assert "a link" in street.clear_up()[f"data/{left()}"]
    assert street.theirs() == theirs
    assert link.is_symlink()


def data_of(path: Path, field_id: int | None, name: str, to_end: bool = True) -> None:
    about = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    field = pa.field(name, pa.int64(), metadata=about)
    pq.write_table(pa.table([[1]], schema=pa.schema([field])), path)
    if not to_end:
        path.write_bytes(path.read_bytes()[:-9])
    os.utime(path, (OLD_S, OLD_S))


@pytest.mark.parametrize(
    ("field_id", "name", "to_end", "is_ours"),
    [
        (1, "id", True, True),
        (2, "p", True, True),
        (1, "id", False, True),  # nobody can read half a file
        (1, "amount", False, True),
        (1, "amount", True, False),
        (3, "id", True, False),
        (None, "id", True, False),
    ],
)
def test_a_data_file_has_columns_of_the_table_or_is_no_orphan(
    site: Site, field_id: int | None, name: str, to_end: bool, is_ours: bool
) -> None:
    """A neighbour may write into the table's own folder, and keep his metadata elsewhere."""
    data_of(site.put(f"data/{left()}"), field_id, name, to_end)
    assert site.orphans() == ([f"data/{left()}"] if is_ours else [])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    "folder", ["victim/data", "data/victim", "data/victim/data", "data/q=1", ""]
)
def test_a_file_where_the_tables_writers_put_none_stays(site: Site, folder: str) -> None:
    data_of(site.put(f"{folder}/{left()}".lstrip("/")), 1, "id")
    assert site.orphans() == []


@pytest.mark.parametrize(
    "name",
    [
        "left.parquet", "part-00000-3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab-c000.snappy.parquet",
        f"{RUN}.parquet", "a1-0_0-1-0_20240101.parquet", f"00000-0-{RUN}-00001.parquet.crc",
        f"00000-0-{RUN}-00001.csv", "data-7c1d-0.parquet", f"x00000-0-{RUN}-00001.parquet",
    ],
)  # fmt: skip
def test_a_name_that_no_writer_of_iceberg_gives_stays(site: Site, name: str) -> None:
    data_of(site.put(f"data/{name}"), 1, "id")
    assert site.orphans() == []


@pytest.mark.parametrize(
    "name",
    [
        f"00000-0-{RUN}.parquet",  # PyIceberg
        f"00003-17-{RUN}-00001.parquet",  # Spark
        f"00003-17-{RUN}-5-00001.parquet",  # Spark's streams
        f"00003-17-{RUN}-00001-deletes.parquet",
        "00000-0-0123456789abcdef0123456789abcdef-00042.parquet",  # Flink
        f"00001-1700000000000-{RUN}-00001.parquet",  # Kafka Connect
        f"20240101_123456_00007_abcde-{RUN}.parquet",  # Trino
        f"01100101-00003-17-{RUN}-00001.parquet",  # on object storage
    ],
)
def test_what_a_writer_left_that_crashed_is_found(site: Site, name: str) -> None:
    data_of(site.put(f"data/{name}"), 1, "id")
    data_of(site.put(f"data/0110/1001/0101/11110000/{name}"), 1, "id")
    assert len(site.orphans()) == 2


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        ("data/_delta_log/00000000000000000000.json", "Delta"),
        ("../_delta_log/00000000000000000000.json", "Delta"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("data/p=x/.hoodie/hoodie.properties", "Hudi"),
        ("../../.hoodie/hoodie.properties", "Hudi"),
        ("snapshot/LATEST", "Paimon"),
        ("schema/schema-0", "Paimon"),
        ("x.lance/_versions/1.manifest", "Lance"),
        ("../metadata/00007-x.metadata.json", "Iceberg"),
        ("deep/below/metadata/v3.metadata.json", "Iceberg"),
        ("deep/v3.metadata.json.gz", "Iceberg"),
    ],
)
def test_a_table_of_another_kind_in_the_same_folder_ends_it(
    site: Site, place: str, what: str
) -> None:
    site.put(place)
    site.put(f"data/{left()}")
    with pytest.raises(TaskRefused, match=what) as refused:
        site.orphans()
    assert refused.value.reason == "shared_location"
    assert Path(place).name in str(refused.value)


def test_a_neighbours_metadata_file_beside_the_tables_ends_it(street: Street) -> None:
    written = street.catalog.load_table(("db", "victim")).metadata_location
    other = Path(written.removeprefix("file://"))
    name = f"00009-{RUN}.metadata.json"
    street.put(f"metadata/{name}").write_bytes(other.read_bytes())
    os.utime(street.root / "metadata" / name, (OLD_S, OLD_S))
    with pytest.raises(TaskRefused, match=name) as refused:
        street.orphans()
    assert refused.value.reason == "shared_location"


def manifest_of(path: Path, *fields: tuple[int, str]) -> None:
    said = {"fields": [{"id": number, "name": name} for number, name in fields]}
    schema = {"type": "record", "name": "e", "fields": [{"name": "x", "type": "int"}]}
    with path.open("wb") as sink:
        fastavro.writer(
            sink,
            schema,
            [{"x": 1}],
            metadata={"schema": pa.scalar(str(said)).as_py().replace("'", '"')},
        )
    os.utime(path, (OLD_S, OLD_S))


@pytest.mark.parametrize(("name", "is_ours"), [("id", True), ("amount", False)])
def test_a_manifest_has_the_tables_columns_or_is_no_orphan(
    site: Site, name: str, is_ours: bool
) -> None:
    place = f"metadata/{RUN}-m0.avro"
    manifest_of(site.put(place), (1, name))
    assert site.orphans() == ([place] if is_ours else [])


def test_a_name_in_another_normal_form_is_the_same_file(site: Site) -> None:
    """Some file systems keep names in a form of their own."""
    name = f"00000-0-{RUN}-00001.parquet"
    path = f"{site.made.metadata.location}/data/é-{name}"
    data_of(site.put(f"data/é-{name}"), 1, "id")
    site.made.add_files([path])
    names = RetainedNames(site.table())
    assert names.has_name(normalize("NFD", f"é-{name}"))
    assert names.has_name(f"é-{name}")
