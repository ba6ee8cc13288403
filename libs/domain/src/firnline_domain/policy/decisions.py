"""What was decided about a partition, and the reason."""

from __future__ import annotations

from firnline_domain.counters.debts import Debt
from firnline_domain.policy.cost_benefit import Action, CostBenefit
from firnline_domain.reason_code import ReasonCode
from firnline_domain.records.pauses import HoldReason
from firnline_domain.values import Value, field


class Reason(ReasonCode):
    """Why a partition was, or was not, chosen."""

    # ordered: those of `ORDERS`
    EQUALITY_DELETES = (
        "equality_deletes",
        "as many equality-delete files came as `min-equality-deletes` says",
        "{equality_deletes} equality-delete files; {min_equality_deletes} are enough for a rewrite",
    )
    POSITION_DELETES = (
        "position_deletes",
        "files have so many dead rows that a rewrite pays for itself, or too many position-delete"
        " files lie beside the data files",
        "{dead_rows} rows, {dead_ratio} of all, are dead by position, in {position_deletes} "
        "position-delete files or deletion vectors",
    )
    FRAGMENTS = (
        "fragments",
        "as many small files came as `min-fragments` says",
        "{fragments} small files; {min_fragments} are enough for a rewrite",
    )
    GLOBAL_DELETES = (
        "global_deletes",
        "as many unpartitioned equality-delete files, which reach every partition, came as `min-"
        "equality-deletes` says",
        "{global_deletes} global equality-delete files; {min_equality_deletes} are enough for a "
        "rewrite",
    )
    UNDERSIZED = (
        "undersized",
        "small files fill one of the target size together",
        "{undersized} files below their size fill one of the target size",
    )
    SIZE_ERROR = (
        "size_error",
        "file sizes are off the target, and a merge improves that enough",
        "its files are off their target by {size_error} of it, and a merge mends "
        "{mendable_size_error}; {max_size_error} is enough for a rewrite",
    )
    READ_DEBT = (
        "read_debt",
        "readers have paid as much for the debt as its rewrite costs",
        "readers have paid their part (firnline.rewrite.payback) of what its rewrite costs "
        "({read_s_spared} CPU s a scan, {rewrite_cpu_s} for the rewrite)",
    )
    OBJECTIVE = (
        "objective",
        "an objective of the table is in danger: `firnline.objective.read-amplification` or "
        "`firnline.objective.oldest-debt-ms`",
        "an objective is in danger: reads cost {read_amplification} times those of a tidy "
        "partition ({objective_read_amplification} allowed, 0 = any), and its debt is "
        "{oldest_debt_s} s old ({objective_oldest_debt_s} allowed, 0 = any)",
    )
    OLD_DEBT = (
        "old_debt",
        "some debt is older than `max-age-ms`",
        "below every threshold, but some of it has waited longer than firnline.rewrite.max-age-ms",
    )
    EQUALITY_DELETE_AGE = (
        "equality_delete_age",
        "an equality delete would be older than `firnline.equality-deletes.max-age-ms` if its "
        "rewrite were ordered later",
        "its oldest equality delete is {equality_delete_age_s} s old, and none shall be older than "
        "{max_equality_delete_age_s} s (firnline.equality-deletes.max-age-ms)",
    )
    RECYCLING = (
        "recycling",
        "rows deleted by position are older than the retention, and `recycle` is set: the rewrite"
        " removes them from storage",
        "what was deleted by position has outlasted the retention, and would stay on the storage",
    )
    FULL_INTERVAL = (
        "full_interval",
        "`full-interval-ms` has passed since all files of the partition were rewritten",
        "all its files are rewritten every {full_interval_h} h (firnline.rewrite.full-interval-ms)",
    )
    CLOSED = (
        "closed",
        "no commit has changed the partition for `firnline.freeze.after-hours`: it is rewritten "
        "once, and frozen",
        "no commit has changed it for {freeze_after_h} h (firnline.freeze.after-hours): all its "
        "files are rewritten once more, then it is frozen",
    )
    UNSORTED = (
        "unsorted",
        "`firnline.sort` is set, and the partition has changed since the worker looked how many "
        "files hold one key",
        "changed since it was sorted last; where more than {sort_depth} files hold one key they are"
        " sorted (firnline.sort)",
    )
    V2_DELETES = (
        "v2_deletes",
        "`firnline.format-version=3` is set, and the partition holds delete files that came before "
        "the upgrade: deletion vectors take their place",
        "{v2_delete_files} delete files of format version 2: deletion vectors take their place "
        "(firnline.format-version)",
    )
    # ordered, of a table as a whole
    DANGLING_DELETES = (
        "dangling_deletes",
        "delete files are so many beside the data files that some will apply to nothing",
        "{delete_files} delete files beside {data_files} data files: some will apply to nothing",
    )
    MANY_MANIFESTS = (
        "many_manifests",
        "manifests are `firnline.manifests.min-count` more than full ones would be",
        "{manifests} manifests, where {full_manifests} full ones would do; {min_manifests} more "
        "are enough for a rewrite",
    )
    PARTITIONS_ANNOUNCED = (
        "partitions_announced",
        "a worker counts which files are older than `firnline.partitions.ttl-hours`",
        "which files are older than {ttl_h} h is being found out, to be announced",
    )
    OLD_PARTITIONS = (
        "old_partitions",
        "files whose rows are all older than `firnline.partitions.ttl-hours` leave the table",
        "files whose rows are all older than {ttl_h} h (firnline.partitions.ttl-hours) leave the "
        "table",
    )
    ARCHIVE_ANNOUNCED = (
        "archive_announced",
        "a worker counts which files are older than `firnline.archive.after-hours`",
        "which files are older than {archive_h} h is being found out, to be announced",
    )
    ARCHIVE_DUE = (
        "archive_due",
        "files whose rows are all older than `firnline.archive.after-hours` move to the archive",
        "files whose rows are all older than {archive_h} h (firnline.archive.after-hours) move to "
        "the archive",
    )
    FORMAT_ANNOUNCED = (
        "format_announced",
        "a worker looks who writes the table, before `firnline.format-version` is carried out",
        "who writes it, and what it holds of v2, is being found out, to be announced",
    )
    FORMAT_VERSION = (
        "format_version",
        "`firnline.format-version` asks for a higher format version than the table has",
        "format version {format_version} becomes {wanted_version} (firnline.format-version)",
    )
    STALE_STATISTICS = (
        "stale_statistics",
        "`firnline.statistics` is set, and more rows have changed since they were computed than "
        "`firnline.statistics.min-change` says",
        "{rows_changed} of {rows} rows changed since statistics were computed "
        "({min_change} of them are enough); reads {read_gb} GB at most, about {read_cpu_s} CPU s",
    )
    STALE_PARTITION_STATISTICS = (
        "stale_partition_statistics",
        "`firnline.partition-statistics` is set, and there are commits since they were computed",
        "commits came since partition statistics were computed; reads manifests alone",
    )
    PERIOD_ENDED = (
        "period_ended",
        "a day, a month or another period of `firnline.tags.create` is over",
        "a period is over: what the table was at its end gets a tag (firnline.tags.create)",
    )
    REQUESTED = (
        "requested",
        "a person has asked for it by name: `firnline run TABLE ACTION`",
        "a person has asked for it (firnline run)",
    )
    ORPHAN_INTERVAL = (
        "orphan_interval",
        "`firnline.orphans.enabled` is set, and a week has passed",
        "once a week: files older than {min_age_h} h that the table does not name are moved aside, "
        "and deleted {quarantine_h} h later",
    )
    # not ordered
    PARTITIONS_GRACE = (
        "partitions_grace_period",
        "old partitions were announced, and leave the table when `firnline.partitions.grace-ms` is"
        " over",
        "old partitions were announced; they leave the table when firnline.partitions.grace-ms is "
        "over (firnline.partitions.ttl-hours=0 stops it)",
    )
    ARCHIVE_GRACE = (
        "archive_grace_period",
        "what is to be archived was announced, and moves when `firnline.partitions.grace-ms` is "
        "over",
        "what is to be archived was announced; it moves when firnline.partitions.grace-ms is over "
        "(firnline.archive.after-hours=0 stops it)",
    )
    FORMAT_GRACE = (
        "format_grace_period",
        "the upgrade of the format version was announced, and is made when "
        "`firnline.format-version.grace-ms` is over",
        "its upgrade was announced, and cannot be undone; it is made when "
        "firnline.format-version.grace-ms is over (firnline.format-version=2 stops it)",
    )
    STATISTICS_TOO_LARGE = (
        "statistics_too_large",
        "statistics are stale, and the table is larger than `firnline.statistics.max-bytes`",
        "statistics are stale; to compute them would read {read_gb} GB, about {read_cpu_s} CPU s, "
        "and firnline.statistics.max-bytes allows {max_gb} GB",
    )
    STATISTICS_AFTER_REWRITES = (
        "statistics_after_rewrites",
        "statistics are stale, and computed when the rewrites that are out have ended",
        "statistics are stale; rewrites are at work, and after them a read costs less",
    )
    HEALTHY = (
        "healthy",
        "no debt",
        "nothing to do",
    )
    ACCUMULATING = (
        "accumulating",
        "some debt, below every threshold",
        "not enough yet",
    )
    FIXED_POINT = (
        "fixed_point",
        "the last rewrite left exactly this: another one would change nothing",
        "the last rewrite left as much; another would change nothing",
    )
    NOT_CLOSED = (
        "not_closed",
        "asked to be frozen, and a commit has changed it within `firnline.freeze.after-hours`",
        "a commit has changed it within firnline.freeze.after-hours: it is not closed yet",
    )
    FROZEN = (
        "frozen",
        "closed, and rewritten for the last time: left alone until a commit changes it",
        "frozen: left alone until a commit changes it (firnline.freeze.after-hours)",
    )
    MINIMUM_GAIN = (
        "minimum_gain",
        "the rewrite costs more than readers have paid so far",
        "its rewrite costs {rewrite_cpu_s} CPU s and spares a scan {read_s_spared}; waits until "
        "readers have paid their part of it, at most firnline.rewrite.max-wait-ms",
    )
    QUIET_PERIOD = (
        "quiet_period",
        "the partition changed within `quiet-ms`",
        "writers are at work in it right now; waits until they pause",
    )
    HOT = (
        "hot",
        "a writer changed rows of its files within `hot-ms`; its next statement would fail",
        "a writer changes rows of its files (DELETE, UPDATE, MERGE) and would fail; waits until "
        "it pauses, at most firnline.rewrite.hot-max-ms",
    )
    IN_FLIGHT = (
        "in_flight",
        "an order is out",
        "a task is at work",
    )
    COOLING = (
        "cooling",
        "the last rewrite was less than `cool-down-ms` ago",
        "rests after its last order",
    )
    BACKING_OFF = (
        "backing_off",
        "the last order failed; the next one waits 10 s, then twice as long each time, at most "
        "30 min",
        "waits after a failure, {failures} in a row",
    )
    PARKED = (
        "parked",
        "it failed too often; the next try is 24 h later, or after `firnline unpark`",
        "parked: no retry helped, {failures} failures in a row",
    )
    UNDONE = (
        "undone",
        "a person took the last rewrite back: 24 h, or until `firnline unpark`",
        "its last rewrite was undone by a person; `firnline unpark` lets it go on",
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
        "other rewrites and actions spare more for their price; it waits for the budget",
        "deserves an order, and others spare more for what they cost: its turn within "
        "FIRNLINE_BUDGET_GB_HOURS comes",
    )
    TABLE_BUSY = (
        "table_busy",
        "`max-in-flight` orders of the table are out",
        "{in_flight} tasks of this table are out already, its limit (firnline.rewrite.max-in-"
        "flight)",
    )
    WAITING_FOR_RESYNC = (
        "waiting_for_resync",
        "events are missing; the counters are being rebuilt",
        "commits are missing from the counters; the enricher was asked for them",
    )
    DISABLED = (
        "disabled",
        "`firnline.enabled=false`",
        "switched off (firnline.enabled)",
    )
    NAME_TOO_LONG = (
        "name_too_long",
        "the partition's values are too long for an order",
        "its partition values are longer than 2,000 characters: not maintained",
    )
    REMOVED = (
        "removed",
        "the partition or the table is gone",
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
    rank: float = 0.0  # of orders: the highest goes first (`cost_benefit.CostBenefit.paid_back`)
    numbers: dict[str, float] = field(default_factory=dict)  # see `explained`
    action: Action = Action.COMPACT
    min_dead_ratio: float = EVERY_FILE  # of the larger files that are rewritten
    assessment: Assessment | None = None
    wanted: Decision | None = None

    @property
    def status(self) -> str:
        """idle | in_flight | cooling | backing_off | parked"""
        return "in_flight" if self.order else STATUS.get(self.reason, "idle")
