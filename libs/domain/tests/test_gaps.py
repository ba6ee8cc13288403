"""When the enricher is asked, for what, and how often."""

from __future__ import annotations

import pytest
from firnline_domain.commands import ResyncTable
from firnline_domain.counters import TableCounters
from firnline_domain.gaps import AT_ONCE, GapReason, ask, ask_ms, wait
from firnline_domain.identity import TableName
from firnline_domain.values import replace

TABLE = TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7)


def asks(table: TableCounters, until_ms: int, step_ms: int = 500) -> list[tuple[int, ResyncTable]]:
    found = []
    for now_ms in range(0, until_ms + 1, step_ms):
        table, request = ask(table, now_ms)
        if request:
            found.append((now_ms, request))
    return found


@pytest.mark.parametrize(
    ("reason", "first_ms", "known"),
    [
        (GapReason.GAP, 3_000, 7),
        (GapReason.CHUNK_LOST, 3_000, None),
        (GapReason.REF_MOVED, 0, 7),
        (GapReason.FIRST_SEEN, 0, None),
        (GapReason.REPLACED, 0, None),
        (GapReason.OVERFLOW, 0, None),
        (GapReason.NEGATIVE, 0, None),
        (GapReason.MISCOUNTED, 0, None),
    ],
)
def test_the_first_request(reason: GapReason, first_ms: int, known: int | None) -> None:
    [(moment, request)] = asks(wait(TABLE, reason, 0), 5_000)
    assert (moment, request.known_snapshot_id, request.reason) == (first_ms, known, reason)
    assert (reason in AT_ONCE) == (first_ms == 0)


def test_requests_grow_rarer_and_in_the_end_ask_for_everything() -> None:
    found = asks(wait(TABLE, GapReason.GAP, 0), 100_000)
    assert [moment for moment, _ in found] == [3_000, 13_000, 33_000, 73_000]
    assert [request.known_snapshot_id for _, request in found] == [7, 7, None, None]


def test_the_pause_between_requests_is_bounded() -> None:
    table = wait(TABLE, GapReason.GAP, 0)
    assert table.waiting is not None
    tired = replace(table, waiting=replace(table.waiting, asked_ms=0, asks=40))
    assert ask_ms(tired) == 300_000


def test_a_graver_reason_asks_anew_and_a_lighter_one_does_not() -> None:
    table, _ = ask(wait(TABLE, GapReason.GAP, 0), 3_000)
    assert wait(table, GapReason.GAP, 4_000) == table
    graver = wait(table, GapReason.NEGATIVE, 4_000)
    assert ask_ms(graver) == 4_000
    assert wait(graver, GapReason.GAP, 5_000) == graver


def test_a_ref_move_asks_anew_and_keeps_what_only_absolute_counters_heal() -> None:
    doubtful, _ = ask(wait(TABLE, GapReason.NEGATIVE, 0), 0)
    moved = wait(doubtful, GapReason.REF_MOVED, 4_000, wanted=3)
    assert ask_ms(moved) == 4_000
    assert moved.waiting is not None
    assert moved.waiting.absolute


def test_nothing_missing_nothing_asked() -> None:
    assert asks(TABLE, 10_000) == []
    assert ask_ms(TABLE) is None
