"""What one order takes of a large partition, and what a pass has taken in the end."""

from __future__ import annotations

import pytest
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_worker.plan.planning import NOTHING
from firnline_worker.plan.slices import (
    ANY_SIZE,
    NOTHING_LEFT,
    RemainingWork,
    SliceLimit,
    cut_slice,
    slice_limit,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import make
from tests.kit.file_entries import TARGET, data, delete, planned


def test_a_merge_takes_the_oldest_as_far_as_one_order_goes():
    files = [data(name, 9 - n, 300) for n, name in enumerate("abcdef")]
    made = planned(files, action=Action.MERGE, slice_limit=SliceLimit(1000))
    assert "".join(sorted(file.path for file in made.inputs)) == "cdef"  # a group: 1.5 targets
    assert made.left == RemainingWork(2, 600)
    made = planned(files, action=Action.MERGE, slice_limit=SliceLimit(1500))
    assert (len(made.inputs), made.left) == (5, NOTHING_LEFT)  # the sixth has none to go with
    large = [data(name, n, 590) for n, name in enumerate("abcdef")]
    limit = SliceLimit(10)
    assert len(_merge_alone(large, limit)) == 2


def _merge_alone(files, limit):
    return cut_slice([], [files], 0, limit).taken


def test_a_slice_takes_the_oldest_debt_first_and_one_file_at_least():
    files = [data(name, 9 - n) for n, name in enumerate("abcd")]
    files += [data(name, 1, 99) for name in "fg"]
    deletes = [delete("d", 20), delete("x", 7)]
    made = planned(files, deletes, slice_limit=SliceLimit(1_250))
    assert sorted(f.path for f in made.inputs) == ["c", "d", "f", "g"]
    assert made.left == RemainingWork(2, 1_000)
    one = planned(files[:4], deletes, slice_limit=SliceLimit(1))
    assert ([f.path for f in one.inputs], one.left) == (["d"], RemainingWork(3, 1_500))


def test_what_is_only_merged_waits_for_all_that_has_deletes():
    files = [data(name, 3) for name in "abc"] + [data(name, 5, 99) for name in "fgh"]
    made = planned(files, [delete("d", 4)], slice_limit=SliceLimit(1_000))
    assert ([f.path for f in made.inputs], made.left) == (["a", "b"], RemainingWork(4, 500 + 297))
    made = planned(files, [delete("d", 4)], slice_limit=SliceLimit(1_700))
    assert ([f.path for f in made.inputs], made.left) == (list("abcfg"), NOTHING_LEFT)


def test_the_next_slice_does_not_take_what_the_pass_has_written_nor_what_came_since():
    files = [data("old", 3), data("start", 10), data("out", 10, added=11)]
    files += [data("new", 11, 99), data("other", 12, 99)]
    made = planned(files, [delete("d", 13)], slice_limit=SliceLimit(10_000, before=10))
    assert ([f.path for f in made.inputs], made.left) == (["old", "start"], NOTHING_LEFT)


def test_a_full_rewrite_takes_every_file_and_applies_every_delete():
    files = [data("a", 1), data("b", 9), data("c", 1, 900), data("alone", 3, 99)]
    full = planned(files, [delete("d", 5)], action=Action.FULL, ratio=0.0)
    assert sorted(f.path for f in full.inputs) == ["a", "alone", "b", "c"]
    assert [one.path for one in full.deletes] == ["d"]
    one = planned([data("a", 1, TARGET)], action=Action.FULL, ratio=0.0)
    assert [f.path for f in one.inputs] == ["a"]
    assert planned([data("a", 1, TARGET)], action=Action.COMPACT) == NOTHING


def test_a_full_pass_takes_each_file_once_slice_by_slice_and_what_its_start_has_added():
    """Such as a table that one commit has filled: no file is older than the start."""
    files, start, taken = [data(f"f{n}", 7) for n in range(5)], 7, list[str]()
    limit = SliceLimit(1_000)
    for number in range(3):
        made = planned(files, action=Action.FULL, ratio=0.0, slice_limit=limit)
        taken += [f.path for f in made.inputs]
        gone = {f.path for f in made.inputs}
        files = [f for f in files if f.path not in gone]
        files.append(data(f"o{number}", start, added=start + 1))
        limit, start = SliceLimit(1_000, before=7), start + 1
    assert (taken, made.left) == ([f"f{n}" for n in range(5)], NOTHING_LEFT)


def test_a_full_rewrite_of_a_v1_table_is_one_order():
    """Its files have no sequence numbers by which a pass would know its own outputs."""
    order = make("rewrite_files/compact", action="full", after=None)
    assert slice_limit(order).max_bytes > 0
    assert slice_limit(order, has_sequence_numbers=False) == ANY_SIZE


def test_a_slice_of_a_conversion_leaves_out_what_marks_answer_for():
    """It counts the bytes of the keys; files whose marks are void come last, and are not left."""
    files = [data(name, n, 400) for n, name in enumerate("abcde", 1)]
    deletes = [delete("d", 20)]
    limit = SliceLimit(130, 20, answered={files[0].normal_path}, void={files[1].normal_path})
    made = planned(files, deletes, action=Action.CONVERT, slice_limit=limit)
    assert [file.path for file in made.converted] == ["c", "d"]
    assert (made.groups, made.left) == ((), RemainingWork(1, 60))
    last = SliceLimit(
        130, 20, {one.normal_path for one in files[2:4]}, {one.normal_path for one in files[:2]}
    )
    made = planned(files, deletes, action=Action.CONVERT, slice_limit=last)
    assert [file.path for file in made.converted] == ["a", "e"]
    assert made.left == NOTHING_LEFT


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([20, 99, 300, 500, 900])), max_size=14),
    st.sampled_from(["compact", "merge"]),
    st.integers(1, 3_000),
    st.integers(2, 12),
)
def test_every_pass_ends_and_has_taken_what_one_order_would(sizes, action, most, deleted):
    """Slice by slice, the outputs with the number of their slice's start; a delete comes with each
    of the writers' commits in between, and would have every file taken again."""
    files = [data(f"f{n}", number, size) for n, (number, size) in enumerate(sizes)]
    deletes = [delete("d", deleted)] if action == "compact" else []
    whole = planned(files, deletes, action=action)
    limit, taken, start = SliceLimit(most), set[str](), 20
    for number in range(40):
        made = planned(files, deletes, action=action, slice_limit=limit)
        paths_of = {file.path for file in made.inputs}
        with_deletes = [f for f in made.inputs if f.sequence_number < deleted and deletes]
        size = sum(f.bytes for f in made.inputs)
        assert size <= max(most, 1.5 * TARGET) or len(made.inputs) <= (1 if with_deletes else 2)
        assert paths_of or not made.left.files
        taken |= paths_of
        written = data(f"o{number}", start, max(size, 1), added=start + 1)
        outputs_of = [written] if paths_of else []
        files = [f for f in files if f.path not in paths_of] + outputs_of
        if not made.left.files:
            break
        limit = SliceLimit(most, before=20)
        start += 1
        deletes = [*deletes, delete(f"later{number}", start)] if deletes else []
    else:
        pytest.fail("the pass has no end")
    if deletes:
        assert {f.path for f in whole.inputs if f.sequence_number < deleted} <= taken
    assert not any(path.startswith("o") for path in taken)
