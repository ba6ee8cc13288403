"""Which files of a partition an order takes, and in which groups."""

from __future__ import annotations

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.records.results import DeleteKind, InputFile, OutputFile, RewriteGroup
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles
from firnline_worker.plan.dead_ratios import dead_ratios, dead_rows_left
from firnline_worker.plan.planning import (
    MAX_OUTPUTS,
    NOTHING,
    TimeSpanLimit,
    plan,
    refuse_duplicates,
    refuse_unclear_paths,
    split_evenly,
)
from firnline_worker.rewrite import outputs

from tests.kit.file_entries import TARGET, data, delete, entry, paths, planned


@pytest.mark.parametrize(
    ("files", "deletes", "said"),
    [
        ([data("file:/w/a"), data("file:///w/a", 2)], (), "/w/a is in the table more than once"),
        ([data("a"), data("a", 1, 500, "[2]")], (), "a is in the table"),  # removed by path alone
        ([data("a")], (delete("d", 2), delete("d", 5)), "d is in the table"),
    ],
)
def test_a_table_with_a_file_twice_is_refused(files, deletes, said):
    with pytest.raises(TaskRefused, match=said) as refused:
        refuse_duplicates(LiveFiles(1, tuple(files), tuple(deletes)))
    assert (refused.value.reason, refused.value.retryable) == ("duplicate_files", False)


@pytest.mark.parametrize("path", ["s3://b/a#1", "s3://b/a?1", "/w/a;1", "/w/../a", "s3://b//a"])
def test_a_table_with_a_path_that_is_read_in_two_ways_is_refused(path):
    """Before an executor, or Iceberg's own action, looks for the file."""
    clear = data("s3://b/p=%2F/é b.parquet")
    refuse_unclear_paths(LiveFiles(1, (clear,), ()))
    for live in (LiveFiles(1, (clear, data(path)), ()), LiveFiles(1, (clear,), (delete(path, 2),))):
        with pytest.raises(TaskRefused, match="path") as refused:
            refuse_unclear_paths(live)
        assert refused.value.reason == "unclear_path"
        assert path in str(refused.value)


def test_vectors_share_a_file_and_are_no_duplicates():
    def vector(of, offset):
        made = entry("v.puffin", 3, 9, "[1]")
        about = {"referenced_data_file": of, "content_offset": offset, "content_size": 4}
        return DeleteFileEntry(**made, kind=DeleteKind.DELETION_VECTOR, **about)

    refuse_duplicates(LiveFiles(1, (data("a"), data("b")), (vector("a", 4), vector("b", 8))))


def test_files_with_applicable_deletes_and_fragments_are_taken():
    files = [
        data("a", 1),
        data("b", 5),  # newer than the delete
        data("f", 6, 99),
        data("g", 7, 99),
        data("z", 1, 500, "[2]"),
    ]
    made = planned(files, [delete("d", 3), delete("late", 1), delete("other", 9, "[2]")])
    assert paths(made.groups) == ["afg"]
    assert [d.path for d in made.deletes] == ["d"]


HOUR = 3_600_000
HOURS = TimeSpanLimit(HOUR, {number: number * HOUR // 2 for number in range(3, 12)})


def test_what_is_far_apart_in_time_is_not_merged():
    """Half an hour between two commits, and an hour at most in a file; those before number 3 are
    of snapshots that have expired."""
    old = [data("a", 1, 50), data("b", 2, 50), data("c", 3, 50)]
    new = [data("d", 6, 50), data("e", 8, 50), data("f", 9, 50, "[2]"), data("lone", 11, 50)]
    made = planned(old + new, limit=HOURS)
    assert paths(made.groups) == ["abc", "de"]
    merged = planned([*old, data("u", 5, 390), data("v", 10, 390)], action="merge", limit=HOURS)
    assert paths(merged.groups) == ["abcu"]
    two = [data("a", 3, 50), data("b", 6, 50), data("f", 9, 50, "[2]")]
    assert planned(two, limit=HOURS) == NOTHING
    assert paths(planned(two).groups) == ["ab"]


def test_deletes_are_applied_whatever_the_time_and_the_files_stay_apart():
    files = [data("a", 3), data("b", 4), data("c", 9), data("z", 1, 500, "[2]")]
    made = planned(files, [delete("d", 10)], limit=HOURS)
    assert paths(made.groups) == ["ab", "c"]


def test_the_whole_table_is_two_groups_at_least_whatever_the_time():
    files = [data("a", 3), data("b", 4)]
    assert paths(planned(files, [delete("d", 10)], limit=HOURS).groups) == ["a", "b"]
    apart = [data("a", 3), data("b", 9)]
    assert paths(planned(apart, [delete("d", 10)], limit=HOURS).groups) == ["a", "b"]


def position(path: str, of: str, partition: str = "[1]") -> DeleteFileEntry:
    made = entry(path, 9, 9, partition) | {"records": 1}
    return DeleteFileEntry(**made, kind=DeleteKind.POSITION, referenced_data_file=of)


def test_a_conversion_rewrites_fragments_and_leaves_larger_files():
    files = [data("a", 1), data("b", 9), data("f", 2, 99), data("g", 9, 99), data("p", 9)]
    deletes = [delete("d", 3), position("x", "a"), position("y", "f"), position("z", "p")]
    made = planned(files, deletes, action=Action.CONVERT)
    assert paths(made.groups) == ["fg"]
    assert [file.path for file in made.converted] == ["a"]
    assert sorted(d.path for d in made.deletes) == ["d", "y"]  # `a` and `p` keep theirs
    assert sorted(file.path for file in made.files_to_read) == ["a", "f", "g"]


def test_under_deletes_that_reach_other_partitions_nothing_is_converted():
    """They would stay, and be applied to the same files again by every conversion."""
    reaching = delete("d", 3, "[]")
    made = planned([data("a"), data("z", 1, 500, "[2]")], [reaching], action=Action.CONVERT)
    assert (paths(made.groups), made.converted) == (["a"], ())
    whole = planned([data("a", partition="[]")], [reaching], "[]", Action.CONVERT)
    assert (whole.groups, [file.path for file in whole.converted]) == ((), ["a"])


def vector(of: str, records: int) -> DeleteFileEntry:
    made = entry(f"v-{of}", 9, 9, "[1]") | {"records": records}
    return DeleteFileEntry(**made, kind=DeleteKind.DELETION_VECTOR, referenced_data_file=of)


def of_partition(path: str, sequence: int, records: int = 9) -> DeleteFileEntry:
    made = entry(path, sequence, 9, "[1]") | {"records": records}
    return DeleteFileEntry(**made, kind=DeleteKind.POSITION)


def taken(made):
    converted = "".join(sorted(file.path for file in made.converted))
    return "".join(sorted("".join(paths(made.groups)))), converted


def test_files_are_rewritten_from_a_share_of_dead_rows_on():
    """Of 10 rows each; three files are below the ratio, and one has no delete."""
    files = [data(name, n) for n, name in enumerate("abcde", 1)]
    deletes = [vector("a", 1), vector("b", 2), vector("c", 3), vector("d", 10)]
    assert taken(planned(files, deletes, ratio=0.3)) == ("cd", "")
    assert taken(planned(files, deletes, action=Action.CONVERT, ratio=0.21)) == ("cd", "")
    assert taken(planned(files, deletes, action=Action.MERGE)) == ("d", "")  # it has no row left
    made = planned(files, deletes, ratio=0.3)
    assert sorted(one.path for one in made.deletes) == ["v-c", "v-d"]


def test_below_it_what_equality_deletes_say_is_converted_in_the_same_order():
    files = [data("a", 1), data("b", 1), data("c", 1), data("n", 9)]
    deletes = [delete("d", 5), vector("a", 4)]
    made = planned(files, deletes, action=Action.CONVERT, ratio=0.5)
    assert taken(made) == ("a", "bc")
    assert sorted(one.path for one in made.deletes) == ["d", "v-a"]
    assert taken(planned(files, deletes, ratio=0.5)) == ("a", "")  # the delete stays
    assert taken(planned(files, deletes)) == ("abc", "")
    assert taken(planned(files, deletes, action=Action.MERGE)) == ("", "")


@pytest.mark.parametrize(
    ("deletes", "ratios"),
    [
        ([vector("a", 4)], {"a": 0.4}),
        ([position("x", "a"), position("y", "a")], {"a": 0.2}),
        ([of_partition("p", 2, 4)], {"a": 0.2, "b": 0.2}),  # `c` is newer
        ([of_partition("p", 3, 9), vector("b", 1)], {"a": 0.3, "b": 0.1, "c": 0.3}),  # hides it
        ([delete("d", 3)], {"a": 0.393, "b": 0.393}),  # 10 of 20 rows, some of them twice
        ([delete("d", 2), delete("e", 9)], {"a": 0.736, "b": 0.283, "c": 0.283}),
        ([delete("d", 2), vector("a", 5)], {"a": 1 - 0.5 * 0.3679}),
    ],
)  # fmt: skip
def test_the_share_of_dead_rows(deletes, ratios):
    live = LiveFiles(1, (data("a", 1), data("b", 2), data("c", 3)), tuple(deletes))
    found = dead_ratios(live.files_of_scope(Scope(0, "[1]")), live)
    assert {path: round(ratio, 3) for path, ratio in found.items()} == {
        path: round(ratio, 3) for path, ratio in ratios.items()
    }


def test_a_global_delete_is_spread_over_all_partitions():
    """Ten keys, forty rows."""
    files = [data(name, 1, partition=p) for name, p in (("a", "[1]"), ("b", "[2]"), ("c", "[2]"))]
    live = LiveFiles(1, (*files, data("d", 1, partition="[3]")), (delete("g", 2, "[]"),))
    found = dead_ratios(live.files_of_scope(Scope(0, "[1]")), live)
    assert round(found["a"], 3) == round(1 - 2.7182818**-0.25, 3)


def test_how_dead_rows_lie_after_a_rewrite():
    """`a` is rewritten, `b` converted, `c` left, and `f` is a fragment."""
    files = [data(name, 1) for name in "abc"] + [data("f", 1, 10)]
    live = LiveFiles(1, tuple(files), (vector("a", 9), vector("b", 1), vector("c", 3)))
    taken = [InputFile(name, 1, 10, 500) for name in "ab"]
    groups = [
        RewriteGroup(taken[:1], (OutputFile("o", 1, 200, "{}"),), 10, 9, 1),
        RewriteGroup(taken[1:], (), 10, 4, 6, converts=True),
    ]
    empty, left = DeadRows(), dead_rows_left(live, Scope(0, "[1]"), groups, TARGET)
    assert left[0] == DeadRows(1, 200, 1, 0)
    assert left[1:] == (empty, empty, empty, DeadRows(1, 500, 10, 3), DeadRows(1, 500, 10, 5))
    before = dead_rows_left(live, Scope(0, "[1]"), (), TARGET)
    assert [one.dead for one in before] == [0, 0, 1, 0, 3, 9]


def test_more_position_deletes_than_a_few_become_one():
    files = [data("a", 1), data("b", 2)]
    deletes = [of_partition(f"p{n}", 1 + n // 4, 0) for n in range(5)]
    made = planned(files, deletes, action=Action.CONVERT)
    assert taken(made) == ("", "a")  # one of the five reaches `b`
    assert made.deletes == ()
    assert taken(planned(files, deletes[:4], action=Action.CONVERT)) == ("", "")
    assert taken(planned(files, deletes, ratio=0.9)) == ("", "")


def test_a_conversion_merges_undersized_files_where_they_fill_one():
    files = [data("a", 1, 300), data("b", 1, 300), data("c", 1, 250), data("d", 1, 700)]
    assert taken(planned(files, [delete("x", 2)], action=Action.CONVERT)) == ("abc", "d")
    assert taken(planned(files[1:], [delete("x", 2)], action=Action.CONVERT)) == ("", "bcd")


def test_one_fragment_alone_is_left_where_it_is():
    assert planned([data("a"), data("f", 2, 10)]) == NOTHING
    assert paths(planned([data("a"), data("f", 1, 10)], [delete("d", 2)]).groups) == ["a", "f"]
    assert paths(planned([data("a"), data("f", 2, 10)], [delete("d", 2)]).groups) == ["a"]


@pytest.mark.parametrize(
    ("case", "sizes", "taken"),
    [
        ("they fill a file", [300, 300, 250], "abc"),
        ("they do not", [300, 300, 150], ""),
        ("two do not fit into one", [500, 500, 450], ""),
        ("together with a fragment they do", [300, 250, 200, 60], "abcd"),
        ("fragments that fill none go alone", [300, 60, 60], "bc"),
        ("a fragment beside files of the right size", [700, 700, 60], ""),
    ],
)
def test_undersized_files_are_taken_where_they_fill_one(case, sizes, taken):
    files = [data(name, 1, size) for name, size in zip("abcd", sizes, strict=False)]
    files.append(data("z", 1, 700, "[2]"))
    made = planned(files, action=Action.MERGE)
    assert "".join(sorted("".join(paths(made.groups)))) == taken
    alone = "".join(file.path for file in planned(files).inputs)
    assert alone == ("bc" if "alone" in case else "")


def test_the_whole_table_makes_two_groups_a_part_of_it_one():
    files = [data(name, 1, 100) for name in "abc"]
    assert paths(planned(files, [delete("d", 2)]).groups) == ["ab", "c"]
    more = [*files, data("z", 1, 100, "[2]")]
    assert paths(planned(more, [delete("d", 2)]).groups) == ["abc"]
    alone = planned([data("a")], [delete("d", 2)])
    assert paths(alone.groups) == ["a"]


def test_a_merge_that_lessens_nothing_is_nothing():
    assert planned([data("f", 1, 10), data("g", 2, 10)]) == NOTHING
    three = [data(name, n, 10) for n, name in enumerate("fgh")]
    assert len(planned(three).groups) == 2


@pytest.mark.parametrize(
    ("sizes", "least", "expected"),
    [
        ([500, 300, 1], 1, [[500, 300, 1]]),
        ([900, 1, 900], 1, [[900, 1], [900]]),
        ([600] * 6, 1, [[600, 600], [600, 600], [600, 600]]),
        ([10_000, 1, 1], 1, [[10_000], [1], [1]]),
        ([1, 1, 10_000], 1, [[1], [1], [10_000]]),
        ([], 2, []),
        ([1, 1, 1, 700], 2, [[1, 1, 1], [700]]),
        ([700, 1, 1, 1], 2, [[700], [1, 1, 1]]),
        ([1], 2, [[1]]),
    ],
)
def test_groups_are_even_shares_in_order(sizes, least, expected):
    files = [data(str(n), n, size) for n, size in enumerate(sizes)]
    made = split_evenly(files, TARGET, least)
    assert [[file.bytes for file in group] for group in made] == expected


@pytest.mark.parametrize("text", ["1", "1000", "1e3", "0", "-5", str(1 << 40), "1_000"])
@pytest.mark.parametrize("files", [1, 40, 3_000])
def test_whatever_size_is_asked_for_the_outputs_are_not_many(text, files):
    """A terabyte, and by `write.target-file-size-bytes=1` a name for each half of a byte."""
    inputs = [data(f"f{n:05}", n, (1 << 40) // files) for n in range(files)]
    target = target_bytes_of({"write.target-file-size-bytes": text})
    live = LiveFiles(1, tuple(inputs), (delete("d", files + 1),))
    made = plan(live, Scope(0, "[1]"), target)
    assert [file for group in made.groups for file in group] == inputs
    names = [outputs.name_count(group, made.target_bytes) for group in made.groups]
    assert sum(names) <= 2 * MAX_OUTPUTS + 3 * len(names)
    assert made.target_bytes >= target
    sensible = target >= (1 << 40) // MAX_OUTPUTS
    assert (made.target_bytes == target) is sensible


def test_names_have_a_ceiling_of_their_own():
    assert outputs.name_count((data("a", size=1 << 50),), 1) == outputs.MAX_NAMES
