"""Decide when a table's column and partition statistics are computed anew: by its owner's word
alone (`firnline.statistics`, `firnline.partition-statistics`)."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import Estimate, add_cost, look_price
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, Ended, TableAction
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

LOOK_MS = 60_000  # nothing else tells that the orders of a table have ended
GB = 1 << 30
ALL = "all"  # of `firnline.statistics`: every column of a primitive type
CPU_S_PER_VALUE = 0.7e-6  # 1 M rows of three columns, a tenth of them deleted (`bench/actions`)
VALUE_BYTES = 8  # in a file, where it is not said how many columns there are


class StatisticsReason(ReasonCode):
    """Reasons why statistics are computed, or wait."""

    STALE_STATISTICS = (
        "stale_statistics",
        "`firnline.statistics` is set, and at least the share `firnline.statistics.min-change` "
        "of the rows changed since the last computation.",
        "{rows_changed} of {rows} rows changed since statistics were computed, a share of "
        "{min_change} triggers it; reads at most {read_gb} GB, about {read_cpu_s} CPU s",
    )
    STALE_PARTITION_STATISTICS = (
        "stale_partition_statistics",
        "`firnline.partition-statistics` is set, and commits followed the last computation.",
        "commits since partition statistics were computed; reads only manifests",
    )
    STATISTICS_TOO_LARGE = (
        "statistics_too_large",
        "Statistics are stale, and the table is larger than `firnline.statistics.max-bytes`.",
        "statistics are stale, but computing them would read {read_gb} GB (about {read_cpu_s} "
        "CPU s), firnline.statistics.max-bytes allows {max_gb} GB",
    )
    STATISTICS_AFTER_REWRITES = (
        "statistics_after_rewrites",
        "Statistics are stale. They are computed after the running rewrites.",
        "statistics are stale, waiting for running rewrites because reads are cheaper afterwards",
    )


class Statistics(TableAction):
    """Distinct values are of rows, so they grow stale by rows that came and went; a rewrite changes
    none. Partition statistics count files too: any new head makes them stale, and they are computed
    from what came since the last ones. How many rows that is a worker looks up again: another
    engine may have computed them (`firnline_worker.table_actions.compute_statistics`)."""

    name = "compute_statistics"
    order_reasons = (StatisticsReason.STALE_STATISTICS, StatisticsReason.STALE_PARTITION_STATISTICS)
    wait_reasons = (
        StatisticsReason.STATISTICS_TOO_LARGE,
        StatisticsReason.STATISTICS_AFTER_REWRITES,
    )

    def pause_ms(self, settings: Thresholds) -> int:
        return settings.statistics_interval_ms

    def check_due(self, given: TableInput) -> DueCheck:
        table, settings, running = given.table, given.settings, given.table.work.running
        if not settings.statistics and not settings.partition_statistics:
            return NOT_ASKED
        work, numbers = self.work_of(table), self.order_numbers(given)
        of_table = _is_stale(work, settings, numbers)
        of_partitions = (
            settings.partition_statistics
            and table.counters.totals.partitioned > 0
            and work.statistics.head_snapshot_id != table.counters.head_snapshot_id
        )
        reason: ReasonCode = StatisticsReason.STALE_STATISTICS if of_table else Reason.HEALTHY
        until_ms = None
        if of_table and numbers["read_gb"] > numbers["max_gb"]:
            of_table, reason = False, StatisticsReason.STATISTICS_TOO_LARGE
        elif of_table and running and work.statistics.of and _may_wait(numbers, settings):
            of_table, reason = False, StatisticsReason.STATISTICS_AFTER_REWRITES
            until_ms = given.now_ms + LOOK_MS
        if not of_table and not of_partitions:
            return DueCheck(reason, until_ms=until_ms, numbers=numbers)
        numbers["partitions"] = float(of_partitions)
        numbers["columns"] = float(of_table)
        reason = (
            StatisticsReason.STALE_STATISTICS
            if of_table
            else StatisticsReason.STALE_PARTITION_STATISTICS
        )
        return DueCheck(reason, True, numbers=numbers)

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        table, settings, work = given.table, given.settings, self.work_of(given.table)
        holds = table.counters.totals.holds
        read = sum(one.bytes for one in holds.tallies)
        changed = max(table.counters.rows_changed - work.statistics.rows_changed, 0)
        return {
            "rows": holds.data_records,
            "rows_changed": changed,
            "changed_share": changed / max(holds.data_records, 1),
            "min_change": settings.statistics_min_change,
            "read_gb": read / GB,
            "max_gb": settings.statistics_max_bytes / GB,
            "read_cpu_s": _scan_values(settings, holds.data_records, read) * CPU_S_PER_VALUE,
            "columns": float(bool(settings.statistics)),
            "all_columns": float(settings.statistics == ALL),
            "partitions": float(settings.partition_statistics),
        }

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate the price. Better joins are worth something, and nothing that is counted here:
        under a budget it is paid with what is left, or out of the reserve for those that wait
        longest."""
        price = look_price(given.table)
        if not given.settings.statistics:
            return Estimate(price)
        numbers, holds = self.order_numbers(given), given.table.counters.totals.holds
        files = holds.data_files + holds.delete_files
        size = numbers["read_gb"] * GB
        price = add_cost(price, numbers["read_cpu_s"], gets=files, puts=1, read_bytes=size)
        return Estimate(price)

    def _make_order(
        self, given: TableInput, asked: DueCheck, before: ActionWork
    ) -> tuple[Table, TableOrder]:
        table, order = super()._make_order(given, asked, before)
        return self._note_order(table, order, given.settings), order

    def _note_order(self, table: Table, order: TableOrder, settings: Thresholds) -> Table:
        """Note what is known of the table as its order goes out: what comes meanwhile counts for
        the next one."""
        work, counters = table.work.actions[self.name], table.counters
        known = work.statistics
        if order.numbers["columns"]:
            known = replace(known, of=settings.statistics, rows_changed=counters.rows_changed)
        if order.numbers["partitions"]:
            known = replace(known, head_snapshot_id=counters.head_snapshot_id)
        return self._with_work(table, replace(work, ordered_statistics=known))

    def after_success(self, work: ActionWork, result: TableResult, now_ms: int) -> Ended:
        return replace(work, statistics=work.ordered_statistics), "done"


def _scan_values(settings: Thresholds, rows: int, read: int) -> float:
    if settings.statistics == ALL:
        return max(read / VALUE_BYTES, rows)
    return float(rows * len(settings.statistics.split(",")) if settings.statistics else 0)


def _is_stale(work: ActionWork, settings: Thresholds, numbers: dict[str, float]) -> bool:
    """Return True for statistics that were never computed, computed for other columns, or too many
    rows ago."""
    if not settings.statistics or not numbers["rows"]:
        return False
    if work.statistics.of != settings.statistics:
        return True
    share = numbers["changed_share"]
    return share > 0 and share >= settings.statistics_min_change


def _may_wait(numbers: dict[str, float], settings: Thresholds) -> bool:
    """Return True if the computation may wait for a rewrite, or it would read the deletes that the
    rewrite applies. A table that is always being rewritten waits only until twice as many rows have
    changed."""
    return numbers["changed_share"] < 2 * settings.statistics_min_change
