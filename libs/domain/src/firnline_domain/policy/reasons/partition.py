"""Record what was decided about a partition, and the reason."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Value, field
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.pauses import HoldReason


class Reason(ReasonCode):
    """Reasons why a partition or a table was, or was not, chosen. Those why a partition was:
    `policy.triggers.table`."""

    # ordered: those of `TABLE_ORDERS`
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
    STREAMING_READERS = ConflictReason.STREAMING_READERS.entry
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


STATUS: dict[ReasonCode, str] = {
    Reason.IN_FLIGHT: "in_flight",
    Reason.COOLING: "cooling",
    Reason.BACKING_OFF: "backing_off",
    Reason.PARKED: "parked",
    Reason.UNDONE: "parked",
}


TABLE_ORDERS = frozenset(
    {
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


TOP_RANK = 1e9  # before all that readers pay for: no debt comes to it
EVERY_FILE, NO_FILE = 0.0, 1.0  # that has a dead row; that has a living one
# Nothing is ordered, and nothing waits for writers: another trigger may still fire.
CALM = frozenset(
    {
        *(Reason.HEALTHY, Reason.FIXED_POINT, Reason.ACCUMULATING, Reason.FROZEN),
        *(Reason.MINIMUM_GAIN, Reason.STREAMING_READERS),
    }
)


class Decision(Value):
    """`until_ms`: when time alone may change the decision; None = only an event can.

    `wanted`: of one that the table holds back, the decision that its partition alone asks for."""

    reason: ReasonCode
    order: bool = False
    until_ms: int | None = None
    rank: float = (
        0.0  # of orders: the highest goes first (`cost_benefit.CostBenefit.payback_ratio`)
    )
    numbers: dict[str, float] = field(default_factory=dict)  # see `explained`
    action: Action = Action.COMPACT
    min_dead_ratio: float = EVERY_FILE  # of the larger files that are rewritten
    wanted: Decision | None = None

    @property
    def status(self) -> str:
        """idle | in_flight | cooling | backing_off | parked"""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")


class TriggerState(Value):
    """State of a trigger that applies to a partition: when it fires, or what it decides now. None
    of both: only a commit can make it fire. A decision of `CALM` says why it does not fire yet."""

    at_ms: int | None = None
    decision: Decision | None = None
