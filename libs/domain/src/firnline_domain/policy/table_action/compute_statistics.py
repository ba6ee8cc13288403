"""Decide when a table's column and partition statistics are computed anew: by its owner's word
alone (`firnline.statistics`, `firnline.partition-statistics`)."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import Estimate
from firnline_domain.policy.cost.table_action_cost import add_cost, look_price
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

LOOK_MS = 60_000  # nothing else tells that the orders of a table have ended
GB = 1 << 30
ALL = "all"  # of `firnline.statistics`: every column of a primitive type
CPU_S_PER_VALUE = 0.7e-6  # 1 M rows of three columns, a tenth of them deleted (`bench/actions`)
VALUE_BYTES = 8  # in a file, where it is not said how many columns there are


class Statistics(TableAction):
    """Distinct values are of rows, so they grow stale by rows that came and went; a rewrite changes
    none. Partition statistics count files too: any new head makes them stale, and they are computed
    from what came since the last ones. How many rows that is a worker looks up again: another
    engine may have computed them (`firnline_worker.table_actions.compute_statistics`)."""

    name = "compute_statistics"

    def pause_ms(self, limits: Thresholds) -> int:
        return limits.statistics_interval_ms

    def check_due(self, table: Table, limits: Thresholds, now_ms: int) -> DueCheck:
        if not limits.statistics and not limits.partition_statistics:
            return NOT_ASKED
        work = table.work.actions.get(self.name, ActionWork())
        numbers = self.order_numbers(table, limits)
        of_table = _is_stale(work, limits, numbers)
        of_partitions = (
            limits.partition_statistics
            and table.counters.totals.partitioned > 0
            and work.statistics.head_snapshot_id != table.counters.head_snapshot_id
        )
        reason = Reason.STALE_STATISTICS if of_table else Reason.HEALTHY
        until_ms = None
        if of_table and numbers["read_gb"] > numbers["max_gb"]:
            of_table, reason = False, Reason.STATISTICS_TOO_LARGE
        elif of_table and table.work.running and work.statistics.of and _may_wait(numbers, limits):
            of_table, reason = False, Reason.STATISTICS_AFTER_REWRITES
            until_ms = now_ms + LOOK_MS
        if not of_table and not of_partitions:
            return DueCheck(reason, until_ms=until_ms, numbers=numbers)
        numbers["partitions"] = float(of_partitions)
        numbers["columns"] = float(of_table)
        reason = Reason.STALE_STATISTICS if of_table else Reason.STALE_PARTITION_STATISTICS
        return DueCheck(reason, True, numbers=numbers)

    def order_numbers(self, table: Table, limits: Thresholds) -> dict[str, float]:
        work = table.work.actions.get(self.name, ActionWork())
        holds = table.counters.totals.holds
        read = sum(one.bytes for one in holds.tallies)
        changed = max(table.counters.rows_changed - work.statistics.rows_changed, 0)
        return {
            "rows": holds.data_records,
            "rows_changed": changed,
            "changed_share": changed / max(holds.data_records, 1),
            "min_change": limits.statistics_min_change,
            "read_gb": read / GB,
            "max_gb": limits.statistics_max_bytes / GB,
            "read_cpu_s": _scan_values(limits, holds.data_records, read) * CPU_S_PER_VALUE,
            "columns": float(bool(limits.statistics)),
            "all_columns": float(limits.statistics == ALL),
            "partitions": float(limits.partition_statistics),
        }

    def estimate(self, table: Table, limits: Thresholds, now_ms: int) -> Estimate:
        """Estimate the price. Better joins are worth something, and nothing that is counted here:
        under a budget it is paid with what is left, or out of the reserve for those that wait
        longest."""
        price = look_price(table, limits)
        if not limits.statistics:
            return Estimate(price)
        numbers, holds = self.order_numbers(table, limits), table.counters.totals.holds
        files = holds.data_files + holds.delete_files
        size = numbers["read_gb"] * GB
        price = add_cost(price, numbers["read_cpu_s"], limits, gets=files, puts=1, read_bytes=size)
        return Estimate(price)

    def plan_order(
        self, table: Table, limits: Thresholds, now_ms: int
    ) -> tuple[Table, TableOrder | None]:
        after, order = super().plan_order(table, limits, now_ms)
        return (after, None) if order is None else (self._note_order(after, order, limits), order)

    def order_requested(
        self, table: Table, limits: Thresholds, now_ms: int
    ) -> tuple[Table, TableOrder]:
        after, order = super().order_requested(table, limits, now_ms)
        return self._note_order(after, order, limits), order

    def _note_order(self, table: Table, order: TableOrder, limits: Thresholds) -> Table:
        """Note what is known of the table as its order goes out: what comes meanwhile counts for
        the next one."""
        work, counters = table.work.actions[self.name], table.counters
        known = work.statistics
        if order.numbers["columns"]:
            known = replace(known, of=limits.statistics, rows_changed=counters.rows_changed)
        if order.numbers["partitions"]:
            known = replace(known, head_snapshot_id=counters.head_snapshot_id)
        return self._with_work(table, replace(work, ordered_statistics=known))

    def after_result(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        before = table.work.actions.get(self.name, ActionWork())
        after, word = super().after_result(table, result, now_ms)
        if before.task_id != result.task_id or result.refused_reason:
            return after, word
        work = after.work.actions[self.name]
        return self._with_work(after, replace(work, statistics=before.ordered_statistics)), word


def _scan_values(limits: Thresholds, rows: int, read: int) -> float:
    if limits.statistics == ALL:
        return max(read / VALUE_BYTES, rows)
    return float(rows * len(limits.statistics.split(",")) if limits.statistics else 0)


def _is_stale(work: ActionWork, limits: Thresholds, numbers: dict[str, float]) -> bool:
    """Return True for statistics that were never computed, computed for other columns, or too many
    rows ago."""
    if not limits.statistics or not numbers["rows"]:
        return False
    if work.statistics.of != limits.statistics:
        return True
    share = numbers["changed_share"]
    return share > 0 and share >= limits.statistics_min_change


def _may_wait(numbers: dict[str, float], limits: Thresholds) -> bool:
    """Return True if the computation may wait for a rewrite, or it would read the deletes that the
    rewrite applies. A table that is always being rewritten waits only until twice as many rows have
    changed."""
    return numbers["changed_share"] < 2 * limits.statistics_min_change
