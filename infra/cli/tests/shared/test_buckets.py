"""What `firnline status` says of buckets."""

from __future__ import annotations

from firnline_cli.shared.buckets import bucket_lines, describe_board
from firnline_domain.records.assignments import Board
from firnline_domain.records.events import BucketLoaded, TableAssigned


def test_the_hottest_and_the_newest_with_its_reason() -> None:
    board = Board(2)
    for bucket, load in enumerate((10, 900, 40)):
        board.fold_record(BucketLoaded(bucket, 3, load, 1))
    for number in range(7):
        board.fold_record(TableAssigned(f"u{number}", 2, number, number, f"reason {number}"))
    found = describe_board(board)
    assert found["loads"] == {0: 10, 1: 900, 2: 40}
    assert (found["assigned"], len(found["newest"])) == (7, 5)
    first, *rest = bucket_lines(found, {"u6": "shop.orders"})
    assert first == (
        "3 buckets, 950 steps a minute; the hottest is 1 with 900. 7 assignments of tables, the "
        "newest:"
    )
    assert rest[0] == "  shop.orders to bucket 2 (reason 6)"
    assert rest[-1] == "  u2 to bucket 2 (reason 2)"


def test_nothing_of_a_fleet_that_never_had_to_move_a_table() -> None:
    assert bucket_lines(describe_board(Board(8)), {}) == []
