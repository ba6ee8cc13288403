"""Writers at several paces. Each writes to a pair of tables, the same rows to both: one that
Firnline looks after, and one that nobody does."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import TableName
from firnline_iceberg.java.api import load_table
from py4j.protocol import Py4JJavaError

from bench.soak.ground import Ground
from tests.kit.lake.writer import FileWriter, TableWriter, described

NAMESPACE = ("soak",)
SCHEMA = pa.schema(
    pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
    for number, (name, kind) in enumerate(
        (("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())), 1
    )
)
KEYS = pa.schema([SCHEMA.field("id")])
UNPARTITIONED = (0, "[]")
KINDS = ("appends", "upserts", "marks")  # marks: appends, and merge-on-read deletes
PACES_S = {"fast": 4.0, "middle": 10.0, "slow": 30.0}
SHARES = ("fast", "middle", "middle", "slow", "slow")  # of five pairs
ROWS = 400
HIT_SHARE = 0.7  # of an upsert's keys are there


@dataclass(frozen=True)
class Stream:
    """What a pair of tables gets."""

    number: int

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    @property
    def pace(self) -> str:
        return SHARES[self.number % len(SHARES)]

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.pace}_{self.number}"


@dataclass
class Writer:
    """Of one table. A delete that Iceberg refuses, for its file was replaced, is left out."""

    stream: Stream
    name: str
    catalog: Any
    machine: Any
    ground: Ground
    rows: int = 0
    marked: int = 0
    commits: int = 0
    refused: int = 0
    newest: str = ""
    dice: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.dice = np.random.default_rng(self.stream.number)

    @property
    def live(self) -> int:
        """Rows that a reader of the table gets."""
        return self.rows - self.marked

    def commit(self) -> None:
        """The stream's next one."""
        table = load_table(self.machine, self.catalog, TableName("", NAMESPACE, self.name))
        writer, folder = TableWriter(self.machine, lambda: table), f"{table.location()}/data"
        number, self.commits = self.commits, self.commits + 1
        if self.stream.kind == "upserts" and self.rows:
            old = self.dice.choice(self.rows, int(ROWS * HIT_SHARE), replace=False)
            ids = np.concatenate([old, self._ids(ROWS - len(old))])
            writer.row_delta([self._data(folder, ids)], [self._keys(folder, ids)])
        elif self.stream.kind == "marks" and self.newest and number % 2:
            self._mark(table, writer, folder)
        else:
            writer.append(self._data(folder, self._ids(ROWS)))

    def _mark(self, table: Any, writer: TableWriter, folder: str) -> None:
        at = sorted(self.dice.choice(ROWS, 20, replace=False).tolist())
        path = f"{folder}/{uuid.uuid4().hex}-deletes.parquet"
        pairs = [(self.newest, one) for one in at]
        deletes = FileWriter(self.ground.store).position_deletes(
            path, pairs, UNPARTITIONED, self.newest
        )
        head = table.currentSnapshot().snapshotId()
        try:
            writer.row_delta([], [deletes], read_at=head, must_exist=[self.newest])
        except Py4JJavaError as error:
            if "ValidationException" not in str(error.java_exception):
                raise
            self.ground.path(path).unlink()
            self.refused += 1
        else:
            self.marked += len(at)

    def _ids(self, count: int) -> Any:
        self.rows += count
        return np.arange(self.rows - count, self.rows)

    def _data(self, folder: str, ids: Any) -> str:
        numbers = {name: self.dice.integers(0, 1 << 60, len(ids)) for name in ("a", "b")}
        self.newest, size = self._written(folder, pa.table({"id": ids, **numbers}, schema=SCHEMA))
        return described(UNPARTITIONED, self.newest, size, len(ids))

    def _keys(self, folder: str, ids: Any) -> str:
        path, size = self._written(folder, pa.table({"id": ids}, schema=KEYS))
        content = "equality-deletes"
        return described(UNPARTITIONED, path, size, len(ids), content, equality_ids=[1])

    def _written(self, folder: str, rows: pa.Table) -> tuple[str, int]:
        path, sink = f"{folder}/{uuid.uuid4().hex}.parquet", BytesIO()
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
        self.ground.store(path, sink.getvalue())
        return path, len(sink.getvalue())


@dataclass
class Clockwork:
    """Lets a pair's writers commit in turn, each at its pace; who is late goes on at once."""

    writers: list[Writer]
    stop: threading.Event
    errors: list[BaseException] = field(default_factory=list)

    def start(self, threads: int) -> list[threading.Thread]:
        """Each thread has every so-many-th writer."""
        begun = time.monotonic()
        made = [
            threading.Thread(target=self._run, args=(self.writers[at::threads], begun))
            for at in range(threads)
        ]
        for one in made:
            one.start()
        return made

    def _run(self, mine: list[Writer], begun: float) -> None:
        due = {
            one.name: begun + PACES_S[one.stream.pace] * one.stream.number / len(self.writers)
            for one in mine
        }
        try:
            while not self.stop.is_set():
                one = min(mine, key=lambda writer: due[writer.name])
                if self.stop.wait(max(0.0, due[one.name] - time.monotonic())):
                    return
                one.commit()
                due[one.name] = max(due[one.name] + PACES_S[one.stream.pace], time.monotonic())
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()
