"""The table under the hands of its writers; what they write is kept in mind, so that it need not be
read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from firnline_domain.identity import Scope, TableName
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.storage.paths import PREFIX
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_schedules.ground import NAMESPACE, Ground
from tests.kit.lake.rows import MAIN, Place, Row, Rows
from tests.kit.lake.steps import Planned
from tests.kit.lake.table import Shown, Table, create_table

AUDIT = "audit"


@dataclass(frozen=True)
class Kind:
    """What sort of table."""

    version: int
    partitioned: bool

    @property
    def name(self) -> str:
        return f"v{self.version}{'p' if self.partitioned else ''}"

    @property
    def scope(self) -> Scope:
        """Of partition a, where there are partitions."""
        return Scope(1, '["a"]') if self.partitioned else Scope(0, "[]")


KINDS = {one.name: one for one in (Kind(v, p) for v in (2, 3) for p in (False, True))}


@dataclass(frozen=True)
class Memory:
    """What a schedule has to know of the files it wrote. Values: never changed in place."""

    data: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    keys: dict[str, tuple[int | None, ...]] = field(default_factory=dict)  # of equality deletes
    versions: int = 0
    files: int = 0


class LabTable(Table):
    """One table in the state that it was last set to."""

    def __init__(self, ground: Ground, kind: Kind) -> None:
        name = TableName("", (NAMESPACE,), kind.name)
        version = {"format-version": str(kind.version)}
        name = create_table(ground.jvm, ground.catalog, name, False, **version)
        super().__init__(ground.jvm, ground.catalog, ground, name, kind.partitioned)
        self.ground, self.kind = ground, kind
        self.memory = Memory()
        self._still: LoadedTable | None = None
        self._live: dict[int, LiveFiles] = {}
        self._seen: dict[int, list[Shown]] = {}
        if kind.partitioned:
            self.java.updateSpec().addField("p").commit()

    @property
    def java(self) -> Any:
        return self.ground.java_table(self.kind.name)

    @property
    def loaded(self) -> LoadedTable:
        return self._still or self.ground.load(self.name)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nobody commits meanwhile: the catalog is asked once."""
        self._still = self.loaded
        try:
            yield
        finally:
            self._still = None

    def live_at(self, snapshot_id: int) -> LiveFiles:
        """A snapshot never changes: read once."""
        if snapshot_id not in self._live:
            self._live[snapshot_id] = live_files(self.loaded, snapshot_id)
        return self._live[snapshot_id]

    def meant(self, ref: str = MAIN) -> Rows:
        """What a branch has to show."""
        loaded = self.loaded
        self.lineage.observe_table(loaded)
        return self.lineage.rows(loaded.head_id(ref))

    def files_of(self, p: str = "a", ref: str = MAIN) -> list[DataFileEntry]:
        """Live data files of a partition that show a row, oldest first."""
        seen = self.meant(ref)
        found = [
            one
            for one in self.live(ref).data
            if any(row in seen and row.p == p for row in self.rows_in(one))
        ]
        return sorted(found, key=lambda one: (one.sequence_number, one.path))

    # ---- files

    def store(self, path: str, body: bytes) -> None:
        self.ground.storage.put(path, body)

    def get(self, path: str) -> bytes:
        return self.ground.storage.get(path)

    def new_path(self, name: str = "data.parquet") -> str:
        self.memory = replace(self.memory, files=self.memory.files + 1)
        number = "" if name.startswith(PREFIX) else f"{self.memory.files:03d}-"
        return f"mem:/w/{NAMESPACE}/{self.kind.name}/data/{number}{name}"

    def new_rows(self, keys: Iterable[int], p: str, place: Place) -> list[Row]:
        first = self.memory.versions
        made = [Row(first + n, key, p, place) for n, key in enumerate(keys)]
        self.memory = replace(self.memory, versions=first + len(made))
        return made

    def data_file(self, rows: Sequence[Row], path: str | None = None) -> str:
        path = path or self.new_path()
        self.memory = replace(self.memory, data={**self.memory.data, path: tuple(rows)})
        return super().data_file(rows, path)

    def key_file(self, keys: Sequence[int | None], place: Place, path: str | None = None) -> str:
        path = path or self.new_path("keys.parquet")
        self.memory = replace(self.memory, keys={**self.memory.keys, path: tuple(keys)})
        return super().key_file(keys, place, path)

    def rows_in(self, data: DataFileEntry) -> Sequence[Row]:
        return self.memory.data[data.path]

    def keys_in(self, delete: DeleteFileEntry) -> Sequence[int | None]:
        return self.memory.keys[delete.path]

    # ---- commits

    def send(self, planned: Planned) -> None:
        planned.send(self.lineage)
        self.lineage.observe_table(self.loaded)

    def back_to(self, snapshots: set[int]) -> None:
        """Forget what was read of the others: no state has them any more."""
        for found in (self._live, self._seen):
            for snapshot_id in found.keys() - snapshots:
                del found[snapshot_id]

    @property
    def known(self) -> set[int]:
        """Snapshots that were read."""
        return {*self._live, *self._seen}

    def shown_at(self, snapshot_id: int) -> list[Shown]:
        """Of a snapshot, read once."""
        if snapshot_id not in self._seen:
            self._seen[snapshot_id] = super().shown_at(snapshot_id)
        return self._seen[snapshot_id]


class Gone:
    """A Java consumer of paths."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths

    def accept(self, path: str) -> None:
        self._paths.add(str(path))

    class Java:
        implements = ("java.util.function.Consumer",)
