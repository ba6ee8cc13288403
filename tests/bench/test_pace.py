"""How the bars of a stream of commits come from what was seen and told."""

from __future__ import annotations

import pytest

from bench.rewrite.engines import Failed
from bench.rewrite.pace import Ended, Rewritten, Share, longest_gap_s, share, waits_s
from bench.rewrite.parts.streams import SMALL_BYTES, Load, Seen, Told, body
from bench.rewrite.trees import Usage

PATIENCE_MS = 30_000


def result(task="t", attempt=1, size=100, finished_ms=1_000):
    return Rewritten(task, attempt, size, finished_ms)


def landed(task="t", at_ms=1_500, lost=0):
    return Ended(task, at_ms, True, lost)


def refused(task="t", at_ms=1_500):
    return Ended(task, at_ms, False)


@pytest.mark.parametrize(
    ("commits_ms", "gap_s"),
    [
        ([], 60.0),
        ([40_000], 40.0),
        ([10_000], 50.0),
        ([50_000, 10_000, 15_000], 35.0),
        ([-5_000, 30_000, 65_000], 30.0),
    ],
    ids=["none at all", "before the first", "after the last", "in any order", "others outside"],
)
def test_time_before_the_first_and_after_the_last_commit_counts(commits_ms, gap_s):
    assert longest_gap_s(0, commits_ms, 60_000) == gap_s


def test_what_a_commit_took_and_what_it_left_out():
    found = share([result(size=100)], [landed(lost=30)], 60_000, PATIENCE_MS)
    assert found == Share(rewritten=100, committed=70, young=0)
    assert found.missed == pytest.approx(0.3)


def test_a_refused_attempt_is_lost_though_the_next_one_is_committed():
    results = [result(attempt=1), result(attempt=2, finished_ms=3_000)]
    ends = [refused(at_ms=2_000), landed(at_ms=4_000)]
    assert share(results, ends, 60_000, PATIENCE_MS) == Share(200, 100, 0)


def test_a_commit_counts_for_one_attempt_alone():
    results = [result(attempt=1), result(attempt=2, finished_ms=3_000)]
    assert share(results, [landed(at_ms=4_000)], 60_000, PATIENCE_MS) == Share(200, 100, 0)


def test_the_same_record_twice_is_one():
    found = share([result(), result()], [landed(), landed(at_ms=1_600)], 60_000, PATIENCE_MS)
    assert found == Share(100, 100, 0)


def test_what_waits_for_long_is_lost_and_what_has_just_come_is_not_judged():
    results = [result("old", finished_ms=29_000), result("young", finished_ms=31_000)]
    assert share(results, [], 60_000, PATIENCE_MS) == Share(100, 0, 100)


def test_a_commit_after_the_end_does_not_count():
    found = share([result()], [landed(at_ms=60_001)], 60_000, PATIENCE_MS)
    assert found == Share(100, 0, 0)


def test_where_nothing_was_rewritten_nothing_is_met():
    assert share([], [], 60_000, PATIENCE_MS).missed == 1.0


def test_a_wait_is_from_the_result_to_its_commit_or_so_far():
    results = [
        result("a"),
        result("b"),
        result("open", finished_ms=50_000),
        result("late", 1, 1, 70_000),
    ]
    ends = [landed("a", 1_500), refused("b", 9_000)]
    assert waits_s(results, ends, 60_000) == [0.5, 10.0]


def metadata(files, size, ours=()):
    head = {"total-data-files": str(files), "total-files-size": str(size)}
    snapshots = [snapshot(1), *(snapshot(one, **{"firnline.task-id": "t"}) for one in ours)]
    return {"current-snapshot-id": 9, "snapshots": [*snapshots, snapshot(9, **head)]}


def snapshot(number, **summary):
    return {"snapshot-id": number, "timestamp-ms": number, "summary": summary}


def test_small_files_are_those_of_the_head_and_commits_are_ours():
    seen = Seen()
    seen.take({"snapshots": []})
    seen.take(metadata(7, 1_000))
    seen.take(metadata(3, 1_000, ours=[4, 6]))
    assert seen.small == [0, 7, 3]
    assert seen.ours == {4: 4, 6: 6}


def test_a_table_that_may_have_files_that_are_not_small_is_no_measure():
    with pytest.raises(Failed, match="large"):
        Seen().take(metadata(2, SMALL_BYTES))


def test_every_bar_of_a_starved_table_is_missed():
    """Ten minutes without a commit, a tenth of the appends failed; what was before is left out."""
    seen, told = {"hot": Seen(small=[0, 278]), "quiet": Seen()}, {"hot": Told(), "quiet": Told()}
    told["hot"].results.append(result(finished_ms=5_000))
    told["quiet"].results += [result(finished_ms=1_000), result("before", finished_ms=-9_000)]
    told["quiet"].ends.append(landed(at_ms=3_500))
    usage = Usage(600.0, 900.0, 1, 2, {}, {})
    book = [append("landed")] * 90 + [append("failed")] * 10 + [append("landed", at_ms=-1)] * 99
    found = body(Load(), (0, 600_000), seen, told, {"hot": book, "quiet": book}, usage)
    assert {bar.what: (bar.found.median, bar.met) for bar in found["bars"]} == {
        "longest time without a commit of ours, s": (600.0, False),
        "share of rewritten bytes that no commit took": (1.0, False),
        "small files, most at any time": (278, False),
        "share of the appends that failed": (0.1, False),
        "a result's wait for its commit, quiet table, s": (2.5, None),
    }


def append(outcome, at_ms=1):
    return {"append": 0, "outcome": outcome, "took_s": 0.1, "why": "", "at_ms": at_ms}
