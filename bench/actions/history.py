"""Tables with a long past, written file by file: ten thousand commits through a catalog would write
their list of snapshots ten thousand times."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()))
START_MS, BETWEEN_MS = 1_700_000_000_000, 60_000  # of the first commit, and to the next
STATUS_EXISTING, STATUS_ADDED, STATUS_DELETED = 0, 1, 2
RECORDS, BYTES = 1_000, 5  # of a data file; what lies there is five bytes
MOST_LINKS = 60_000  # to one file: ext4 has 65,000
AGE_S = 10 * 86_400
Record = dict[str, Any]


@dataclass(frozen=True)
class Template:
    """An Avro file of Iceberg's, without its records."""

    schema: Any
    header: Mapping[str, str]
    record: Record

    @classmethod
    def of(cls, path: str) -> Template:
        with Path(path.removeprefix("file://")).open("rb") as source:
            reader = fastavro.reader(source)
            [record, *_] = [dict(one) for one in reader if isinstance(one, dict)]
            meta = {str(k): str(v) for k, v in reader.metadata.items() if k != "avro.schema"}
        return cls(reader.writer_schema, meta, record)

    def write(self, path: Path, records: list[Record]) -> int:
        """Its size in bytes."""
        out = BytesIO()
        codec = self.header.get("avro.codec", "deflate")
        header = {k: v for k, v in self.header.items() if not k.startswith("avro.")}
        fastavro.writer(out, self.schema, records, codec=codec, metadata=header)
        path.write_bytes(out.getvalue())
        return len(out.getvalue())


@dataclass
class History:
    """Commits of a table: appends of two files, and after every few of them a rewrite of what they
    have appended into one file. `root` gets all files. `address`: of that folder, as readers say
    it; '': its path. `a_folder`: data files that lie in one, all links to one; 0: they lie side by
    side."""

    root: Path
    every: int = 5
    address: str = ""
    a_folder: int = 0
    snapshots: list[Record] = field(default_factory=list)
    files: int = 0
    number: int = 0  # of the last commit

    def __post_init__(self) -> None:
        catalog = MemoryCatalog(f"file://{self.root.parent}")
        table = catalog.make(f"{self.root.name}.t", SCHEMA)
        table.append(pa.table({"id": [1]}))
        self.table = catalog.load_table((self.root.name, "t"))
        self.root = Path(self.table.metadata.location.removeprefix("file://"))
        self.address = f"{self.address}/{self.root.name}" if self.address else f"file://{self.root}"
        first = self.table.metadata.snapshots[0]
        self._list = Template.of(first.manifest_list)
        self._manifest = Template.of(first.manifests(self.table.io)[0].manifest_path)
        self._listed: list[Record] = []
        self._fresh: list[tuple[int, str]] = []  # number of the commit, path
        self._first = json.loads(first.model_dump_json())

    def commit(self, forgotten: bool = False) -> None:
        """One more. `forgotten`: its snapshot has expired, and its list is not written."""
        self.number += 1
        number = self.number
        if number % (self.every + 1):
            added = [self._data(number) for _ in range(2)]
            self._fresh += [(number, path) for path in added]
            entries = [self._entry(STATUS_ADDED, number, number, path) for path in added]
            self._listed = [*self._living(), self._written(number, entries)]
        else:
            entries = [self._entry(STATUS_ADDED, number, number, self._data(number))]
            gone = [self._entry(STATUS_DELETED, number, at, path) for at, path in self._fresh]
            old = self._living()[: -self.every or None]
            self._listed = [*old, self._written(number, entries), self._written(number, gone)]
            self._fresh = []
        if not forgotten:
            self._snapshot(number)

    def commit_many(self, files: int) -> None:
        """One commit of so many data files, in one manifest."""
        self.commit_these([self._data(self.number + 1) for _ in range(files)])

    def waiting(self, files: int) -> list[str]:
        """Data files of a writer that has not committed yet."""
        return [self._data(self.number) for _ in range(files)]

    def commit_these(self, paths: list[str]) -> None:
        """One commit of files that are there."""
        self.number += 1
        number = self.number
        entries = [self._entry(STATUS_ADDED, number, number, path) for path in paths]
        self._listed = [*self._living(), self._written(number, entries)]
        self._snapshot(number)

    def mark(self, deletes: int) -> None:
        """One commit of position-delete files, of which nine in ten name a data file that is not
        there."""
        self.number += 1
        number = self.number
        alive = [path for _, path in self._fresh] or [self._data(number)]
        entries = []
        for at in range(deletes):
            named = f"{self.address}/data/gone-{at}.parquet" if at % 10 else alive[at % len(alive)]
            entry = self._entry(STATUS_ADDED, number, number, f"{self.address}/data/d-{at}.parquet")
            bound = [{"key": 2147483546, "value": named.encode()}]
            entry["data_file"] |= {"content": 1, "lower_bounds": bound, "upper_bounds": bound}
            entries.append(entry)
        listed = self._written(number, entries)
        listed["content"] = 1
        self._listed = [*self._living(), listed]
        self._snapshot(number)

    def metadata(self, path: Path) -> str:
        """Writes the metadata file of the table as it is now."""
        body = json.loads(self.table.metadata.model_dump_json())
        head = self.snapshots[-1]
        body |= {
            "table-uuid": str(uuid.uuid4()),
            "location": self.address,
            "last-sequence-number": head["sequence-number"],
            "last-updated-ms": head["timestamp-ms"],
            "current-snapshot-id": head["snapshot-id"],
            "snapshots": self.snapshots,
            "refs": {"main": {"snapshot-id": head["snapshot-id"], "type": "branch"}},
            "snapshot-log": [
                {"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]}
                for one in self.snapshots
            ],
            "properties": {"write.metadata.previous-versions-max": "2"},
        }
        path.write_text(json.dumps(body))
        return self._told(path)

    def _told(self, path: Path) -> str:
        return f"{self.address}/{path.relative_to(self.root)}"

    def _living(self) -> list[Record]:
        """Without manifests that hold nothing but what was taken out."""
        return [
            one for one in self._listed if one["added_files_count"] or one["existing_files_count"]
        ]

    def _data(self, number: int) -> str:
        folder = self.root / "data"
        if self.a_folder:
            folder /= f"{self.files // self.a_folder:05d}"
            folder.mkdir(exist_ok=True)
        self.files += 1
        path = folder / f"{number:08d}-{self.files:08d}.parquet"
        if self.a_folder:
            path.hardlink_to(self._like())
        else:
            path.write_bytes(b"x" * BYTES)
        return self._told(path)

    def _like(self) -> Path:
        """What so many data files are one and the same file of, on the disk; ten days old."""
        path = self.root.parent / f"like-{self.files // MOST_LINKS}"
        if not path.exists():
            path.write_bytes(b"x" * BYTES)
            os.utime(path, (time.time() - AGE_S,) * 2)
        return path

    def _entry(self, status: int, number: int, sequence: int, path: str) -> Record:
        file = {**self._manifest.record["data_file"], "file_path": path}
        return {
            "status": status,
            "snapshot_id": _id(number),
            "sequence_number": sequence,
            "file_sequence_number": sequence,
            "data_file": {**file, "record_count": RECORDS, "file_size_in_bytes": BYTES},
        }

    def _written(self, number: int, entries: list[Record]) -> Record:
        path = self.root / "metadata" / f"{uuid.uuid4().hex}-m0.avro"
        size = self._manifest.write(path, entries)
        counts = [sum(one["status"] == status for one in entries) for status in range(3)]
        return {
            **self._list.record,
            "manifest_path": self._told(path),
            "manifest_length": size,
            "sequence_number": number,
            "min_sequence_number": min(one["sequence_number"] for one in entries),
            "added_snapshot_id": _id(number),
            "existing_files_count": counts[STATUS_EXISTING],
            "added_files_count": counts[STATUS_ADDED],
            "deleted_files_count": counts[STATUS_DELETED],
        }

    def _snapshot(self, number: int) -> None:
        path = self.root / "metadata" / f"snap-{_id(number)}-1-{uuid.uuid4().hex}.avro"
        self._list.write(path, self._listed)
        last = self.snapshots[-1]["snapshot-id"] if self.snapshots else None
        parent = {"parent-snapshot-id": last} if last is not None else {}
        self.snapshots.append(
            {
                "snapshot-id": _id(number),
                **parent,
                "sequence-number": number,
                "timestamp-ms": START_MS + number * BETWEEN_MS,
                "manifest-list": self._told(path),
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
        )


def _id(number: int) -> int:
    return 1_000_000_000 + number


def grown(root: Path, snapshots: int, every: int = 5) -> History:
    """A table with so many."""
    made = History(root, every)
    for _ in range(snapshots):
        made.commit()
    return made


def stored(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())
