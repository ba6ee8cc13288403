"""Which files are sorted together, and what that costs over the days."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from firnline_iceberg.metadata.entries import DataFileEntry, EntryStatus
from firnline_worker.plan.overlap import KeyRange, depth_of, find_clusters

KEYS = 1_000_000
UNIT = 1_000_000  # bytes of a file of the target size


def spread(low: Any, high: Any, size: float = 1.0) -> KeyRange:
    file = DataFileEntry(
        path=f"{random.random()}", manifest_path="m", status=EntryStatus.ADDED, snapshot_id=1,
        sequence_number=1, file_sequence_number=1, spec_id=0, partition="[]", format="PARQUET",
        records=1, bytes=int(size * UNIT),
    )  # fmt: skip
    return KeyRange(file, (2, low), (2, high))


def run(size: int, low: float = 0, high: float = KEYS) -> list[KeyRange]:
    """What one sort has left: `size` files beside each other."""
    step = (high - low) / size
    return [spread(low + n * step, low + (n + 1) * step - 1) for n in range(size)]


def chosen(spreads: list[KeyRange], **more: Any) -> list[int]:
    """Numbers of the spreads whose files are sorted, group by group."""
    number = {id(one.file): at for at, one in enumerate(spreads)}
    return [number[id(file)] for group in find_clusters(spreads, **more).groups for file in group]


def test_files_that_lie_beside_each_other_are_left_alone() -> None:
    assert chosen(run(50)) == []
    assert depth_of(run(50)).most == 1


def test_as_many_files_over_each_other_as_are_allowed_are_left_alone() -> None:
    few = run(50) + [spread(0, KEYS) for _ in range(4)]
    assert (chosen(few), depth_of(few).most) == ([], 5)


def test_new_files_are_sorted_together_and_what_is_sorted_is_not_sorted_again() -> None:
    new = [spread(number, KEYS - number) for number in range(5)]
    assert sorted(chosen(run(50) + new)) == [50, 51, 52, 53, 54]


def test_a_run_that_is_not_much_larger_goes_with_them() -> None:
    """A run of 6 beside 4 new ones: less than twice as large, one of 50 is more."""
    middle, new = run(6), [spread(number, KEYS - number) for number in range(4)]
    assert sorted(chosen(run(50) + middle + new)) == list(range(50, 60))
    large = run(40)
    assert sorted(chosen(run(150) + large + new)) == list(range(190, 194))


def test_where_keys_do_not_meet_nothing_is_sorted() -> None:
    """New rows of the last hundredth of the keys, as of a time: the others stay as they are."""
    late = [spread(KEYS * 0.99 + n, KEYS) for n in range(6)]
    assert sorted(chosen(run(100) + late)) == [99, 100, 101, 102, 103, 104, 105]


def test_two_regions_are_two_groups() -> None:
    few = [spread(n, 9_000) for n in range(5)] + [spread(500_000 + n, 509_000) for n in range(5)]
    groups = find_clusters(run(100) + few).groups
    assert [len(group) for group in groups] == [6, 6]  # each with the file that was there


def test_files_of_one_key_and_texts_that_bounds_cut_off_are_left_alone() -> None:
    """To sort them makes none of them narrower, and they would be sorted for ever."""
    same = [spread(7, 7) for _ in range(9)]
    assert (chosen(same), depth_of(same).most) == ([], 9)
    name = "customer-0000000"
    assert chosen([spread(name, name[:-1] + "1") for _ in range(9)]) == []
    assert len(chosen([spread("a", "b") for _ in range(9)])) == 9


def test_files_without_bounds_lie_over_all_others() -> None:
    unknown = [KeyRange(spread(0, 0).file, (0,), (4,)) for _ in range(5)]
    assert sorted(chosen(run(50) + unknown)) == [50, 51, 52, 53, 54]


def test_no_more_is_taken_than_a_task_may_and_the_rest_is_named() -> None:
    new = [spread(number, KEYS - number) for number in range(40)]
    found = find_clusters(run(200) + new, max_bytes=10 * UNIT)
    assert [len(group) for group in found.groups] == [10]
    assert len(found.left) == 30


def sorted_anew(spreads: list[KeyRange]) -> list[KeyRange]:
    """Rows of each file lie evenly over its keys."""
    at = sorted({one.low[1] for one in spreads} | {one.high[1] for one in spreads})
    total = sum(one.file.bytes for one in spreads) / UNIT
    goal = total / max(round(total), 1)
    made, held, start = list[KeyRange](), 0.0, at[0]
    for low, high in pairwise(at):
        here = [one for one in spreads if one.low[1] <= low and one.high[1] >= high]
        per_key = sum(one.file.bytes / UNIT / (one.high[1] - one.low[1]) for one in here)
        while per_key and held + per_key * (high - low) >= goal and len(made) < round(total) - 1:
            low += (goal - held) / per_key
            made.append(spread(start, low - 1e-6, goal))
            start, held = low, 0.0
        held += per_key * (high - low)
    return [*made, spread(start, at[-1], held)]


def after_days(days: int, every: int = 0, in_one: bool = False) -> tuple[float, float]:
    """Of a table of 100 files that grows by 1 % a day, all new rows having any key: files' worth
    written, and the share of files that a reader of one key leaves out. `every`: days after which
    all is sorted, in the place of ours. `in_one`: a day's rows are one file, of whatever size."""
    chance, files, written, left_out = random.Random(1), run(100), 0.0, 0.0
    for day in range(1, days + 1):
        new = sum(one.file.bytes for one in files) / 100 / UNIT
        while new > 0:
            size = new if in_one else min(new, 1)
            files.append(spread(chance.random() * 99, KEYS - chance.random() * 99, size))
            new -= size
        groups = find_clusters(files).groups if not every else () if day % every else (
            tuple(one.file for one in files),
        )  # fmt: skip
        for group in groups:
            taken = {id(file) for file in group}
            written += sum(file.bytes for file in group) / UNIT
            again = [one for one in files if id(one.file) in taken]
            files = [one for one in files if id(one.file) not in taken] + sorted_anew(again)
        for key in range(5_000, KEYS, 10_000):
            opened = sum(one.low[1] <= key <= one.high[1] for one in files)
            left_out += (1 - opened / len(files)) / 100
    return written, left_out / days


def test_an_eighth_is_written_of_what_full_sorts_write_that_leave_out_as_many_files() -> None:
    """Full sorts every third day leave out more files than ours, every fifth day fewer."""
    ours, left_out = after_days(60)
    third, more = after_days(60, every=3)
    fifth, fewer = after_days(60, every=5)
    assert fewer < left_out < more
    as_many = fifth + (third - fifth) * (left_out - fewer) / (more - fewer)
    assert as_many / ours > 8
    daily, most = after_days(60, every=1)
    assert most - left_out < 0.025
    assert daily / ours > 30


def test_the_fewer_files_come_the_less_there_is_to_spare() -> None:
    """One file a day: full sorts every sixth day leave out as many."""
    ours, left_out = after_days(60, in_one=True)
    sixth, more = after_days(60, every=6, in_one=True)
    assert 0 < more - left_out < 0.003
    assert sixth / ours > 4


def test_a_run_that_is_chosen_over_a_part_of_its_keys_goes_along_as_a_whole() -> None:
    """Else what is left of it is a run of its own, and too deep on another day."""
    new = [spread(number, KEYS * 0.8 - number) for number in range(4)]
    assert sorted(chosen(run(50) + run(5) + new, max_depth=4)) == list(range(50, 59))


def test_of_a_run_that_is_larger_than_what_is_chosen_nothing_more_is_taken() -> None:
    """Five files over a tenth of the keys, and four of them over all: not all the others."""
    wide = [spread(number, KEYS - number) for number in range(4)]
    narrow = [spread(n, KEYS * 0.1 - n, 0.1) for n in range(5)]
    assert len(chosen(run(50) + wide + narrow)) < 20
