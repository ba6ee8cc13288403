"""Delete files of one repair or conversion: written, and described as Iceberg's `ContentFileParser`
requires."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from firnline_deletes.deletes import position_files, vectors
from firnline_deletes.deletes.position_files import ColumnBounds, WrittenPositions
from firnline_deletes.deletes.positions import Positions
from firnline_deletes.files import puffin
from firnline_domain.commits.commit_plan import AddedDelete, Leftover, Written
from firnline_domain.commits.pinned_head import LiveDelete
from firnline_domain.identity import normal_path
from firnline_domain.records.results import OutputFile, RewriteFinished
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.metadata.entries import DeleteFileEntry, FileEntry
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal.removal import shares_files
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.locations import Locations

from firnline_committer.examine.cached_reads import cached_reads_of


@dataclass(frozen=True)
class DeletedDataFile:
    """The data file that a delete file is about. `partition` as `ContentFileParser` has it."""

    path: str
    spec_id: int
    partition: Any

    @classmethod
    def of_output(cls, output: OutputFile) -> DeletedDataFile:
        """Return the subject of a file that comes with the same commit."""
        body = json.loads(output.content_file_json)
        return cls(output.path, body["spec-id"], body["partition"])

    @property
    def json_fields(self) -> dict[str, Any]:
        """Return the fields of a delete file that name this data file."""
        return {
            "content": "position-deletes",
            "spec-id": self.spec_id,
            "partition": self.partition,
            "referenced-data-file": self.path,
        }


@dataclass
class DeleteFiles:
    """Position-delete files in a v2 table; vectors, all in one Puffin file, from v3 on."""

    at: PinnedHead
    result: RewriteFinished
    run: str
    keys: Keyring = write_ahead_list.UNSIGNED
    paths: list[str] = field(default_factory=list)  # that were written
    _added: list[AddedDelete] = field(default_factory=list)
    _vectors: list[tuple[DeletedDataFile, Positions]] = field(default_factory=list)

    @property
    def list_path(self) -> str:
        """Return the path of the write-ahead list, next to the task's own."""
        return f"{folder_of(self.at.table.metadata_location)}/{self._own_run.list_name}"

    @cached_property
    def _own_run(self) -> TaskRun:
        """Return another run of the same task and attempt as the result."""
        key, result = self.at.table.identity.key, self.result
        return TaskRun(key, result.task_id, result.attempt, self.run)

    def write_list(self, most: int, now_ms: int) -> None:
        """Write every path that `most` files may have to the write-ahead list, before any of them
        exists."""
        result = self.result
        listed = OutputList(
            result.task_id,
            result.attempt,
            self.at.table.identity.key,
            "committer",
            now_ms,
            tuple(self._possible_paths(most)),
            sends_noted=shares_files(self.at.table),
        )
        write_ahead_list.write_list(self.at.table.io, self.list_path, listed, self.keys)

    @contextmanager
    def record_leftovers(self, written: list[Written]) -> Iterator[None]:
        """Append the files that were written to `written` if the block raises, so that they are
        cleared up."""
        try:
            yield
        except BaseException:
            since = self.at.head.last_sequence_number
            files = (*self.paths, self.list_path)
            written.append(Leftover(self.result.task_id, since, files))
            raise

    def _possible_paths(self, most: int) -> Iterator[str]:
        return (self._path_of(n, vectored) for n in range(most) for vectored in (False, True))

    def _path_of(self, number: int, vectored: bool) -> str:
        return f"{self._folder}/{self._own_run.delete_name(number, vectored)}"

    @cached_property
    def _folder(self) -> str:
        """Return the folder of the result's first output or, if it has none, of its first input.
        That may be a file that was added from outside, next to which nothing of ours may be
        written."""
        group, table = self.result.groups[0], self.at.table
        beside = (group.outputs or group.inputs)[0].path
        data = table.properties.get("write.data.path", f"{table.metadata.location}/data")
        return (
            folder_of(beside) if Locations.from_table(table).contains(beside) else data.rstrip("/")
        )

    def live_subject(self, entry: FileEntry) -> DeletedDataFile:
        """Return the subject of a file that the head has."""
        return DeletedDataFile(entry.path, entry.spec_id, self._partition_values(entry))

    def add_positions(self, subject: DeletedDataFile, where: Positions) -> None:
        """Add deletes of these rows of a data file."""
        if self.of_vectors:
            self._vectors.append((subject, where))
            return
        rows = position_files.of_one_file(subject.path, where)
        written = position_files.write_positions(self._next_path(False), rows, self._create)
        self._added.append(AddedDelete(_delete_file_json(written, subject.json_fields)))

    def take_out(self, mark: LiveDelete, gone: frozenset[str]) -> bool:
        """Remove a delete file from the head, and write its rows in other data files to a new one.
        Return False if it names none of the data files in `gone`: it stays."""
        assert isinstance(mark, DeleteFileEntry)
        if mark.referenced_data_file is not None:
            return True
        if self.of_vectors:
            raise ValueError(f"{mark.path}: a new position-delete file in a table of vectors")
        named = cached_reads_of(self.at.table).read_file(mark.path)
        if not any(normal_path(path) in gone for path, _ in named):
            return False  # a writer of upserts deletes rows of its own commit: the usual case
        rows = position_files.read_without(mark.path, self._open, lambda p: normal_path(p) in gone)
        if len(rows):
            written = position_files.write_positions(self._next_path(False), rows, self._create)
            place = {"spec-id": mark.spec_id, "partition": self._partition_values(mark)}
            text = _delete_file_json(written, {**place, "content": "position-deletes"})
            self._added.append(AddedDelete(text, mark.sequence_number))
        return True

    def finish(self) -> tuple[AddedDelete, ...]:
        """Write the vectors, and return all delete files to commit."""
        if self._vectors:
            self._write_vectors()
        return tuple(self._added)

    def _write_vectors(self) -> None:
        path = self._next_path(True)
        blobs = [_vector_blob(subject.path, where) for subject, where in self._vectors]
        with self._create(path) as sink:
            written = puffin.write_puffin(sink, blobs, "Firnline")
        file = {"file-path": path, "file-format": "puffin", "file-size-in-bytes": written.bytes}
        for (subject, where), (offset, size) in zip(self._vectors, written.places, strict=True):
            about = {**file, **subject.json_fields, "record-count": len(where)}
            place = {"content-offset": offset, "content-size-in-bytes": size}
            self._added.append(AddedDelete(json.dumps({**about, **place})))

    @property
    def of_vectors(self) -> bool:
        """Return whether the table's position deletes are deletion vectors."""
        return self.at.table.format_version >= 3

    def _next_path(self, vectored: bool) -> str:
        """Return the path of the next file; it is on the write-ahead list."""
        self.paths.append(self._path_of(len(self.paths), vectored))
        return self.paths[-1]

    def _partition_values(self, entry: FileEntry) -> Any:
        fields = len(self.at.table.spec(entry.spec_id).fields)
        return json.loads(entry.partition) or [None] * fields

    def _open(self, path: str) -> Any:
        return self.at.table.io.new_input(path).open()

    def _create(self, path: str) -> Any:
        return self.at.table.io.new_output(path).create(overwrite=True)


def _vector_blob(data_file: str, where: Positions) -> puffin.Blob:
    properties = {"referenced-data-file": data_file, "cardinality": str(len(where))}
    payload = vectors.encode_positions(vectors.to_bitmap(where))
    return puffin.Blob(vectors.BLOB_KIND, payload, (vectors.ROW_POSITION_ID,), properties)


def _delete_file_json(written: WrittenPositions, more: dict[str, Any]) -> str:
    return json.dumps(
        {
            **more,
            "file-path": written.path,
            "file-format": "parquet",
            "file-size-in-bytes": written.bytes,
            "record-count": written.rows,
            **_bounds_json(written.bounds),
        }
    )


def _bounds_json(bounds: ColumnBounds) -> dict[str, Any]:
    return {
        name: {"keys": list(ends), "values": [end.hex().upper() for end in ends.values()]}
        for name, ends in (("lower-bounds", bounds.lower), ("upper-bounds", bounds.upper))
    }
