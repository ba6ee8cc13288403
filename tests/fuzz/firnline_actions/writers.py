"""A table's writers: each step is one commit, planned at once and sent at once or later."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_domain.identity import MAIN
from firnline_fuzz.tables import Live, Place, Table, number
from py4j.protocol import Py4JJavaError

from firnline_actions.ages import day_of, days
from tests.kit.lake import steps
from tests.kit.lake.rows import Change, Lineage, Row
from tests.kit.lake.steps import Planned
from tests.kit.lake.writer import local

KEYS = 40  # different ones: most upserts meet a row
COLUMNS = {"id": "long", "p": "int", "u": "long", "v": "string", "d": "date"}
ID, P, U, D = 1, 2, 3, 5  # field ids
EVERYWHERE = (0, "[]")  # its rows go by their key alone


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
    lineage: Lineage
    numbers: int = 0
    refused: int = 0
    moved: set[str] = field(default_factory=set)  # refs that writers dropped or committed to

    def send(self, planned: Planned | None) -> bool:
        """False where there was nothing to do, or Iceberg has refused it."""
        if planned is None:
            return False
        try:
            planned.send(self.lineage)
        except Py4JJavaError as error:
            text = str(error.java_exception)
            if not any(refusal in text for refusal in REFUSALS):
                raise
            self.refused += 1
            return False
        return True

    # ---- rows

    def append(self, rng: Random, ref: str = MAIN) -> Planned:
        files, rows = self._new(rng, [rng.randrange(KEYS) for _ in range(rng.randint(1, 5))])
        return self._planned(files, [], Change(rows), ref, [])

    def upsert(self, rng: Random, ref: str = MAIN) -> Planned:
        keys = set(self._keys(rng))
        files, rows = self._new(rng, sorted(keys))
        change = Change(rows, keys=frozenset(keys), place=EVERYWHERE)
        return self._planned(files, self._by_key(keys, ref), change, ref, [])

    def erase(self, rng: Random, ref: str = MAIN) -> Planned:
        keys = set(self._keys(rng))
        change = Change(keys=frozenset(keys), place=EVERYWHERE)
        return self._planned([], self._by_key(keys, ref), change, ref, [])

    def mark(self, rng: Random, ref: str = MAIN) -> Planned | None:
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
        return self._planned([], deletes, Change(killed=gone), ref, old, exist)

    def overwrite(self, rng: Random, ref: str = MAIN) -> Planned | None:
        """Some whole files go, as by a DELETE of a partition; what is marked in them, too."""
        live = self.table.live(ref)
        if not live:
            return None
        chosen = rng.sample(live, max(1, len(live) // 3))
        gone = frozenset(u for one in chosen for u in self._numbers_at(one, range(one.rows)))
        java, paths = self.table.java, {one.path for one in chosen}
        change = java.newDelete().toBranch(ref).validateFilesExist()
        tasks = java.newScan().useRef(ref).planFiles()
        for task in tasks.iterator():  # by path py4j takes another method, which deletes the file
            if task.file().location() in paths:
                change.deleteFile(task.file())
        tasks.close()
        return Planned(change, Change(killed=gone))

    def _keys(self, rng: Random) -> list[int]:
        return [rng.randrange(KEYS) for _ in range(rng.randint(1, 6))]

    def _new(self, rng: Random, keys: Iterable[int]) -> tuple[list[Any], tuple[Row, ...]]:
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
        return files, tuple(Row(u, key, None, EVERYWHERE) for u, key in rows.items())

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

    def _planned(
        self,
        files: list[Any],
        deletes: list[Any],
        change: Change,
        ref: str,
        old: list[str],
        exist: list[str] | None = None,
    ) -> Planned:
        self.moved.add(ref)
        writer = self.table.writer
        if not deletes:
            return Planned(writer.planned_append(*files, ref=ref), change)
        head = self.table.java.snapshot(ref)
        read_at = head.snapshotId() if exist and head is not None else None
        pending = writer.planned_row_delta(files, deletes, old, ref, read_at, exist or [])
        return Planned(pending, change)

    # ---- refs, schema, specs

    def tag(self, rng: Random, _: str = MAIN) -> Planned:
        """Of any snapshot that is there."""
        return steps.tag(self.table, self._ref_name("tag"), self._some_snapshot(rng))

    def branch(self, rng: Random, _: str = MAIN) -> Planned:
        return steps.branch(self.table, self._ref_name("branch"), self._some_snapshot(rng))

    def drop(self, rng: Random, _: str = MAIN) -> Planned | None:
        """A tag or a branch."""
        names = sorted({*self.table.java.refs()} - {MAIN})
        if not names:
            return None
        self.moved.add(name := rng.choice(names))
        return steps.drop_ref(self.table, name)

    def rollback(self, rng: Random, _: str = MAIN) -> Planned | None:
        """Main goes back by one or two commits."""
        snapshots = self.table.jvm.org.apache.iceberg.util.SnapshotUtil
        earlier = list(snapshots.currentAncestorIds(self.table.java))[1:3]
        return steps.rollback(self.table, rng.choice(earlier)) if earlier else None

    def _some_snapshot(self, rng: Random) -> int:
        return rng.choice([one.snapshotId() for one in self.table.java.snapshots()])

    def _ref_name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}{self.numbers}"

    def evolve(self, rng: Random, _: str = MAIN) -> Planned:
        """A column comes, or one that came goes."""
        extra = [one.name for one in self.table.arrow() if one.name not in COLUMNS]
        change = self.table.java.updateSchema()
        if extra and rng.random() < 0.4:
            return Planned(change.deleteColumn(rng.choice(extra)))
        types = self.table.jvm.org.apache.iceberg.types.Types.IntegerType.get()
        return Planned(change.addColumn(f"x{rng.randrange(10**6)}", types))

    def respec(self, rng: Random, _: str = MAIN) -> Planned:
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
        return Planned(change)
