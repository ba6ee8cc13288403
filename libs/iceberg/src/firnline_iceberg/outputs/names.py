"""The names of the files that a run writes.

A name holds a digest of the table's key and the task's id, so it says whose file it is: a list of
one table, or of one task, cannot name a file of another, wherever either table keeps its files.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from firnline_iceberg.storage.paths import PREFIX

LIST_SUFFIX, ROW_MAP_SUFFIX, MARKS_SUFFIX, SENT_SUFFIX = ".json", ".rows.puffin", ".marks", ".sent"
_SHOWN = 16  # characters of a task's id, for people
_DIGEST = 24  # hexadecimal digits: 96 bits, which nobody finds a second task for
_TASK = re.compile(r"[0-9A-Za-z_-]{1,64}")
_RUN = re.compile(r"[0-9a-f]{8}")
_TAIL = re.compile(r"(\d{1,9})-([0-9a-f]{8})(\D.*)", re.ASCII)
_COPIED = r"[0-9a-f]{32}\.(?:parquet|avro|orc)"
_CONTENT = re.compile(
    rf"-\d{{5,9}}-(\d{{5,9}}\.parquet|deletes\.(parquet|puffin)|set|{_COPIED})", re.ASCII
)
_COPY = re.compile(
    rf"(?P<stem>{PREFIX}\S+-\d{{1,9}}-[0-9a-f]{{8}})-\d{{5,9}}-(?P<file>{_COPIED})", re.ASCII
)
_SET = re.compile(r"-\d{5,9}-set", re.ASCII)


@dataclass(frozen=True)
class TaskRun:
    """One run of one attempt of a task: a redelivered task and its zombie never write one file."""

    table_key: str
    task_id: str
    attempt: int
    run: str  # 8 hexadecimal digits, drawn anew for each

    def __post_init__(self) -> None:
        """Check the parts of a file name. Raises ValueError if no name can be built from them."""
        named = _TASK.fullmatch(self.task_id) and _RUN.fullmatch(self.run)
        if not named or not 0 <= self.attempt < 10**9:
            text = f"task {self.task_id[:80]!r}, attempt {self.attempt}, run {self.run[:80]!r}"
            raise ValueError(f"no file can be named for {text}")

    @property
    def stem(self) -> str:
        """Return what all names begin with."""
        return f"{task_stem(self.table_key, self.task_id)}{self.attempt}-{self.run}"

    @property
    def list_name(self) -> str:
        """The write-ahead list, next to the table's metadata files."""
        return self.stem + LIST_SUFFIX

    @property
    def row_map_name(self) -> str:
        """The row map, next to the list."""
        return self.stem + ROW_MAP_SUFFIX

    @property
    def marks_name(self) -> str:
        """The marks of a conversion's slice, next to the list."""
        return self.stem + MARKS_SUFFIX

    @property
    def sent_name(self) -> str:
        """The note that a commit which names its outputs was sent, next to the list."""
        return self.stem + SENT_SUFFIX

    @property
    def names_beside(self) -> tuple[str, str, str]:
        """Return the names of all files of the run next to the table's metadata files."""
        return self.list_name, self.row_map_name, self.marks_name

    def output_name(self, group: int, number: int) -> str:
        """Return the name of a data file."""
        return f"{self.stem}-{group:05d}-{number:05d}.parquet"

    def delete_name(self, number: int, vectored: bool) -> str:
        """Return the name of a delete file."""
        return f"{self.stem}-{number:05d}-deletes.{'puffin' if vectored else 'parquet'}"

    def copy_name(self, number: int, key: str, file_format: str) -> str:
        """Return the name of a copy of another table's data file; `key`: 32 hexadecimal digits that
        identify the original."""
        return f"{self.stem}-{number:05d}-{key}.{file_format.lower()}"

    def set_name(self, number: int) -> str:
        """Return the name of a file of a delete set, for the executors of the run."""
        return f"{self.stem}-{number:05d}-set"

    def names_delete_set(self, name: str) -> bool:
        """Return True if this is the name of a delete set of this run."""
        return name.startswith(self.stem) and bool(_SET.fullmatch(name[len(self.stem) :]))

    def names_content(self, name: str) -> bool:
        """Return True if this is the name of a data or delete file, or of a set, of this run."""
        return name.startswith(self.stem) and bool(_CONTENT.fullmatch(name[len(self.stem) :]))


def task_stem(table_key: str, task_id: str) -> str:
    """Return what the names of all runs of a task begin with."""
    digest = hashlib.sha256(f"{table_key}\x1f{task_id}".encode("utf-8", "replace")).hexdigest()
    return f"{PREFIX}{task_id[:_SHOWN]}-{digest[:_DIGEST]}-"


def parse_copy_name(name: str) -> tuple[str, str] | None:
    """Return (stem of its run, key) of the name of a copy; None: it is none."""
    found = _COPY.fullmatch(name)
    return None if found is None else (found["stem"], found["file"].partition(".")[0])


def run_of(table_key: str, task_id: str, name: str) -> TaskRun | None:
    """Return the run of this task that gave a file its name, else None."""
    stem = task_stem(table_key, task_id)
    found = _TAIL.fullmatch(name[len(stem) :]) if name.startswith(stem) else None
    try:
        return found and TaskRun(table_key, task_id, int(found[1]), found[2])
    except ValueError:
        return None
