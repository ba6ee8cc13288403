"""When the enricher is asked, for what, and how often."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.fold.missing_snapshots import (
    AT_ONCE,
    ResyncReason,
    hold_change,
    resync_ms,
    resync_request,
    wait_for_resync,
)
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.tallies import FileTally
from msgspec import msgpack

TABLE = TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7)


def asks(table: TableCounters, until_ms: int, step_ms: int = 500) -> list[tuple[int, ResyncTable]]:
    found = []
    for now_ms in range(0, until_ms + 1, step_ms):
        table, request = resync_request(table, now_ms)
        if request:
            found.append((now_ms, request))
    return found


@pytest.mark.parametrize(
    ("reason", "first_ms", "known"),
    [
        (ResyncReason.MISSING_PARENT, 3_000, 7),
        (ResyncReason.CHUNK_LOST, 3_000, None),
        (ResyncReason.REF_MOVED, 0, 7),
        (ResyncReason.FIRST_SEEN, 0, None),
        (ResyncReason.REPLACED, 0, None),
        (ResyncReason.OVERFLOW, 0, None),
        (ResyncReason.NEGATIVE, 0, None),
        (ResyncReason.MISCOUNTED, 0, None),
    ],
)
def test_the_first_request(reason: ResyncReason, first_ms: int, known: int | None) -> None:
    [(moment, request)] = asks(wait_for_resync(TABLE, reason, 0), 5_000)
    assert (moment, request.known_snapshot_id, request.reason) == (first_ms, known, reason)
    assert (reason in AT_ONCE) == (first_ms == 0)


def test_requests_grow_rarer_and_in_the_end_ask_for_everything() -> None:
    found = asks(wait_for_resync(TABLE, ResyncReason.MISSING_PARENT, 0), 100_000)
    assert [moment for moment, _ in found] == [3_000, 13_000, 33_000, 73_000]
    assert [request.known_snapshot_id for _, request in found] == [7, 7, None, None]


def test_the_pause_between_requests_is_bounded() -> None:
    table = wait_for_resync(TABLE, ResyncReason.MISSING_PARENT, 0)
    assert table.waiting is not None
    tired = replace(table, waiting=replace(table.waiting, asked_ms=0, asks=40))
    assert resync_ms(tired) == 300_000


def test_a_graver_reason_asks_anew_and_a_lighter_one_does_not() -> None:
    table, _ = resync_request(wait_for_resync(TABLE, ResyncReason.MISSING_PARENT, 0), 3_000)
    assert wait_for_resync(table, ResyncReason.MISSING_PARENT, 4_000) == table
    graver = wait_for_resync(table, ResyncReason.NEGATIVE, 4_000)
    assert resync_ms(graver) == 4_000
    assert wait_for_resync(graver, ResyncReason.MISSING_PARENT, 5_000) == graver


def test_a_ref_move_asks_anew_and_keeps_what_only_absolute_counters_heal() -> None:
    doubtful, _ = resync_request(wait_for_resync(TABLE, ResyncReason.NEGATIVE, 0), 0)
    moved = wait_for_resync(doubtful, ResyncReason.REF_MOVED, 4_000, wanted=3)
    assert resync_ms(moved) == 4_000
    assert moved.waiting is not None
    assert moved.waiting.absolute


def test_nothing_missing_nothing_asked() -> None:
    assert asks(TABLE, 10_000) == []
    assert resync_ms(TABLE) is None


def test_what_is_held_back_is_bounded_in_bytes() -> None:
    """A table's state must fit into its changelog, however long names and properties are."""
    name, held = TableName("u", ("db",), "t"), 0
    table = TableCounters(name, "main", known=True, head_snapshot_id=1)
    for snapshot in range(10, 40):
        part = PartitionChange(Scope(0, f'["{"x" * 1_990}"]'), FileTally(), FileTally())
        change = FilesChanged(
            f"e{snapshot}", name, "main", ChangeKind.DELTA, snapshot, snapshot - 1, 1, 1, "append",
            (part,) * 8, 2, {"firnline.window": "x" * 8_000}, observed_at_ms=1,
        )  # fmt: skip
        table = hold_change(table, change, ResyncReason.MISSING_PARENT, 5)
        assert len(msgpack.encode(table)) < 600_000
        held = max(held, len(table.held))
    assert held > 10
    assert table.waiting is not None
    assert table.waiting.reason == ResyncReason.OVERFLOW
