"""Load of one bucket: what its tables cost the planner, and which ones a hot bucket moves away
(0022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN
from firnline_domain.policy.fleet.placement import REST_MS, WINDOW_MS, plan_moves
from firnline_domain.records.assignments import TOPIC, Board
from firnline_domain.records.events import BucketLoaded
from firnline_domain.records.orders import MoveTable

from firnline_planner.state.effects import SERVICE, Output
from firnline_planner.state.table_context import TableContext

REPORT_MS = 5_000  # between two reports, at the least
DECIDE_AFTER_MS = 10_000  # when every bucket has reported the window that has ended
WINDOW_MINUTES = WINDOW_MS / 60_000


class BucketLoad:
    """Counts in windows that begin at the same moments everywhere. In memory alone: a bucket that
    was just opened knows nothing of its tables until it has seen a whole window."""

    def __init__(self, bucket: int, board: Board) -> None:
        self.total = board.reported_load(bucket)  # steps a minute; as it was reported last
        self._bucket = bucket
        self._board = board
        self._steps: Counter[str] = Counter()  # of each table, in this window
        self._tables: Mapping[str, float] = {}  # steps a minute, in the last whole window
        self._window: int | None = None
        self._is_whole = False
        self._decide_ms: int | None = None
        self._reported = BucketLoaded(bucket, -1, 0, 0)

    def start_time_anew(self) -> None:
        """Begin with a new window: the clock was set back."""
        self._decide_ms = self._window = None

    def count_steps(self, table_key: str, steps: int = 1) -> None:
        """Add the steps that a table has just cost."""
        self._steps[table_key] += steps

    def pass_time(self, tables: int, context: TableContext) -> list[MoveTable]:
        """Report the bucket's load if it has changed. Return the orders by which a bucket that is
        hot moves tables to other buckets; the default bucket of each table carries them out.
        `tables`: the number of tables in this bucket."""
        self._end_window(context.now_ms)
        self._report_load(tables, context)
        if self._decide_ms is None or context.now_ms < self._decide_ms:
            return []
        self._decide_ms = None
        return list(self._choose_moves(context))

    def _end_window(self, now_ms: int) -> None:
        window = now_ms // WINDOW_MS
        if window == self._window:
            return
        if self._is_whole and self._window == window - 1:
            self._tables = {key: steps / WINDOW_MINUTES for key, steps in self._steps.items()}
            self.total = round(sum(self._tables.values()))
            self._decide_ms = now_ms + DECIDE_AFTER_MS
        self._is_whole = self._window is not None
        self._window = window
        self._steps = Counter()

    def _report_load(self, tables: int, context: TableContext) -> None:
        now_ms, at_ms = context.now_ms, self._reported.at_ms
        if 0 <= now_ms - at_ms < REPORT_MS:
            return
        load = BucketLoaded(self._bucket, tables, self.total, now_ms)
        if replace(load, at_ms=at_ms) != self._reported:
            self._reported = load
            context.effects.add_outputs([Output(TOPIC, f"bucket/{self._bucket}", load)])

    def _choose_moves(self, context: TableContext) -> Iterator[MoveTable]:
        loads, now_ms = self._board.expected_loads(), context.now_ms
        newest = ((key, self._board.assignment_of(key)) for key in self._tables)
        resting = {key for key, one in newest if one and 0 <= now_ms - one.at_ms < REST_MS}
        for move in plan_moves(self._bucket, loads, self._tables, resting):
            if table := context.state.table(move.table_key, MAIN):  # it may have gone since
                name = table.counters.table
                yield MoveTable(name, move.bucket, SERVICE, now_ms, move.reason)
