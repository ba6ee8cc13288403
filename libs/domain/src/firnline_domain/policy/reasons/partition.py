"""Record what was decided about a partition, and the reason."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Value, field
from firnline_domain.counters.state.debt import Debt
from firnline_domain.policy.cost.cost_benefit import Action, CostBenefit
from firnline_domain.records.pauses import HoldReason


class Reason(ReasonCode):
    """Reasons why a partition was, or was not, chosen."""

    # ordered: those of `ORDERS`
    EQUALITY_DELETES = (
        "equality_deletes",
        "The partition got `firnline.rewrite.min-equality-deletes` equality-delete files since "
        "its last rewrite.",
        "{equality_deletes} equality-delete files, {min_equality_deletes} trigger a rewrite",
    )
    POSITION_DELETES = (
        "position_deletes",
        "Files contain so many deleted rows that a rewrite pays off, or there are too many "
        "position-delete files for the data files.",
        "{dead_rows} rows, {dead_ratio} of all, are deleted by {position_deletes} "
        "position-delete files or deletion vectors",
    )
    FRAGMENTS = (
        "fragments",
        "The partition got `firnline.rewrite.min-fragments` small files since its last rewrite.",
        "{fragments} small files, {min_fragments} trigger a rewrite",
    )
    GLOBAL_DELETES = (
        "global_deletes",
        "The table got `firnline.rewrite.min-equality-deletes` equality-delete files without a "
        "partition, which apply to every partition.",
        "{global_deletes} global equality-delete files, {min_equality_deletes} trigger a rewrite",
    )
    UNDERSIZED = (
        "undersized",
        "Small files together fill one file of the target size.",
        "{undersized} small files fill one file of the target size",
    )
    SIZE_ERROR = (
        "size_error",
        "File sizes deviate from the target size, and a merge improves that enough "
        "(`firnline.rewrite.max-size-error`).",
        "file sizes deviate from the target by {size_error}, a merge fixes "
        "{mendable_size_error}, {max_size_error} triggers a rewrite",
    )
    READ_DEBT = (
        "read_debt",
        "The accumulated read cost has reached `firnline.rewrite.payback` times the rewrite cost.",
        "accumulated read cost has reached firnline.rewrite.payback x rewrite cost (saves "
        "{read_s_spared} CPU s per scan, costs {rewrite_cpu_s} CPU s)",
    )
    OBJECTIVE = (
        "objective",
        "The partition is near a limit of `firnline.objective.read-amplification` or "
        "`firnline.objective.oldest-debt-ms`.",
        "near an objective: reads cost {read_amplification} times those of a compacted "
        "partition ({objective_read_amplification} allowed, 0 = any), and files to compact are "
        "{oldest_debt_s} s old ({objective_oldest_debt_s} allowed, 0 = any)",
    )
    OLD_DEBT = (
        "old_debt",
        "Small or delete files are older than `firnline.rewrite.max-age-ms`.",
        "below every threshold, but some files have waited longer than firnline.rewrite.max-age-ms",
    )
    EQUALITY_DELETE_AGE = (
        "equality_delete_age",
        "An equality delete would become older than `firnline.equality-deletes.max-age-ms` if "
        "its rewrite were scheduled later.",
        "the oldest equality delete is {equality_delete_age_s} s old, "
        "{max_equality_delete_age_s} s are allowed (firnline.equality-deletes.max-age-ms)",
    )
    RECYCLING = (
        "recycling",
        "`firnline.rewrite.recycle` is set, and position-deleted rows are older than the "
        "retention. The rewrite removes them from the storage.",
        "position-deleted rows are older than the retention and still in data files",
    )
    FULL_INTERVAL = (
        "full_interval",
        "`firnline.rewrite.full-interval-ms` has passed since all files of the partition were "
        "rewritten.",
        "all files are rewritten every {full_interval_h} h (firnline.rewrite.full-interval-ms)",
    )
    CLOSED = (
        "closed",
        "No commit changed the partition for `firnline.freeze.after-hours`. It is rewritten "
        "once and then left alone.",
        "no commit for {freeze_after_h} h (firnline.freeze.after-hours): final rewrite of all "
        "files",
    )
    UNSORTED = (
        "unsorted",
        "`firnline.sort` is set, and the partition changed since the last check of its order.",
        "changed since the last sort; files are sorted if more than {sort_depth} contain the "
        "same key (firnline.sort)",
    )
    V2_DELETES = (
        "v2_deletes",
        "`firnline.format-version=3` is set, and the partition has delete files from before "
        "the upgrade. Deletion vectors replace them.",
        "{v2_delete_files} delete files of format version 2 are replaced by deletion vectors "
        "(firnline.format-version)",
    )
    # ordered, of a table as a whole
    DANGLING_DELETES = (
        "dangling_deletes",
        "There are so many delete files for the data files that some probably apply to no file.",
        "{delete_files} delete files for {data_files} data files: some probably apply to no file",
    )
    MANY_MANIFESTS = (
        "many_manifests",
        "The table has `firnline.manifests.min-count` manifests more than full ones would need.",
        "{manifests} manifests instead of {full_manifests} full ones, {min_manifests} more "
        "trigger a rewrite",
    )
    PARTITIONS_ANNOUNCED = (
        "partitions_announced",
        "A worker counts the files older than `firnline.partitions.ttl-hours`, for the "
        "announcement.",
        "counting files older than {ttl_h} h for the announcement",
    )
    OLD_PARTITIONS = (
        "old_partitions",
        "Files whose rows are all older than `firnline.partitions.ttl-hours` are removed from "
        "the table.",
        "removing files whose rows are all older than {ttl_h} h (firnline.partitions.ttl-hours)",
    )
    ARCHIVE_ANNOUNCED = (
        "archive_announced",
        "A worker counts the files older than `firnline.archive.after-hours`, for the "
        "announcement.",
        "counting files older than {archive_h} h for the announcement",
    )
    ARCHIVE_DUE = (
        "archive_due",
        "Files whose rows are all older than `firnline.archive.after-hours` are moved to the "
        "archive.",
        "archiving files whose rows are all older than {archive_h} h "
        "(firnline.archive.after-hours)",
    )
    FORMAT_ANNOUNCED = (
        "format_announced",
        "A worker checks the table's writers, for the announcement of the upgrade "
        "(`firnline.format-version`).",
        "checking writers and v2 delete files for the announcement of the upgrade",
    )
    FORMAT_VERSION = (
        "format_version",
        "`firnline.format-version` is higher than the table's format version.",
        "upgrade from format version {format_version} to {wanted_version} "
        "(firnline.format-version)",
    )
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
    PERIOD_ENDED = (
        "period_ended",
        "A period of `firnline.tags.create` (a day, a month ...) has ended.",
        "a period has ended: its last state gets a tag (firnline.tags.create)",
    )
    REQUESTED = (
        "requested",
        "A person requested it: `firnline run TABLE ACTION`.",
        "requested by a person (firnline run)",
    )
    ORPHAN_INTERVAL = (
        "orphan_interval",
        "`firnline.orphans.enabled` is set, and a week has passed.",
        "weekly: unreferenced files older than {min_age_h} h are moved to the quarantine and "
        "deleted {quarantine_h} h later",
    )
    # not ordered
    PARTITIONS_GRACE = (
        "partitions_grace_period",
        "The removal of old rows was announced and starts after "
        "`firnline.partitions.grace-ms`. `firnline.partitions.ttl-hours=0` stops it.",
        "removal of old rows was announced, starts after firnline.partitions.grace-ms "
        "(firnline.partitions.ttl-hours=0 stops it)",
    )
    ARCHIVE_GRACE = (
        "archive_grace_period",
        "Archiving was announced and starts after `firnline.partitions.grace-ms`. "
        "`firnline.archive.after-hours=0` stops it.",
        "archiving was announced, starts after firnline.partitions.grace-ms "
        "(firnline.archive.after-hours=0 stops it)",
    )
    FORMAT_GRACE = (
        "format_grace_period",
        "The upgrade was announced and starts after `firnline.format-version.grace-ms`. It "
        "cannot be undone. `firnline.format-version=2` stops it.",
        "the upgrade was announced and cannot be undone, starts after "
        "firnline.format-version.grace-ms (firnline.format-version=2 stops it)",
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
    HEALTHY = (
        "healthy",
        "No files to compact.",
        "nothing to do",
    )
    ACCUMULATING = (
        "accumulating",
        "Some small or delete files, below every threshold.",
        "not enough yet",
    )
    FIXED_POINT = (
        "fixed_point",
        "The last rewrite left exactly this state. Another one would not improve it.",
        "another rewrite would not improve it",
    )
    NOT_CLOSED = (
        "not_closed",
        "`firnline run TABLE freeze` was requested, but a commit changed the partition within "
        "`firnline.freeze.after-hours`.",
        "a commit changed it within firnline.freeze.after-hours",
    )
    FROZEN = (
        "frozen",
        "No commit changed the partition for `firnline.freeze.after-hours`, and its final "
        "rewrite is done. The next commit to it ends this.",
        "frozen until a commit changes it (firnline.freeze.after-hours)",
    )
    MINIMUM_GAIN = (
        "minimum_gain",
        "The rewrite costs more than it has saved readers so far. It runs after "
        "`firnline.rewrite.max-wait-ms` at the latest.",
        "the rewrite costs {rewrite_cpu_s} CPU s and saves {read_s_spared} CPU s per scan; "
        "waits until it pays off, at most firnline.rewrite.max-wait-ms",
    )
    QUIET_PERIOD = (
        "quiet_period",
        "The partition changed within `firnline.rewrite.quiet-ms`.",
        "a writer has just committed to it; waits for a pause",
    )
    HOT = (
        "hot",
        "A writer changed rows of its files within `firnline.rewrite.hot-ms`. A rewrite would "
        "make its next statement fail.",
        "a writer is running DELETE, UPDATE or MERGE and would fail; waits for a pause, at "
        "most firnline.rewrite.hot-max-ms",
    )
    IN_FLIGHT = (
        "in_flight",
        "A task is scheduled or running.",
        "a task is scheduled or running",
    )
    COOLING = (
        "cooling",
        "The last rewrite was less than `firnline.rewrite.cool-down-ms` ago.",
        "waits after its last rewrite (firnline.rewrite.cool-down-ms)",
    )
    BACKING_OFF = (
        "backing_off",
        "The last task failed. The next one starts after 10 s, then after twice as long each "
        "time, at most 30 min.",
        "retry after {failures} failures in a row",
    )
    PARKED = (
        "parked",
        "It failed too often. The next try is after 24 h, or after `firnline unpark TABLE`. "
        "The events contain the errors.",
        "suspended after {failures} failures in a row",
    )
    UNDONE = (
        "undone",
        "A person reverted the last rewrite. The partition is left alone for 24 h, or until "
        "`firnline unpark TABLE`.",
        "its last rewrite was reverted by a person; `firnline unpark` continues",
    )
    PAUSED = HoldReason.PAUSED.entry
    FORMAT_VERSION_4 = HoldReason.FORMAT_VERSION_4.entry
    BLACKOUT = HoldReason.BLACKOUT.entry
    OUTSIDE_WINDOW = HoldReason.OUTSIDE_WINDOW.entry
    UNREADABLE_WINDOW = HoldReason.UNREADABLE_WINDOW.entry
    FAILING = HoldReason.FAILING.entry
    OTHER_MAINTAINER = HoldReason.OTHER_MAINTAINER.entry
    COMMIT_CEILING = HoldReason.COMMIT_CEILING.entry
    BATCHING = HoldReason.BATCHING.entry
    SHADOW = HoldReason.SHADOW.entry
    WAITING_FOR_BUDGET = (
        "waiting_for_budget",
        "Other tasks have a better ratio of benefit to cost. It waits for the budget.",
        "waiting for budget (FIRNLINE_BUDGET_GB_HOURS): other tasks have a better cost-benefit "
        "ratio",
    )
    TABLE_BUSY = (
        "table_busy",
        "The table has as many running tasks as `firnline.rewrite.max-in-flight` allows.",
        "{in_flight} tasks of this table are running, its maximum (firnline.rewrite.max-in-flight)",
    )
    WAITING_FOR_RESYNC = (
        "waiting_for_resync",
        "Events are missing. The enricher reads the table to restore its statistics.",
        "events are missing; the enricher is reading the table",
    )
    DISABLED = (
        "disabled",
        "`firnline.enabled=false` is set.",
        "switched off (firnline.enabled)",
    )
    NAME_TOO_LONG = (
        "name_too_long",
        "The partition's values are longer than 2,000 characters. It is not maintained.",
        "partition values are longer than 2,000 characters: not maintained",
    )
    REMOVED = (
        "removed",
        "The partition or the table does not exist any more.",
        "the table is gone",
    )


STATUS = {
    Reason.IN_FLIGHT: "in_flight",
    Reason.COOLING: "cooling",
    Reason.BACKING_OFF: "backing_off",
    Reason.PARKED: "parked",
    Reason.UNDONE: "parked",
}


ORDERS = frozenset(
    {
        Reason.EQUALITY_DELETES,
        Reason.POSITION_DELETES,
        Reason.FRAGMENTS,
        Reason.GLOBAL_DELETES,
        Reason.UNDERSIZED,
        Reason.SIZE_ERROR,
        Reason.READ_DEBT,
        Reason.OLD_DEBT,
        Reason.RECYCLING,
        Reason.EQUALITY_DELETE_AGE,
        Reason.OBJECTIVE,
        Reason.FULL_INTERVAL,
        Reason.CLOSED,
        Reason.UNSORTED,
        Reason.V2_DELETES,
        Reason.DANGLING_DELETES,
        Reason.MANY_MANIFESTS,
        Reason.PARTITIONS_ANNOUNCED,
        Reason.OLD_PARTITIONS,
        Reason.ARCHIVE_ANNOUNCED,
        Reason.ARCHIVE_DUE,
        Reason.FORMAT_ANNOUNCED,
        Reason.FORMAT_VERSION,
        Reason.STALE_STATISTICS,
        Reason.STALE_PARTITION_STATISTICS,
        Reason.PERIOD_ENDED,
        Reason.REQUESTED,
        Reason.ORPHAN_INTERVAL,
    }
)


# Due at a moment that an owner was promised, or asked for by a person: no price delays them.
PROMISED = frozenset({Reason.EQUALITY_DELETE_AGE, Reason.RECYCLING, Reason.REQUESTED})

EVERY_FILE, NO_FILE = 0.0, 1.0  # that has a dead row; that has a living one
Assessment = tuple[Debt, Debt, CostBenefit]
"""All debt, what of it has grown since the last rewrite, and what a compaction weighs."""


class Decision(Value):
    """`until_ms`: when time alone may change the decision; None = only an event can.

    `assessment`: what it was made from; None where the partition was not weighed. `wanted`: of one
    that the table holds back, the decision that its partition alone asks for."""

    reason: Reason
    order: bool = False
    until_ms: int | None = None
    rank: float = (
        0.0  # of orders: the highest goes first (`cost_benefit.CostBenefit.payback_ratio`)
    )
    numbers: dict[str, float] = field(default_factory=dict)  # see `explained`
    action: Action = Action.COMPACT
    min_dead_ratio: float = EVERY_FILE  # of the larger files that are rewritten
    assessment: Assessment | None = None
    wanted: Decision | None = None

    @property
    def status(self) -> str:
        """idle | in_flight | cooling | backing_off | parked"""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")
