"""Who is paused, by the order of the records and not by anybody's clock."""

from __future__ import annotations

from firnline_domain.identity import TableName
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance, UnparkTable
from firnline_domain.records.pauses import Pause, PauseState

ORDERS = TableName("u1", ("shop",), "orders")
STOP, GO = PauseMaintenance(None, "migration", "ops", 500), ResumeMaintenance(None, "ops", 400)
STOP_ONE, GO_ONE = PauseMaintenance(ORDERS, "", "me", 600), ResumeMaintenance(ORDERS, "me", 700)


def told(*orders: object, partition: int = 0) -> PauseState:
    board = PauseState()
    for order in orders:
        board.fold_record(order, partition)
    return board


def test_the_fleets_switch_holds_for_every_table() -> None:
    assert told(STOP).pause_of("any") == Pause(500, "ops", "migration")
    assert told(STOP).pause_of(None) == Pause(500, "ops", "migration")


def test_the_last_word_counts_even_of_an_operator_whose_clock_is_behind() -> None:
    assert told(STOP, GO).pause_of("any") is None


def test_the_fleets_orders_are_read_in_one_partition_only() -> None:
    board = told(STOP, GO)
    board.fold_record(STOP, 1)
    assert board.pause_of("any") is None


def test_a_tables_switch_is_its_own() -> None:
    board = told(STOP_ONE, partition=5)
    assert (board.pause_of("u1"), board.pause_of("u2"), board.pause_of(None)) == (
        Pause(600, "me", ""),
        None,
        None,
    )
    board.fold_record(STOP, 0)
    board.fold_record(GO, 0)
    assert board.pause_of("u1") == Pause(600, "me", "")
    board.fold_record(GO_ONE, 5)
    assert board.pause_of("u1") is None


def test_other_orders_change_nothing() -> None:
    assert told(STOP, UnparkTable(ORDERS, "main", None, "me", 1)).pause_of("u1") is not None
