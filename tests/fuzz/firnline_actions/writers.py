"""A table's writers: each step is one commit, planned at once and sent at once or later."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_domain.identity import MAIN
from firnline_fuzz.tables import Live, Place, Table, number
from py4j.protocol import Py4JJavaError

from firnline_actions.ages import day_of, days
from firnline_actions.history import MARKER, Change, History
from tests.kit.lake.writer import local

KEYS = 40  # different ones: most upserts meet a row
COLUMNS = {"id": "long", "p": "int", "u": "long", "v": "string", "d": "date"}
ID, P, U, D = 1, 2, 3, 5  # field ids
Send = Callable[[], None]


def marked(one: Live) -> list[int]:
    """Positions that the file's deletion vector has; where it has none, those of position deletes,
    which a new vector takes in."""
    found: list[int] = []
    for path in one.position_files:
        named = pq.read_table(local(path)).to_pylist()
        found += [row["pos"] for row in named if row["file_path"] == one.path]
    for text in one.vectors:
        body = json.loads(text)
        with local(body["file-path"]).open("rb") as source:
            source.seek(body["content-offset"])
            blob = source.read(body["content-size-in-bytes"])
        found += vectors.decode_positions(blob, body["file-path"]).tolist()
    return found


# Iceberg refuses a commit; the second where a rollback took its first snapshot out of the branch.
REFUSALS = ("org.apache.iceberg.exceptions", "is not an ancestor of")


@dataclass
class Writer:
    """Knows what it has written. A commit that Iceberg refuses has changed nothing."""

    table: Table
    history: History
    numbers: int = 0
    refused: int = 0
    moved: set[str] = field(default_factory=set)  # refs that writers dropped or committed to

    def send(self, commit: Send | None) -> bool:
        """False where there was nothing to do, or Iceberg has refused it."""
        if commit is None:
            return False
        try:
            commit()
        except Py4JJavaError as error:
            text = str(error.java_exception)
            if not any(refusal in text for refusal in REFUSALS):
                raise
            self.refused += 1
            return False
        return True

    # ---- rows

    def append(self, rng: Random, ref: str = MAIN) -> Send:
        files, rows = self._new(rng, [rng.randrange(KEYS) for _ in range(rng.randint(1, 5))])
        return self._sent(files, [], Change(new=rows), ref, [])

    def upsert(self, rng: Random, ref: str = MAIN) -> Send:
        keys = set(self._keys(rng))
        files, rows = self._new(rng, sorted(keys))
        return self._sent(
            files, self._by_key(keys, ref), Change(frozenset(keys), new=rows), ref, []
        )

    def erase(self, rng: Random, ref: str = MAIN) -> Send:
        keys = set(self._keys(rng))
        return self._sent([], self._by_key(keys, ref), Change(frozenset(keys)), ref, [])

    def mark(self, rng: Random, ref: str = MAIN) -> Send | None:
        """Merge-on-read: one or two files of a partition."""
        live = [one for one in self.table.live(ref) if one.rows]
        if not live:
            return None
        first = rng.choice(live)
        near = [one for one in live if one.place == first.place and one is not first]
        chosen = [first, *rng.sample(near, min(len(near), rng.choice([0, 0, 1])))]
        dead = {
            one: rng.sample(range(one.rows), rng.randint(1, max(1, one.rows // 2)))
            for one in chosen
        }
        gone = frozenset(u for one in chosen for u in self._numbers_at(one, dead[one]))
        if self.table.version < 3:
            by_path = {one.path: at for one, at in dead.items()}
            deletes = [self.table.position_file(by_path, first.place, scoped=len(chosen) == 1)]
            old: list[str] = []
        else:
            merged = {one: sorted({*at, *marked(one)}) for one, at in dead.items()}
            deletes = self.table.vectors(merged)
            old = [text for one in chosen for text in one.vectors]
        exist = [one.path for one in chosen]
        return self._sent([], deletes, Change(gone=gone), ref, old, exist)

    def overwrite(self, rng: Random, ref: str = MAIN) -> Send | None:
        """Some whole files go, as by a DELETE of a partition; what is marked in them, too."""
        live = self.table.live(ref)
        if not live:
            return None
        chosen = rng.sample(live, max(1, len(live) // 3))
        gone = frozenset(u for one in chosen for u in self._numbers_at(one, range(one.rows)))
        step = self.history.planned(Change(gone=gone))
        java, paths = self.table.java, {one.path for one in chosen}
        change = java.newDelete().toBranch(ref).validateFilesExist()
        tasks = java.newScan().useRef(ref).planFiles()
        for task in tasks.iterator():  # by path py4j takes another method, which deletes the file
            if task.file().location() in paths:
                change.deleteFile(task.file())
        tasks.close()
        return change.set(MARKER, str(step)).commit

    def _keys(self, rng: Random) -> list[int]:
        return [rng.randrange(KEYS) for _ in range(rng.randint(1, 6))]

    def _new(self, rng: Random, keys: Iterable[int]) -> tuple[list[Any], dict[int, int]]:
        places: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        rows = dict[int, int]()
        for key in keys:
            self.numbers += 1
            rows[self.numbers] = key
            places[self._place(key)].append((self.numbers, key))
        files = []
        for place, some in places.items():
            names = [one.name for one in self.table.arrow()]
            full = [
                tuple(
                    {"id": k, "p": k % 3, "u": u, "v": f"v{u}", "d": day_of(k)}.get(n)
                    for n in names
                )
                for u, k in some
            ]
            files.append(self.table.data_file(full, place, rng))
        return files, rows

    def _place(self, key: int, spec_id: int | None = None) -> Place:
        return self.table.place({ID: key, P: key % 3, D: days(day_of(key))}, spec_id)

    def _by_key(self, keys: set[int], ref: str) -> list[Any]:
        """Equality deletes, in each partition of each spec that has files."""
        column = next(one for one in self.table.arrow() if number(one) == ID)
        places: dict[Place, list[int]] = defaultdict(list)
        specs = {one.place.spec_id for one in self.table.live(ref)} or {self.table.spec().spec_id}
        for spec_id in specs:
            for key in sorted(keys):
                places[self._place(key, spec_id)].append(key)
        return [
            self.table.equality_file([column], [ID], place, [some])
            for place, some in places.items()
        ]

    @staticmethod
    def _numbers_at(one: Live, at: Iterable[int]) -> list[int]:
        column = pq.read_table(local(one.path), columns=["u"])["u"].to_pylist()
        return [column[position] for position in at]

    def _sent(
        self,
        files: list[Any],
        deletes: list[Any],
        change: Change,
        ref: str,
        old: list[str],
        exist: list[str] | None = None,
    ) -> Send:
        step, writer = self.history.planned(change), self.table.writer
        self.moved.add(ref)
        if not deletes:
            planned = writer.planned_append(*files, ref=ref)
        else:
            head = self.table.java.snapshot(ref)
            read_at = head.snapshotId() if exist and head is not None else None
            planned = writer.planned_row_delta(files, deletes, old, ref, read_at, exist or [])
        return planned.set(MARKER, str(step)).commit

    # ---- refs, schema, specs

    def tag(self, rng: Random, _: str = MAIN) -> Send:
        """Of any snapshot that is there."""
        java = self.table.java
        at = rng.choice([one.snapshotId() for one in java.snapshots()])
        return java.manageSnapshots().createTag(self._ref_name("tag"), at).commit

    def branch(self, rng: Random, _: str = MAIN) -> Send:
        java = self.table.java
        at = rng.choice([one.snapshotId() for one in java.snapshots()])
        return java.manageSnapshots().createBranch(self._ref_name("branch"), at).commit

    def drop(self, rng: Random, _: str = MAIN) -> Send | None:
        """A tag or a branch."""
        java = self.table.java
        refs = {name: ref for name, ref in java.refs().items() if name != MAIN}
        if not refs:
            return None
        name = rng.choice(sorted(refs))
        change = java.manageSnapshots()
        self.moved.add(name)
        return (change.removeTag if refs[name].isTag() else change.removeBranch)(name).commit

    def rollback(self, rng: Random, _: str = MAIN) -> Send | None:
        """Main goes back by one or two commits."""
        java = self.table.java
        ancestors = self.table.jvm.org.apache.iceberg.util.SnapshotUtil.currentAncestorIds(java)
        earlier = list(ancestors)[1:3]
        if not earlier:
            return None
        return java.manageSnapshots().rollbackTo(rng.choice(earlier)).commit

    def _ref_name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}{self.numbers}"

    def evolve(self, rng: Random, _: str = MAIN) -> Send:
        """A column comes, or one that came goes."""
        extra = [one.name for one in self.table.arrow() if one.name not in COLUMNS]
        change = self.table.java.updateSchema()
        if extra and rng.random() < 0.4:
            return change.deleteColumn(rng.choice(extra)).commit
        types = self.table.jvm.org.apache.iceberg.types.Types.IntegerType.get()
        return change.addColumn(f"x{rng.randrange(10**6)}", types).commit

    def respec(self, rng: Random, _: str = MAIN) -> Send:
        """Partitioned in another way, or not any more."""
        java = self.table.java
        change = java.updateSpec()
        for one in self.table.spec().fields:
            change = change.removeField(one.name)
        expressions = self.table.jvm.org.apache.iceberg.expressions.Expressions
        way = rng.randrange(5)
        if way == 1:
            change = change.addField("p")
        elif way == 2:
            change = change.addField(expressions.bucket("id", 2))
        elif way == 3:
            change = change.addField(expressions.truncate("id", 20))
        elif way == 4:
            change = change.addField(rng.choice([expressions.day, expressions.month])("d"))
        return change.commit
