"""What one commit costs the committer in a table of a million live files in 2,000 manifests, with a
JVM of 512 MB: time and memory of its first try and of one right after it.

The table is metadata alone: nobody reads a file that it names.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.results import (
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.write_format import SchemaChecksums
from firnline_local.servers.artifacts import iceberg_jar
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from bench.rewrite.figures import Bar, figure
from bench.rewrite.lake import NAMESPACE
from bench.rewrite.sources import Arena

MANIFESTS, FILES = 2_000, 500  # in each
INPUTS = 20  # of one result, in as many manifests
HEAP_BYTES = 512 << 20
ROWS, BYTES = 1_000, 100_000


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """Two commits, one after the other, by one committer."""
    manifests = max(INPUTS * 2, int(MANIFESTS * scale))
    name = f"head_{next(place.numbers)}"
    _make(place, name, manifests)
    before = _resident_mb("self")
    with IcebergJvm(iceberg_jar(), HEAP_BYTES) as machine:
        committer = _committer(machine, place.lake.uri)
        tries = [_timed(committer, _result(place.loaded(name), n, manifests)) for n in range(2)]
        java_mb = _peak_mb(machine.pid)
    committer_mb = round(_peak_mb("self") - before)
    sides = {
        "files": manifests * FILES,
        "manifests": manifests,
        "seconds": [round(one, 2) for one in tries],
        "committer_mb": committer_mb,
        "java_mb": round(java_mb),
    }
    print(sides, flush=True)
    bars = [
        Bar("first commit, s", None, figure(tries[:1])),
        Bar("next commit, s", None, figure(tries[1:])),
        Bar("memory of the committer for it, MB", None, figure([committer_mb])),
        Bar("memory of its JVM, MB", None, figure([java_mb])),
    ]
    return {"head": sides, "bars": [bar.as_json() for bar in bars]}


def _make(place: Arena, name: str, manifests: int) -> None:
    catalog = RestCatalog("bench", uri=place.lake.uri)
    schema = Schema(NestedField(1, "id", LongType()))
    table = catalog.create_table((*NAMESPACE, name), schema, properties={"format-version": "2"})
    snapshot_id = uuid.uuid4().int >> 66
    files = [_manifest(table, snapshot_id, number) for number in range(manifests)]
    where = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    output = table.io.new_output(where)
    with write_manifest_list(2, output, snapshot_id, None, 1, "deflate") as writer:
        writer.add_manifests(files)
    about = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": int(time.time() * 1000) - 600_000,
        "manifest-list": where,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    ref = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": None}),),
        (
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(about)),
            SetSnapshotRefUpdate.model_validate({**ref, "action": "set-snapshot-ref"}),
        ),
    )


def _manifest(table: Table, snapshot_id: int, number: int) -> ManifestFile:
    output = table.io.new_output(f"{table.location()}/metadata/m{number}.avro")
    with write_manifest(2, table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        for file in range(FILES):
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=_data_file(table, number, file),
                )
            )
    return writer.to_manifest_file()


def _path(location: str, manifest: int, file: int) -> str:
    return f"{location}/data/{manifest:05d}-{file:05d}-0b51b2a2-5a1e-4c7a-9c30-0f0b9d2f7a11.parquet"


def _data_file(table: Table, manifest: int, file: int) -> DataFile:
    low, high = (file).to_bytes(8, "little"), (file + ROWS).to_bytes(8, "little")
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=_path(table.location(), manifest, file),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=BYTES,
        column_sizes={1: BYTES},
        value_counts={1: ROWS},
        null_value_counts={1: 0},
        lower_bounds={1: low},
        upper_bounds={1: high},
        spec_id=0,
    )


def _committer(machine: IcebergJvm, uri: str) -> Committer:
    return Committer(open_catalog(uri), JavaCommits(machine, uri), Log("bench"), _now_ms)


def _result(table: LoadedTable, number: int, manifests: int) -> RewriteFinished:
    """Some files of as many manifests, wide apart, become one."""
    location, head = table.metadata.location, table.head("main")
    step = manifests // INPUTS
    paths = [_path(location, one * step + number, 7) for one in range(INPUTS)]
    inputs = tuple(InputFile(path, 1, ROWS, BYTES) for path in paths)
    run = TaskRun(table.identity.uuid, uuid.uuid4().hex, 1, uuid.uuid4().hex[:8])
    where = f"{location}/data/{run.output_name(0, 0)}"
    local = Path(normal_path(where).removeprefix("file://"))
    local.parent.mkdir(parents=True, exist_ok=True)
    local.write_bytes(b"nobody reads it")
    rows = INPUTS * ROWS
    body = {
        "spec-id": 0, "content": "data", "file-path": where, "file-format": "parquet",
        "partition": [], "file-size-in-bytes": BYTES, "record-count": rows,
    }  # fmt: skip
    output = OutputFile(where, rows, BYTES, json.dumps(body))
    form, now_ms = table.form, _now_ms()
    return RewriteFinished(
        task_id=run.task_id,
        table=table.identity,
        ref="main",
        scope=Scope(0, "[]"),
        attempt=run.attempt,
        worker="bench",
        mode=Mode.NATIVE,
        start_snapshot_id=head.snapshot_id,
        start_sequence_number=head.sequence_number or 0,
        schema_id=form.schema_id,
        groups=(RewriteGroup(inputs, (output,), rows, 0, rows),),
        applied_deletes=(),
        output_list=None,
        ordered_at_ms=now_ms,
        started_at_ms=now_ms,
        first_byte_at_ms=now_ms,
        finished_at_ms=now_ms,
        format_version=form.format_version,
        last_column_id=form.last_column_id,
        name_mapping=form.name_mapping,
        schema_checksum=SchemaChecksums(table.metadata)[form.schema_id],
    )


def _timed(committer: Committer, result: RewriteFinished) -> float:
    start = time.monotonic()
    (event,) = committer.commit_all([result])
    assert isinstance(event, RewriteCommitted), event
    return time.monotonic() - start


def _now_ms() -> int:
    return int(time.time() * 1000)


def _resident_mb(pid: int | str) -> float:
    return _status_mb(pid, "VmRSS")


def _peak_mb(pid: int | str) -> float:
    return _status_mb(pid, "VmHWM")


def _status_mb(pid: int | str, name: str) -> float:
    own = os.getpid() if pid == "self" else pid
    lines = Path(f"/proc/{own}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))
