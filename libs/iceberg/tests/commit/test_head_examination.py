"""What a commit decides on a part of the head, it would decide on all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import fastavro
import pytest
from firnline_domain.commits.commit_plan import plan_commit
from firnline_domain.commits.conflicts import judge_result
from firnline_domain.commits.pinned_head import Head, Rest
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
    TableForm,
)
from firnline_iceberg.commit import head_examination
from firnline_iceberg.commit.head_examination import FileSelection, entries_named, examine_files
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, FileEntry
from firnline_iceberg.metadata.manifest_digest import Digest, hashes_of, read_digest
from firnline_iceberg.metadata.manifest_pruning import may_hold
from firnline_iceberg.metadata.manifest_reader import FieldSummary, ManifestFile, read_manifest
from firnline_iceberg.metadata.partition_text import PartitionText, field_types
from firnline_iceberg.table.loaded_table import LoadedTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DateType, LongType, NestedField, StringType


def avro(key: int, name: str, kind: Any, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind] if optional else kind, "field-id": key}


DATA_FILE = [
    avro(134, "content", "int"),
    avro(100, "file_path", "string"),
    avro(101, "file_format", "string"),
    avro(103, "record_count", "long"),
    avro(104, "file_size_in_bytes", "long"),
    avro(135, "equality_ids", {"type": "array", "items": "int"}, optional=True),
    avro(143, "referenced_data_file", "string", optional=True),
]
ENTRY = [
    avro(0, "status", "int"),
    avro(1, "snapshot_id", "long", optional=True),
    avro(3, "sequence_number", "long", optional=True),
    avro(4, "file_sequence_number", "long", optional=True),
]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", StringType()))
SPECS = {
    0: PartitionSpec(spec_id=0),
    1: PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=1),
}
WORDS = (None, "a", "b", "c")
PATHS = st.sampled_from([f"file:///w/{n}" for n in range(12)])
LAST = 9
FORM = TableForm(2, 0, 0)


@dataclass(frozen=True)
class File:
    """An entry to be: `content` 0 data, 1 position deletes, 2 equality deletes."""

    content: int
    number: int
    word: str | None
    live: bool = True
    about: str | None = None


@dataclass
class Manifest:
    spec_id: int
    deletes: bool
    files: list[File]


@dataclass
class Table:
    """As `LoadedTable` reads it: real manifests, and no cache."""

    folder: Path
    listed: list[ManifestFile] = field(default_factory=list)
    io: PyArrowFileIO = field(default_factory=PyArrowFileIO)
    made: int = 0

    def snapshot(self, _: int) -> None:
        return None

    def manifests_of(self, _: None) -> list[ManifestFile]:
        return self.listed

    def text(self, manifest: ManifestFile) -> PartitionText:
        return PartitionText(SPECS[manifest.spec_id], [SCHEMA])

    def entries_of(self, manifest: ManifestFile) -> Iterator[FileEntry]:
        return read_manifest(self.io, manifest, self.text(manifest))

    def digest_of(self, manifest: ManifestFile) -> Digest:
        return read_digest(self.io, manifest, self.text(manifest))

    def partition_types(self, spec_id: int) -> Any:
        return field_types(SPECS[spec_id], [SCHEMA])

    def write(self, manifest: Manifest) -> None:
        kind: list[dict[str, Any]] = (
            [avro(1000, "p", "string", optional=True)] if manifest.spec_id else []
        )
        file = {
            "type": "record", "name": "r2",
            "fields": [
                *DATA_FILE,
                avro(102, "partition", {"type": "record", "name": "r102", "fields": kind}),
            ],
        }  # fmt: skip
        rows = []
        for one in manifest.files:
            own = {
                "content": one.content, "file_path": f"file:///w/{self.made}", "record_count": 10,
                "file_format": "PARQUET", "file_size_in_bytes": 1,
                "equality_ids": [1] if one.content == 2 else None,
                "referenced_data_file": one.about if one.content == 1 else None,
                "partition": {"p": one.word} if manifest.spec_id else {},
            }  # fmt: skip
            status = 0 if one.live else 2
            numbers = {"sequence_number": one.number, "file_sequence_number": one.number}
            rows.append({"status": status, "snapshot_id": 1, **numbers, "data_file": own})
            self.made += 1
        top = [*ENTRY, avro(2, "data_file", file)]
        path = self.folder / f"{self.made}-{len(self.listed)}.avro"
        with path.open("wb") as sink:
            fastavro.writer(sink, {"type": "record", "name": "entry", "fields": top}, rows)
        self.listed.append(self._listed(f"file://{path}", manifest))

    def _listed(self, path: str, manifest: Manifest) -> ManifestFile:
        live = [one for one in manifest.files if one.live]
        words = [one.word for one in manifest.files]
        known = sorted(word.encode() for word in words if word is not None)
        bounds = (known[0], known[-1]) if known else (None, None)
        return ManifestFile(
            path=path,
            length=1,
            spec_id=manifest.spec_id,
            added_snapshot_id=1,
            added_files=0,
            existing_files=len(live),
            deleted_files=len(manifest.files) - len(live),
            sequence_number=LAST,
            min_sequence_number=min((one.number for one in live), default=LAST),
            holds_deletes=manifest.deletes,
            partitions=(FieldSummary(None in words, *bounds),) if manifest.spec_id else (),
        )

    @property
    def live(self) -> list[FileEntry]:
        return [one for each in self.listed for one in self.entries_of(each) if one.is_live]

    def of(self, about: FileSelection) -> tuple[Any, Rest]:
        return examine_files(cast(LoadedTable, self), 1, about)

    def head(self, data: Any, deletes: Any, rest: Rest) -> Head:
        return Head(
            snapshot_id=1,
            last_sequence_number=LAST,
            data={one.normal_path: one for one in data},
            deletes=tuple(deletes),
            ancestors=frozenset({1}),
            retained=frozenset({1}),
            reaches_root=True,
            form=FORM,
            schemas={0: {}},
            rest=rest,
        )


@st.composite
def manifests(draw: st.DrawFn, deletes: bool) -> Manifest:
    spec_id = draw(st.integers(0, 1))
    word = st.sampled_from(WORDS) if spec_id else st.none()
    file = st.builds(
        File,
        st.integers(1, 2) if deletes else st.just(0),
        st.integers(1, LAST),
        word,
        st.sampled_from([True, True, True, False]),
        st.none() | PATHS,
    )
    return Manifest(spec_id, deletes, draw(st.lists(file, min_size=1, max_size=4)))


def result_of(draw: st.DrawFn, live: list[FileEntry]) -> RewriteFinished | None:
    scopes = sorted({one.scope for one in live if isinstance(one, DataFileEntry)})
    if not scopes:
        return None
    scope = draw(st.sampled_from(scopes))
    files = [one for one in live if isinstance(one, DataFileEntry) and one.scope == scope]
    chosen = draw(st.lists(st.sampled_from(files), min_size=1, unique=True))
    known = [one for one in live if isinstance(one, DeleteFileEntry)]
    about = FileSelection(frozenset(one.path for one in chosen), frozenset({scope}))
    applied = [one for one in known if about.concerns(one) and draw(st.booleans())]
    rows = 10 * len(chosen)
    place = json.loads(scope.partition)
    text = json.dumps({"spec-id": scope.spec_id, "partition": place})
    out = (OutputFile("file:///w/out", rows, 1, text),) if draw(st.booleans()) else ()
    kept = rows if out else 0
    group = RewriteGroup(
        tuple(InputFile(one.path, one.sequence_number, one.records, one.bytes) for one in chosen),
        out, rows, rows - kept, kept,
    )  # fmt: skip
    return RewriteFinished(
        task_id="t", table=TableName("u", ("n",), "t"), ref="main", scope=scope, attempt=1,
        worker="w", mode=Mode.NATIVE, start_snapshot_id=1,
        start_sequence_number=draw(st.integers(1, LAST)), schema_id=0, groups=(group,),
        applied_deletes=tuple(
            AppliedDelete(one.path, one.kind, one.sequence_number, one.scope) for one in applied
        ),
        output_list=None, ordered_at_ms=1, started_at_ms=1, first_byte_at_ms=1, finished_at_ms=1,
        format_version=2,
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([0, 64]))
def test_it_is_decided_as_on_the_whole_head(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, small: int
) -> None:
    table = Table(tmp_path_factory.mktemp("m"))
    for one in data.draw(st.lists(manifests(False), min_size=1, max_size=4)):
        table.write(one)
    for one in data.draw(st.lists(manifests(True), max_size=3)):
        table.write(one)
    live = table.live
    result = result_of(data.draw, live)
    if result is None:
        return
    paths = frozenset(file.path for group in result.groups for file in group.inputs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(head_examination, "SMALL", small)
        part, rest = table.of(FileSelection(paths, frozenset({result.scope})))
        found = entries_named(cast(LoadedTable, table), table.listed, paths)
        assert {one.path for one in found} == paths
    data_files = [one for one in live if isinstance(one, DataFileEntry)]
    deletes = [one for one in live if isinstance(one, DeleteFileEntry)]
    whole = table.head(data_files, deletes, Rest())
    pruned = table.head(part.data, part.deletes, rest)
    assert len(pruned.data) == len(paths)
    assert judge_result(result, pruned) == judge_result(result, whole)
    assert plan_commit([result], pruned) == plan_commit([result], whole)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.write(Manifest(1, False, [File(0, 5, "a"), File(0, 3, "b")]))
    made.write(Manifest(1, False, [File(0, 4, "c"), File(0, 6, "c")]))
    return made


@pytest.mark.parametrize(("listed", "lowest", "as_listed"), [(2, 2, 5), (9, 5, 9)])
def test_a_manifest_list_that_is_wrong_makes_it_careful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: int, lowest: int, as_listed: int
) -> None:
    """What is spent goes by the lower number, what Iceberg drops by the higher."""
    monkeypatch.setattr(head_examination, "SMALL", 0)
    table = Table(tmp_path)
    table.write(Manifest(0, False, [File(0, 5, None), File(0, 7, None)]))
    table.listed = [replace(table.listed[0], min_sequence_number=listed)]
    _, rest = table.of(FileSelection(frozenset(), frozenset({Scope(0, "[]")})))
    assert (rest.lowest, rest.as_listed) == (lowest, as_listed)
    assert rest.by_scope == {Scope(0, "[]"): 5}


def test_other_partitions_manifests_are_not_opened(table: Table) -> None:
    Path(table.listed[1].path.removeprefix("file://")).unlink()
    part, rest = table.of(FileSelection(frozenset({"file:///w/0"}), frozenset({Scope(1, '["a"]')})))
    assert [one.path for one in part.data] == ["file:///w/0"]
    assert (rest.lowest, rest.as_listed, rest.by_scope) == (3, 3, {})


def test_bounds_of_a_manifest_list_that_leave_out_a_partition_keep_its_deletes(
    table: Table,
) -> None:
    """A delete is spent only where no older file of its partition is left."""
    table.listed[1] = replace(table.listed[1], partitions=(FieldSummary(False, b"a", b"b"),))
    table.write(Manifest(1, False, [File(0, 8, "c")]))
    subject = FileSelection(frozenset({"file:///w/4"}), frozenset({Scope(1, '["c"]')}))
    assert table.of(subject)[1].by_scope == {}
    table.write(Manifest(1, True, [File(2, 7, "c")]))
    assert table.of(subject)[1].by_scope == {Scope(1, '["c"]'): 4}
    Path(table.listed[1].path.removeprefix("file://")).unlink()
    table.listed[1] = replace(table.listed[1], min_sequence_number=8)
    assert table.of(subject)[1].by_scope == {}  # all of it is younger than the delete


def test_a_delete_that_names_a_file_is_found_wherever_it_lies(table: Table) -> None:
    table.write(Manifest(1, True, [File(1, 7, "z", about="file:///w/0")]))
    part, _ = table.of(FileSelection(frozenset({"file:///w/0"}), frozenset({Scope(1, '["a"]')})))
    assert [one.kind for one in part.deletes] == [DeleteKind.POSITION]


@pytest.mark.parametrize(
    ("kind", "value", "low", "high", "held"),
    [
        (StringType(), "b", b"a", b"c", True),
        (StringType(), "d", b"a", b"c", False),
        (StringType(), "d", b"a", None, True),
        (LongType(), 5, (5).to_bytes(4, "little"), (5).to_bytes(4, "little"), True),
        (LongType(), -6, (-5).to_bytes(8, "little", signed=True), b"\0" * 8, False),
        (DateType(), "1970-01-03", (1).to_bytes(4, "little"), (2).to_bytes(4, "little"), True),
        (DateType(), "1970-01-04", (1).to_bytes(4, "little"), (2).to_bytes(4, "little"), False),
        (DateType(), "+12970-01-04", (1).to_bytes(4, "little"), (2).to_bytes(4, "little"), True),
        (BooleanType(), True, b"\0", b"\0", True),
        (StringType(), "b", b"c", b"a", True),  # swapped
        (StringType(), "b", b"c\xe2", b"d", True),  # cut inside a character
        (StringType(), "customer-7", b"a", b"custo", True),  # cut, and not raised
        (LongType(), 5, b"\1", b"\2", True),
        (None, "d", b"a", b"c", True),
    ],
)
def test_bounds(kind: Any, value: Any, low: bytes, high: bytes | None, held: bool) -> None:
    manifest = ManifestFile(
        path="m", length=1, spec_id=1, added_snapshot_id=1,
        partitions=(FieldSummary(False, low, high),),
    )  # fmt: skip
    scope = Scope(1, json.dumps([value]))
    assert may_hold(manifest, [scope], [kind]) is held
    assert not may_hold(manifest, [Scope(2, json.dumps([value]))], [kind])
    assert may_hold(replace(manifest, partitions=()), [scope], [kind])


@pytest.mark.parametrize(("nulls", "held"), [(True, True), (None, True), (False, False)])
def test_nulls(nulls: bool | None, held: bool) -> None:
    summary = FieldSummary(nulls, b"a", b"c")
    manifest = ManifestFile(
        path="m", length=1, spec_id=1, added_snapshot_id=1, partitions=(summary,)
    )
    assert may_hold(manifest, [Scope(1, "[null]")], [StringType()]) is held


def test_a_digest_costs_few_bytes_a_file(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write(Manifest(0, False, [File(0, 1, None) for _ in range(1000)]))
    digest = table.digest_of(table.listed[0])
    assert digest.nbytes < 9 * 1000
    assert digest.may_name(hashes_of(["file:///w/999", "file:///nowhere"]))
    assert not digest.may_name(hashes_of(["file:///w/1000"]))
