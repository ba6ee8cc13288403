"""A history: what Hypothesis draws, and how a table lives through it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
from firnline_domain.identity import MAIN, TableName
from firnline_worker.rewrite.preconditions import HOLD_OFF
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from firnline_fuzz import schemas
from firnline_fuzz.tables import Live, Place, Table, number
from firnline_fuzz.values import value
from tests.kit.lake.table import create

SIDE = "side"
_STEPS = {
    "append": 3, "upsert": 6, "equality": 4, "positions": 4, "evolve": 4, "respec": 2,
    "bare": 1, "compact": 2, "slow_compact": 2, "stock": 1, "branch": 1, "upgrade": 1,
}  # fmt: skip
_PARTITIONED_BY = {
    "timestamp": ["day", "hour", "month", "year"], "date": ["day", "month", "year"],
    "string": ["truncate[2]"], "long": ["truncate[3]"], "int": ["truncate[3]"],
    "binary": ["truncate[1]"],
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One thing that happens; what exactly, its seed says. `side`: on the branch, if any."""

    kind: str
    seed: int
    side: bool = False


Selection = tuple[str, float]  # an order's action and `min_dead_ratio`
FULL, MAJOR, MINOR = ("compact", 0.0), ("convert", 0.3), ("convert", 1.0)


@dataclass(frozen=True)
class History:
    """All that a table's life depends on."""

    version: int
    seed: int
    columns: int
    specs: int  # fields of the first partition spec
    exotic: bool  # types that Spark cannot read: Iceberg's generic reader is asked instead
    floats: bool  # floating-point equality keys, too
    budget: int  # bytes for delete sets: few of them cut each set into parts
    actions: tuple[Selection, ...]  # of the rewrites, in turn
    slice_bytes: int  # that one order takes; 0 = all
    steps: tuple[Step, ...]


def _steps() -> st.SearchStrategy[tuple[Step, ...]]:
    kinds = [kind for kind, weight in _STEPS.items() for _ in range(weight)]
    step = st.builds(
        Step, st.sampled_from(kinds), st.integers(0, 2**32), st.integers(0, 5).map(lambda n: n == 0)
    )
    return st.lists(step, min_size=4, max_size=10).map(tuple)


HISTORIES = st.builds(
    History,
    version=st.sampled_from([2, 2, 2, 2, 3, 3, 3, 3, 1]),
    seed=st.integers(0, 2**32),
    columns=st.integers(1, 5),
    specs=st.sampled_from([0, 0, 1, 1, 2]),
    exotic=st.integers(0, 4).map(lambda n: n == 4),
    floats=st.integers(0, 9).map(lambda n: n == 9),
    budget=st.sampled_from([1 << 30, 1 << 30, 100]),
    actions=st.sampled_from([(FULL,), (MINOR,), (MINOR, MINOR, FULL), (MAJOR, MINOR)]),
    slice_bytes=st.sampled_from([0, 0, 1, 400, 3_000]),
    steps=_steps(),
)


def kinds(history: History) -> list[str]:
    """Primitive types that a history's columns may have."""
    found = schemas.KEYS + schemas.FLOATS
    if history.exotic:
        found = found + schemas.UNSEEN_BY_SPARK
        if history.version == 3:
            found = found + schemas.NANOSECONDS
    return found


def created(jvm: Any, catalog: Any, namespace: str, name: str, history: History) -> Table:
    """The empty table."""
    rng = Random(history.seed)
    schema = schemas.schema(rng, history.columns, kinds(history))
    by = _spec(schema, history, rng)
    properties = {
        "format-version": str(history.version),
        HOLD_OFF: "0",  # its branches are young
        "write.target-file-size-bytes": str(rng.choice([1 << 20, 10_000, 2000])),
    }
    made = create(jvm, catalog, TableName("", (namespace,), name), schema, by, properties)
    return Table(jvm, catalog, made)


def _spec(schema: dict[str, Any], history: History, rng: Random) -> list[dict[str, Any]]:
    fields = []
    for index in range(history.specs):
        found = transform(schema, rng, history.floats)
        if found is None:
            continue
        source, text = found
        one = {"name": f"p{index}", "transform": text, "source-id": source["id"]}
        if (one["transform"], one["source-id"]) not in {
            (f["transform"], f["source-id"]) for f in fields
        }:
            fields.append({**one, "field-id": 1000 + index})
    return fields


def transform(
    schema: dict[str, Any], rng: Random, floats: bool
) -> tuple[dict[str, Any], str] | None:
    """A column and a transform of it; None where no column can have one."""
    able = [
        one
        for one in schema["fields"]
        if isinstance(one["type"], str)
        and one["type"] != "unknown"
        and (floats or one["type"] not in schemas.FLOATS)
    ]
    if not able:
        return None
    source = rng.choice(able)
    texts = ["identity", "identity", "void"]
    if source["type"] not in ("boolean", *schemas.FLOATS):
        texts += ["bucket[2]", "bucket[3]"]
    base = source["type"].replace("tz", "").replace("_ns", "")
    return source, rng.choice(texts + _PARTITIONED_BY.get(base, []))


@dataclass
class Life:
    """A table that lives through a history. `rewrite(ref, rng)` runs the product on a scope of it;
    what it gives back is called later to commit the result. `stock()`: Iceberg's own compaction of
    the main branch, by anybody; what became of it."""

    history: History
    table: Table
    rewrite: Callable[[str, Random], Callable[[], None] | None]
    stock: Callable[[], str]
    waiting: list[Callable[[], None]] = field(default_factory=list)
    branched: bool = False
    told: list[str] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)  # nested keys: see _delete

    def live(self) -> None:
        """Some rows, then all steps, each in turn, and an upsert."""
        self._append(Random(self.history.seed), MAIN)
        for one in self.history.steps:
            if one.kind in ("compact", "slow_compact"):
                self._compact(Random(one.seed), self._ref(one))
            else:
                self._write(one)
            if one.kind != "slow_compact":
                self._land()
        self._land()
        self._write(Step("upsert", self.history.seed))  # no table without something to do

    def _write(self, step: Step) -> None:
        """What Iceberg will not have does not happen: all its checks come before its commit."""
        try:
            getattr(self, f"_{step.kind}")(Random(step.seed), self._ref(step))
            self.told.append(step.kind)
        except Py4JJavaError as error:
            self.told.append(f"{step.kind} refused: {str(error.java_exception)[:150]}")

    def _land(self) -> None:
        for commit in self.waiting:
            commit()
        self.waiting.clear()

    def _ref(self, step: Step) -> str:
        return SIDE if step.side and self.branched else MAIN

    @property
    def refs(self) -> list[str]:
        return [MAIN, SIDE] if self.branched else [MAIN]

    # ---- steps

    def _append(self, rng: Random, ref: str, bare: bool = False) -> None:
        files = [self._data(rng, bare)[0] for _ in range(rng.randint(1, 3))]
        self.table.append(files, ref)

    def _bare(self, rng: Random, ref: str) -> None:
        if self.history.exotic:  # Iceberg's generic reader (1.12.0) knows no name mapping
            return self._append(rng, ref)
        self.table.map_names()
        return self._append(rng, ref, bare=True)

    def _data(self, rng: Random, bare: bool = False) -> tuple[Any, list[Any], Place]:
        fields = self.table.schema()["fields"]
        sources = self.table.sources()
        rows = [self._row(fields, rng) for _ in range(rng.choice([1, 2, 4, 9, 40]))]
        first = self._row(fields, Random(rng.randrange(2)))  # partitions that meet again
        fixed = {n: _finite(first[n]) for n, one in enumerate(fields) if one["id"] in sources}
        rows = [tuple(fixed.get(n, one) for n, one in enumerate(row)) for row in rows]
        values = {one["id"]: rows[0][n] for n, one in enumerate(fields)}
        place = self.table.place(values)
        left_out = self._left_out(rng)
        return self.table.data_file(rows, place, rng, bare, left_out), rows, place

    def _left_out(self, rng: Random) -> frozenset[int]:
        """Identity columns that an imported file may lack."""
        spec, fields = self.table.spec(), self.table.schema()["fields"]
        able = {one.source_id for one in spec.fields if str(one.transform) == "identity"}
        lacks = rng.random() < 0.15 and len(able) < len(fields)
        return frozenset(able) if lacks else frozenset()

    def _row(self, fields: list[dict[str, Any]], rng: Random) -> tuple[Any, ...]:
        return tuple(value(one["type"], rng, one["required"]) for one in fields)

    def _key_ids(self, rng: Random) -> list[int]:
        """An equality-id set; none where no column can be one."""
        able = [
            one["id"]
            for one in schemas.leaves(self.table.schema()["fields"])
            if one["type"] != "unknown"
            and (self.history.floats or one["type"] not in schemas.FLOATS)
        ]
        return rng.sample(able, min(len(able), rng.choice([1, 1, 1, 2, 2, 3])))

    def _upsert(self, rng: Random, ref: str) -> None:
        ids = self._key_ids(rng)
        if self.table.version == 1 or not ids:
            return self._append(rng, ref)
        file, rows, place = self._data(rng)
        return self.table.delta([file], [self._delete(ids, rows, place, rng)], ref=ref)

    def _equality(self, rng: Random, ref: str) -> None:
        """Deletes without rows: in the partition of some file, or global."""
        ids = self._key_ids(rng)
        if self.table.version == 1 or not ids:
            return
        fields = self.table.schema()["fields"]
        rows = [self._row(fields, rng) for _ in range(rng.randint(1, 6))]
        live = self.table.live(ref)
        spec = self.table.spec()
        if not spec.fields or not live:
            values = {one["id"]: _finite(rows[0][n]) for n, one in enumerate(fields)}
            place = self.table.place(values)
        else:
            place = rng.choice(live).place
        self.table.delta([], [self._delete(ids, rows, place, rng)], ref=ref)

    def _delete(self, ids: list[int], rows: list[Any], place: Place, rng: Random) -> Any:
        """The keys of `rows`: alone, in any order, or with the columns that Flink writes too."""
        schema = self.table.arrow()
        # to Iceberg 1.12 a nested key that is not among the columns read is NULL in every row
        self.kept |= schemas.nested(self.table.schema()["fields"], set(ids))
        if self._misread(ids):
            rows = rows[:1]
        wanted = set(ids) if rng.random() < 0.7 else None
        columns, values = [], []
        for index, one in enumerate(schema):
            found = _pruned(one, [row[index] for row in rows], wanted)
            if found is not None:
                columns.append(found[0])
                values.append(found[1])
        order = list(range(len(columns)))
        if rng.random() < 0.5:
            rng.shuffle(order)
        return self.table.equality_file(
            [columns[n] for n in order], ids, place, [values[n] for n in order]
        )

    def _misread(self, ids: list[int]) -> bool:
        """Keys of which Iceberg 1.12 reads no more than one per file right: `fixed` ones become
        the last one's value, and in structs {NULL} and {0} count as equal."""
        fields = self.table.schema()["fields"]
        top = {one["id"]: one["type"] for one in fields}
        return any(n not in top or str(top[n]).startswith("fixed") for n in ids)

    def _positions(self, rng: Random, ref: str) -> None:
        live = [one for one in self.table.live(ref) if one.rows]
        if self.table.version == 1 or not live:
            return
        chosen = rng.choice(live)
        near = [one for one in live if one.place == chosen.place][: rng.choice([1, 1, 3])]
        dead = {}
        for one in near:
            share = rng.sample(range(one.rows), rng.randint(1, max(1, one.rows // 2)))
            dead[one] = sorted(share)
        if self.table.version == 2:
            scoped = len(dead) == 1 and rng.random() < 0.5
            self._remember(dead)
            by_path = {one.path: positions for one, positions in dead.items()}
            file = self.table.position_file(by_path, chosen.place, scoped)
            self.table.delta([], [file], ref=ref)
        else:
            self._remember(dead)
            merged = {one: sorted(self.table.positions[one.path]) for one in dead}
            gone = [text for one in dead for text in one.vectors]
            self.table.delta([], self.table.vectors(merged), gone, ref)

    def _remember(self, dead: dict[Live, list[int]]) -> None:
        for one, positions in dead.items():
            self.table.positions[one.path] |= set(positions)

    def _evolve(self, rng: Random, ref: str) -> None:
        table = self.table
        defaults = table.version == 3 and rng.random() < 0.8
        held = set(table.sources()) | self.kept
        able = kinds(self.history)
        schema, last, step = schemas.evolved(
            table.schema(), rng, table.last_column_id, able, defaults, held
        )
        self.told.append(f"evolve {step}")
        table.evolve(schema, last)

    def _respec(self, rng: Random, ref: str) -> None:
        java = self.table.java
        change = java.updateSpec()
        fields = self.table.spec().fields
        if fields and rng.random() < 0.6:
            for one in fields if rng.random() < 0.5 else fields[:1]:
                change = change.removeField(one.name)
        found = transform(self.table.schema(), rng, self.history.floats)
        if found is not None and found[1] != "void" and rng.random() < 0.7:
            source, text = found
            taken = {(one.source_id, str(one.transform)) for one in fields}
            time = any(one.source_id == source["id"] for one in fields)
            if (source["id"], text) not in taken and not time:
                term = _term(
                    self.table.jvm.org.apache.iceberg.expressions.Expressions, source, text
                )
                change = change.addField(term)
        change.commit()

    def _compact(self, rng: Random, ref: str) -> None:
        if (commit := self.rewrite(ref, rng)) is not None:
            self.waiting.append(commit)

    def _stock(self, rng: Random, ref: str) -> None:
        self.told.append(self.stock())

    def _branch(self, rng: Random, ref: str) -> None:
        java = self.table.java
        if not self.branched and java.currentSnapshot() is not None:
            java.manageSnapshots().createBranch(SIDE).commit()
            self.branched = True

    def _upgrade(self, rng: Random, ref: str) -> None:
        version = self.table.version
        if version < 3:
            change = self.table.java.updateProperties()
            change.set("format-version", str(version + 1)).commit()


def _pruned(one: pa.Field, values: list[Any], wanted: set[int] | None) -> Any:
    """The part of a column that holds wanted ids (None: all of it), with its values; or None."""
    if wanted is None or number(one) in wanted:
        return one, values
    if not pa.types.is_struct(one.type):
        return None
    parts = []
    for index in range(one.type.num_fields):
        below = [None if value is None else value[index] for value in values]
        found = _pruned(one.type.field(index), below, wanted)
        if found is not None:
            parts.append(found)
    if not parts:
        return None
    kind = pa.struct([part for part, _ in parts])
    rows = list(zip(*(below for _, below in parts), strict=True))
    made = [None if value is None else row for value, row in zip(values, rows, strict=True)]
    return one.with_type(kind), made


def _term(expressions: Any, source: dict[str, Any], text: str) -> Any:
    name, _, width = text.rstrip("]").partition("[")
    if name == "identity":
        return expressions.ref(source["name"])
    make = getattr(expressions, name)
    return make(source["name"], int(width)) if width else make(source["name"])


def _finite(value: Any) -> Any:
    """Of a partition: Iceberg's JSON has neither NaN nor infinity."""
    return 1.5 if isinstance(value, float) and not math.isfinite(value) else value
