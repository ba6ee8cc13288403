"""Which files are laid along a curve together, by boxes, and what readers of each column then open;
with real rows, in ranks as a sort makes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from firnline_deletes.files.hilbert_curve import cuts_of, hilbert_positions, rank_values
from firnline_worker.plan import zorder_overlap
from firnline_worker.plan.overlap import KeyRange
from firnline_worker.plan.zorder_overlap import Box, box_clusters

from services.worker.tests.plan.test_overlap import spread

Rows = npt.NDArray[np.int64]
A_FILE = 500  # rows
KEYS = 1_000_000


def box_of(rows: Rows) -> tuple[Box, Rows]:
    sides = tuple(
        KeyRange(spread(0, 0, len(rows) / A_FILE).file, (2, low), (2, high))
        for low, high in zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True)
    )
    return Box(sides[0].file, sides), rows


def along_curve(rows: Rows) -> list[tuple[Box, Rows]]:
    columns = [pa.chunked_array([rows[:, number]]) for number in range(rows.shape[1])]
    ranks = [rank_values(one.combine_chunks(), cuts_of(one)) for one in columns]
    in_turn = rows[np.argsort(hilbert_positions(ranks), kind="stable")]
    return [box_of(part) for part in np.array_split(in_turn, max(len(rows) // A_FILE, 1))]


def some_rows(chance: np.random.Generator, files: float, columns: int = 2) -> Rows:
    """Skewed: the second column's values are squares."""
    rows = chance.integers(0, KEYS, (int(files * A_FILE), columns))
    rows[:, 1] = rows[:, 1] ** 2 // KEYS
    return rows


def opened(files: list[tuple[Box, Rows]], column: int) -> float:
    """Share of the files that a reader of one value of a column opens."""
    low = np.array([one.sides[column].low[1] for one, _ in files])
    high = np.array([one.sides[column].high[1] for one, _ in files])
    values = np.concatenate([rows[:, column] for _, rows in files])[::97]
    return float(np.mean([((low <= value) & (high >= value)).mean() for value in values]))


def sorted_once(files: list[tuple[Box, Rows]]) -> tuple[list[tuple[Box, Rows]], float]:
    """And what was written, in files."""
    written = 0.0
    for group in box_clusters([one for one, _ in files]).groups:
        taken = {id(file) for file in group}
        again = np.concatenate([rows for one, rows in files if id(one.file) in taken])
        files = [pair for pair in files if id(pair[0].file) not in taken] + along_curve(again)
        written += len(again) / A_FILE
    return files, written


@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("files", [6, 20, 64, 150])
def test_what_lies_along_a_curve_is_left_alone(files: int, columns: int) -> None:
    laid = along_curve(some_rows(np.random.default_rng(files), files, columns))
    assert box_clusters([one for one, _ in laid], max_depth=2).groups == ()


def test_it_is_left_alone_wherever_the_limit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the same files would be sorted each hour: they come out as they went in."""
    monkeypatch.setattr(zorder_overlap, "CURVES_OWN", -1)
    laid = along_curve(some_rows(np.random.default_rng(9), 64))
    found = box_clusters([one for one, _ in laid], max_depth=2)
    assert (found.depth.most, found.groups) == (3, ())


def test_files_of_all_keys_are_laid_along_it_together() -> None:
    chance = np.random.default_rng(1)
    files = [box_of(some_rows(chance, 1)) for _ in range(40)]
    assert min(opened(files, 0), opened(files, 1)) > 0.95
    after, written = sorted_once(files)
    assert (written, len(after)) == (40, 40)
    assert max(opened(after, 0), opened(after, 1)) < 0.25


@pytest.mark.parametrize("seed", range(12))
def test_one_file_more_than_may_be_is_seen(seed: int) -> None:
    """Their bounds differ by a little, in no order."""
    chance = np.random.default_rng(seed)
    files = [box_of(some_rows(chance, 1))[0] for _ in range(9)]
    found = box_clusters(files)
    assert (found.depth.most, [len(group) for group in found.groups]) == (9, [9])
    assert box_clusters(files[:8]).groups == ()


def test_a_run_that_is_much_larger_is_left_alone_and_one_that_is_not_goes_with_them() -> None:
    chance = np.random.default_rng(6)
    new = [box_of(some_rows(chance, 1))[0] for _ in range(9)]
    large, small = (along_curve(some_rows(chance, files)) for files in (100, 8))
    [group] = box_clusters([*(one for one, _ in large), *new]).groups
    assert {id(file) for file in group} == {id(one.file) for one in new}
    [group] = box_clusters([*(one for one, _ in small), *new]).groups
    assert len(group) >= 15  # all new ones, and those of the run that lie under most of them


def test_few_distinct_values_of_a_column_narrow_the_other_one() -> None:
    chance = np.random.default_rng(2)
    rows = some_rows(chance, 40)
    rows[:, 1] = chance.integers(0, 4, len(rows))
    files = [box_of(part) for part in np.array_split(rows, 40)]
    after, _ = sorted_once(files)
    assert opened(after, 0) < 0.25
    assert opened(after, 1) < 0.5
    assert box_clusters([one for one, _ in after]).groups == ()


def test_a_growing_table_is_written_a_little_and_read_by_both_columns() -> None:
    """1 % more rows a day, of all keys, for 60 days: a full sort every day writes 8,200 files."""
    chance = np.random.default_rng(3)
    files = along_curve(some_rows(chance, 100))
    whole = [opened(files, 0), opened(files, 1)]
    written, shares = 0.0, []
    for _ in range(60):
        files.append(box_of(some_rows(chance, sum(len(rows) for _, rows in files) / A_FILE / 100)))
        files, more = sorted_once(files)
        written += more
        shares.append([opened(files, 0), opened(files, 1)])
    mean = np.mean(shares, axis=0)
    print(f"written {written:.0f}, opened {mean}, of a curve {whole}")
    assert written < 8_200 / 5
    assert (mean < np.array(whole) + 0.1).all()


def test_two_regions_are_two_groups_and_points_none() -> None:
    chance = np.random.default_rng(4)
    here = [box_of(some_rows(chance, 1) // 10) for _ in range(9)]
    there = [box_of(some_rows(chance, 1) // 10 + KEYS) for _ in range(9)]
    same = [box_of(np.full((A_FILE, 2), 7)) for _ in range(20)]
    groups = box_clusters([one for one, _ in (*here, *there, *same)]).groups
    assert sorted(len(group) for group in groups) == [9, 9]


def test_no_more_is_taken_than_a_task_may_and_the_rest_is_named() -> None:
    chance = np.random.default_rng(5)
    files = [box_of(some_rows(chance, 1))[0] for _ in range(40)]
    found = box_clusters(files, max_bytes=10 * files[0].file.bytes)
    assert [len(group) for group in found.groups] == [10]
    assert len(found.left) == 30
