"""The kernel against a naive model: dicts, loops, and the specification's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
from firnline_deletes.apply import write_live_rows
from firnline_deletes.columns.checksums import SUMS, checksum
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import delete_set, positions
from firnline_deletes.deletes.build import build_parts
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.files.projection import table_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# The table now: id 1 was an int, id 3 was renamed, id 4 came later, id 9 was dropped.
TABLE = {1: pa.int64(), 2: pa.string(), 3: pa.date32(), 4: pa.decimal128(12, 2)}
OLD = {1: pa.int32(), 2: pa.string(), 3: pa.date32(), 9: pa.bool_()}
KINDS = {**TABLE, 9: pa.bool_()}
KEY_SETS = [(1,), (2,), (1, 2), (3, 2), (4,), (9,), (1, 2, 3, 4, 9)]

VALUES: dict[int, st.SearchStrategy[Any]] = {
    1: st.none() | st.integers(-2, 2) | st.sampled_from([-(2**31), 2**31 - 1]),
    2: st.none() | st.sampled_from(["", "a", "b", "long " * 5, "long " * 5 + "!", "é"]),
    3: st.none() | st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 21)]),
    4: st.none() | st.decimals(-2, 2, places=2, allow_nan=False),
    9: st.none() | st.booleans(),
}
SEQUENCES = st.integers(1, 6)


@dataclass
class Rows:
    """A file: its sequence number, its columns, and per row field id -> value."""

    sequence: int
    kinds: dict[int, pa.DataType]
    rows: list[dict[int, Any]]
    positions: list[tuple[int, int]] = field(default_factory=list)  # (delete sequence, row)


@st.composite
def rows(draw: st.DrawFn, kinds: dict[int, pa.DataType], most: int = 9) -> list[dict[int, Any]]:
    return draw(st.lists(st.fixed_dictionaries({n: VALUES[n] for n in kinds}), max_size=most))


@st.composite
def data_files(draw: st.DrawFn) -> Rows:
    kinds = draw(st.sampled_from([TABLE, OLD]))
    made = Rows(draw(SEQUENCES), kinds, draw(rows(kinds)))
    if made.rows:
        where = st.tuples(SEQUENCES, st.integers(0, len(made.rows) - 1))
        made.positions = draw(st.lists(where, max_size=4))
    return made


@st.composite
def delete_files(draw: st.DrawFn) -> tuple[tuple[int, ...], Rows]:
    """Key columns and whatever else the writer put there (#12650)."""
    keys = draw(st.sampled_from(KEY_SETS))
    narrow = draw(st.booleans())
    extra = draw(st.sets(st.sampled_from([2, 3])))
    order = draw(st.permutations(sorted({*keys, *extra})))
    kinds = {n: OLD[n] if narrow and n in OLD else KINDS[n] for n in order}
    return keys, Rows(draw(SEQUENCES), kinds, draw(rows(kinds)))


def survivors(data: Rows, deletes: list[tuple[tuple[int, ...], Rows]]) -> list[tuple[Any, ...]]:
    """The specification, row by row."""
    kept = []
    for position, row in enumerate(data.rows):
        dead = any(data.sequence <= s and p == position for s, p in data.positions)
        for keys, file in deletes:
            if data.sequence < file.sequence:
                mine = [row.get(n) for n in keys]
                dead = dead or any([gone[n] for n in keys] == mine for gone in file.rows)
        if not dead:
            kept.append(tuple(row.get(n) for n in TABLE))
    return kept


def written(folder: Any, made: Rows, prefix: str) -> Any:
    schema = pa.schema([folder.column(f"{prefix}{n}", n, k) for n, k in made.kinds.items()])
    return folder.file(made.sequence, schema, [tuple(r[n] for n in made.kinds) for r in made.rows])


def loaded(folder: Any, deletes: list[tuple[tuple[int, ...], Rows]], parts: int) -> list[Any]:
    """Paths of one set per equality-id set, each in so many parts."""
    paths = []
    for keys in sorted({keys for keys, _ in deletes}):
        files = [written(folder, file, "d") for k, file in deletes if k == keys]
        where = folder.root / f"set-{len(paths)}"
        where.mkdir()
        paths += build_parts(
            files, [KeyField(n, KINDS[n]) for n in keys], folder.open, where, parts
        )
    return paths


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(data_files(), max_size=4),
    st.lists(delete_files(), max_size=6),
    st.sampled_from([1, 3]),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.sampled_from([(), (1,), (2,), (1, 2), (1, 2, 3, 4)]),
)
def test_the_kernel_keeps_exactly_what_the_specification_keeps(
    folders, data, deletes, parts, together, threads, proved
):
    folder = folders()
    inputs = [written(folder, made, "c") for made in data]
    marks = [
        folder.position_deletes(sequence, [(file.path, position)])
        for made, file in zip(data, inputs, strict=True)
        for sequence, position in made.positions
    ]
    where = positions.build_position_set(marks, inputs, folder.open, str)
    table = table_schema(pa.schema([folder.column(f"t{n}", n, k) for n, k in TABLE.items()]))
    writer = folder.writer(table, target_bytes=500, proved=proved)
    paths = loaded(folder, deletes, parts)
    sets = [delete_set.open_mapped(path) for path in paths]
    everything = Deletes(sets, where) if together else Deletes(positions=where, parts=paths)
    target = TargetSchema(table, proved=proved)
    tally = write_live_rows(inputs, everything, target, folder.open, writer, threads)
    expected = [row for made in data for row in survivors(made, deletes)]
    assert folder.rows_of(writer) == expected
    assert tally.rows_in - tally.rows_masked == tally.rows_out == len(expected)
    assert tally.rows_in == sum(len(made.rows) for made in data)
    out = sum(file.keys for file in writer.files)
    assert (tally.keys.read - tally.keys.masked - out) % SUMS == 0
    columns = [pa.array([row[n - 1] for row in expected], KINDS[n]) for n in proved]
    assert out % SUMS == checksum(columns)
