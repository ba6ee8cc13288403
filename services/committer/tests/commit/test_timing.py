"""When a commit waits for the next one of a writer that deletes rows all the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from firnline_committer.commit.held_catalog import without_gateway
from firnline_committer.commit.timing import (
    LATE,
    LONGEST_MS,
    POLL_S,
    CommitTiming,
    commit_interval_ms,
    names_rows,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

NOW = 1_000_000


def every(interval: int, count: int = 5, newest: int = NOW - 400) -> list[int]:
    return [newest - n * interval for n in range(count)]


@pytest.mark.parametrize("interval", [200, 1_000, LONGEST_MS])
def test_a_steady_writer_has_an_interval(interval: int) -> None:
    assert commit_interval_ms(every(interval), NOW) == interval
    assert commit_interval_ms(every(interval, count=2), NOW) == interval


def test_one_long_pause_does_not_end_it() -> None:
    assert (
        commit_interval_ms([NOW - 100, NOW - 1_100, NOW - 9_000, NOW - 10_000, NOW - 11_000], NOW)
        == 1_000
    )


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([], "nobody deletes"),
        (every(1_000, count=1), "one commit is no interval"),
        (every(LONGEST_MS + 1), "too slow to be waited for"),
        (every(1_000, newest=NOW - 3_000), "it has ended"),
        ([NOW] * 5, "several commits with one timestamp"),
    ],
)
def test_there_is_none(times: list[int], why: str) -> None:
    assert commit_interval_ms(times, NOW) is None, why


def test_a_clock_that_is_ahead_of_ours_still_has_an_interval() -> None:
    assert commit_interval_ms(every(1_000, newest=NOW + 60_000), NOW) == 1_000


@pytest.mark.parametrize(
    ("summary", "operation", "named"),
    [
        ({"added-position-deletes": "5"}, "delete", True),
        ({"added-dvs": "1"}, "overwrite", True),
        ({"deleted-data-files": "2", "added-data-files": "2"}, "overwrite", True),
        ({"deleted-data-files": "2"}, "delete", False),  # dropped whole, by what they hold
        ({"deleted-data-files": "9", "added-position-deletes": "3"}, "replace", False),
        ({"added-position-deletes": "5", "added-equality-deletes": "5"}, "overwrite", False),
        ({"added-data-files": "1"}, "append", False),
        ({"added-position-deletes": "²"}, "overwrite", False),
        ({"added-dvs": "1", "firnline.task-id": "t"}, "delete", False),  # our own conversion
    ],
)
def test_who_names_rows(summary: dict[str, str], operation: str, named: bool) -> None:
    assert names_rows(summary, operation) is named


class QuietTable:
    """A table that nobody commits to, whose read takes a busy host's time."""

    identity = None

    def __init__(self, clock: list[int], read_ms: int) -> None:
        self.clock, self.read_ms, self.reads = clock, read_ms, 0

    def load(self, _: object) -> QuietTable:
        self.clock[0] += self.read_ms
        self.reads += 1
        return self

    def head_id(self, _: str) -> None:
        return None

    def ancestors(self, _: None) -> tuple[()]:
        return ()


@pytest.mark.parametrize("read_ms", [1, 200, 30_000])
def test_a_writer_is_waited_for_by_the_clock_however_long_a_read_takes(read_ms: int) -> None:
    clock = [NOW]
    table = QuietTable(clock, read_ms)

    def sleep(seconds: float) -> None:
        clock[0] += round(seconds * 1000)

    timing = CommitTiming(without_gateway(table), lambda: clock[0], sleep)  # type: ignore[arg-type]
    timing.wait_for_commit(table, "main", LONGEST_MS)  # type: ignore[arg-type]
    assert clock[0] - NOW <= LATE * LONGEST_MS + read_ms + POLL_S * 1000
    assert table.reads >= 1


class BusyTable:
    """A table whose writers' commits come at given times after NOW."""

    identity = None

    def __init__(self, clock: list[int], commits_ms: list[int]) -> None:
        self.clock, self.commits_ms, self.loaded_ms = clock, commits_ms, clock[0]

    def load(self, _: object) -> BusyTable:
        self.clock[0] += 5
        return BusyTable(self.clock, self.commits_ms)

    def head_id(self, _: str) -> int:
        return sum(NOW + at <= self.loaded_ms for at in self.commits_ms)

    def retains(self, snapshot_id: int) -> bool:
        return snapshot_id <= self.head_id("main")

    def ancestors(self, head: int) -> Iterator[Snapshot]:
        for number in range(head, 0, -1):
            at_ms = NOW + self.commits_ms[number - 1]
            summary = Summary(Operation.DELETE, **{"added-position-deletes": "1"})
            named = {"snapshot-id": number, "timestamp-ms": at_ms, "manifest-list": "-"}
            yield Snapshot(**named, summary=summary)


@pytest.mark.parametrize(
    ("commits_ms", "sent_ms"),
    [
        ([-300, 0, 300], 300 + 600),  # one writer, whose reads are held: none comes
        ([-200, 0, 200, 280, 340], 340 + 400),  # two others were in the middle of a statement
        ([-1_000, 0, 1_000], 1_000),  # a writer that pauses: it is met in its pause
        ([-100, 0, *range(100, 5_000, 100)], 100 + 1_200),  # no gateway holds their reads
    ],
)
def test_statements_that_were_under_way_are_waited_for(commits_ms: list[int], sent_ms: int) -> None:
    clock = [NOW]
    table = BusyTable(clock, commits_ms)

    def sleep(seconds: float) -> None:
        clock[0] += round(seconds * 1000)

    timing = CommitTiming(without_gateway(table), lambda: clock[0], sleep)  # type: ignore[arg-type]
    interval_ms = timing.interval_ms(table, "main")  # type: ignore[arg-type]
    assert interval_ms is not None
    timing.wait_for_commit(table, "main", interval_ms)  # type: ignore[arg-type]
    assert sent_ms <= clock[0] - NOW <= sent_ms + 2 * (POLL_S * 1000 + 5)
