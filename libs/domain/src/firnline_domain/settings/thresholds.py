"""Resolve settings: table properties, then namespace's, then policies', then defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from firnline_domain.base.numbers import Range, real_range, whole_range
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.records.parts.tallies import DEFAULT_TARGET_BYTES, TARGET_RANGE
from firnline_domain.settings.groups import Budget, Group, serving_group

AGE_MS = 100 * 365 * DAY_MS  # what people write for never; no record tells of longer ones
PAUSE = whole_range(0, AGE_MS)
SIZE = whole_range(0, 1 << 50)  # a petabyte
FILES = whole_range(0, 1_000_000_000)


class Property(Value):
    """A table property: the field of `Thresholds` with its type and default, and its meaning. A
    number outside the range counts as unset, and its owner is advised. `is_common`: one of the ten
    that most people need."""

    field: str
    about: str
    range: Range | None = None
    is_common: bool = False


# Read by the workers, from the table's own properties alone.
WORKERS = {"firnline.rewrite.hold-off-ms": PAUSE, "firnline.rewrite.max-span-ms": PAUSE}
ABOUT_WORKERS = {
    "firnline.rewrite.hold-off-ms": (
        "Do not rewrite `main` while a branch with a younger commit is ahead of it, or a younger "
        "commit is staged (`wap.id`), because a rewrite would make the fast-forward fail. Read "
        "from the table only. `0`: no wait."
    ),
    "firnline.rewrite.max-span-ms": (
        "Merge only files whose rows were committed within this time of each other, so that "
        "readers can skip files of an unpartitioned table by time. Read from the table only. `0`: "
        "any files."
    ),
}


PRICE = real_range(0, 1_000_000)  # dollars
FLEET = "*"  # the budget of all groups without a quota; no group has that name
EXPIRE_ENABLED = "firnline.expire.enabled"


class ConversionPolicy(StrEnum):
    """Policy for equality deletes of larger files: whether they become positions instead of being
    applied."""

    AUTO = "auto"  # where that spares more for what it costs
    ALWAYS = "always"  # where it can be done
    NEVER = "never"


class ReadsFrom(StrEnum):
    """Source of the rate at which a table is read."""

    ASSUMED = "assumed"  # firnline.reads-per-hour alone
    AT_LEAST = "at-least"  # as often as that, or as readers report if that is oftener
    REPORTED = "reported"  # as readers report, as soon as that is known (`reads`)


class ExpiryMode(StrEnum):
    """Modes of snapshot expiry."""

    CAREFUL = "careful"  # announced, then a grace period; no table that shares files
    ALWAYS = "true"  # as soon as they are old enough
    NEVER = "false"


class Thresholds(Value, cache_hash=True):  # eighty fields, and `_resolve` asks with every record
    """Each field's property stands beside it. A value that cannot be read counts as unset, but for
    a window or a blackout: whoever set one does not want orders at any time.
    """

    enabled: bool = True  # firnline.enabled
    shadow: bool = False  # firnline.shadow: decide and show, order nothing
    min_fragments: int = 8  # firnline.rewrite.min-fragments: data files < target / 8
    min_equality_deletes: int = 4  # firnline.rewrite.min-equality-deletes: files
    min_position_deletes: int = 8  # firnline.rewrite.min-position-deletes: files and DVs
    max_age_ms: int = HOUR_MS  # firnline.rewrite.max-age-ms: any debt older than that is served
    max_equality_delete_age_ms: int = 0  # firnline.equality-deletes.max-age-ms; 0 = any age
    max_read_amplification: float = 0.0  # firnline.objective.read-amplification; 0 = any
    max_oldest_debt_ms: int = 0  # firnline.objective.oldest-debt-ms; 0 = any age
    quiet_ms: int = 1_000  # firnline.rewrite.quiet-ms: a partition that changes is left to cool
    hot_ms: int = 10_000  # firnline.rewrite.hot-ms: after a writer changed rows of its files
    hot_max_ms: int = 60_000  # firnline.rewrite.hot-max-ms: then debt goes before
    cool_down_ms: int = 10_000  # firnline.rewrite.cool-down-ms: after a success
    deadline_ms: int = 30 * 60_000  # firnline.rewrite.deadline-ms: of a task at work (`run_ms`)
    slice_ms: int = 5 * 60_000  # firnline.rewrite.slice-ms: of work in one order; 0 = any
    max_in_flight: int = 16  # firnline.rewrite.max-in-flight: partitions of one table at once
    max_commits: int = 120  # firnline.commit.max-per-hour: snapshots of ours; 0 = any number
    yield_ms: int = HOUR_MS  # firnline.yield-ms: after the commit of another maintainer
    target_bytes: int = DEFAULT_TARGET_BYTES  # write.target-file-size-bytes
    max_size_error: float = 0.2  # firnline.rewrite.max-size-error: see `file_sizes`; 0 = any
    cheap_bytes: int = 16 << 20  # firnline.rewrite.cheap-bytes: up to that nothing is weighed
    convert: ConversionPolicy = ConversionPolicy.AUTO  # firnline.rewrite.convert
    streaming_readers: bool = False  # firnline.streaming-readers: no snapshot stops them
    heavy_bytes: int = 4 << 30  # firnline.rewrite.heavy-bytes: delete sets above go to `lanes`
    payback: float = 0.5  # firnline.rewrite.payback: of the price, paid by readers (`cost_benefit`)
    reads_per_hour: float = 2.0  # firnline.reads-per-hour: scans of a partition
    reads_from: ReadsFrom = ReadsFrom.AT_LEAST  # firnline.reads-from
    min_dead_ratio: float = 0.2  # firnline.rewrite.min-dead-ratio: of larger files (`dead_files`)
    recycle: bool = False  # firnline.rewrite.recycle: dead rows leave the storage after a time
    max_wait_ms: int = DAY_MS  # firnline.rewrite.max-wait-ms: then it is served at any price
    min_manifests: int = 100  # firnline.manifests.min-count: beyond full ones; 0 = never
    manifest_interval_ms: int = HOUR_MS  # firnline.manifests.min-interval-ms
    remove_orphans: bool = False  # firnline.orphans.enabled: files that the table does not name
    orphan_age_ms: int = 3 * DAY_MS  # firnline.orphans.min-age-ms: Iceberg's own default
    quarantine_ms: int = 7 * DAY_MS  # firnline.orphans.quarantine-ms: then they are deleted
    orphan_inventory: str = ""  # firnline.orphans.inventory: read in place of listing
    partition_ttl_h: float = 0.0  # firnline.partitions.ttl-hours; 0 = for ever
    partition_column: str = ""  # firnline.partitions.column: that the age is of
    partition_grace_ms: int = DAY_MS  # firnline.partitions.grace-ms: from the announcement
    partition_interval_ms: int = 6 * HOUR_MS  # firnline.partitions.min-interval-ms
    archive_after_h: float = 0.0  # firnline.archive.after-hours: of rows; 0 = never
    archive_table: str = ""  # firnline.archive.table; '' = NAME_archive beside the table
    archive_location: str = ""  # firnline.archive.location: where it is made
    format_version: int = 2  # firnline.format-version: that the table shall have
    upgrade_grace_ms: int = DAY_MS  # firnline.format-version.grace-ms: from the announcement
    writer_hours: float = 24.0  # firnline.format-version.writer-hours: that writers are looked at
    sort: str = ""  # firnline.sort: columns, or `order` = the table's own; '' = never
    sort_depth: int = 5  # firnline.sort.max-depth: files that may hold one key
    sort_interval_ms: int = HOUR_MS  # firnline.sort.interval-ms: between two looks
    statistics: str = ""  # firnline.statistics: columns, or `all`; '' = never
    partition_statistics: bool = False  # firnline.partition-statistics
    statistics_min_change: float = 0.1  # firnline.statistics.min-change: of rows, since the last
    statistics_interval_ms: int = 6 * HOUR_MS  # firnline.statistics.min-interval-ms
    statistics_max_bytes: int = 100 << 30  # firnline.statistics.max-bytes: that may be read
    gc_enabled: bool = True  # gc.enabled
    max_snapshot_age_ms: int = 5 * DAY_MS  # history.expire.max-snapshot-age-ms
    min_snapshots: int = 1  # history.expire.min-snapshots-to-keep
    expire: ExpiryMode = ExpiryMode.CAREFUL  # firnline.expire.enabled
    expire_grace_ms: int = DAY_MS  # firnline.expire.grace-ms: from the announcement
    retain_hours: float | None = None  # firnline.retain.hours: instead of max-snapshot-age-ms
    create_tags: str = ""  # firnline.tags.create: their names; see `parse_tag_rules`
    expire_tags: str = ""  # firnline.expire.tags: patterns and ages; see `parse_ref_rules`
    expire_branches: str = ""  # firnline.expire.branches: the same
    metadata_versions: int = 0  # firnline.metadata.previous-versions-max: 0 = as the table says
    expire_interval_ms: int = 10 * 60_000  # firnline.expire.min-interval-ms
    full_interval_ms: int = 0  # firnline.rewrite.full-interval-ms: of every file; 0 = never
    freeze_after_h: float = 0.0  # firnline.freeze.after-hours: without a commit; 0 = never
    window: str = ""  # firnline.window: orders only within; see `windows`
    blackout: str = ""  # firnline.blackout: no orders within
    price_cpu_hour: float = 0.05  # firnline.price.cpu-hour: dollars; 4 GB of memory with it
    price_million_gets: float = 0.4  # firnline.price.million-gets: requests that read an object
    price_million_puts: float = 5.0  # firnline.price.million-puts: that write or list
    price_gb_month: float = 0.023  # firnline.price.gb-month: of storage
    memory_back_at_once: bool = False  # firnline.memory.back-at-once: not step by step
    group: str = ""  # firnline.group: whose workers rewrite it; see `groups`
    groups: tuple[Group, ...] = ()  # all that the fleet has: FIRNLINE_GROUPS alone says so
    budget: Budget = Budget()  # no property: the bucket's part of the fleet's

    @property
    def may_convert(self) -> bool:
        """Return whether equality deletes may become positions. Such a snapshot is a `delete` or an
        `overwrite`, at which streaming readers stop; that of a rewrite is a `replace`."""
        return self.convert is not ConversionPolicy.NEVER and not self.streaming_readers

    @property
    def retention_ms(self) -> int:
        """Return how long snapshots are kept. A streaming reader that was stopped continues from
        the one that it has read last, so they stay for at least a day unless the table sets another
        time."""
        if self.retain_hours is None:
            least_ms = DAY_MS if self.expire is ExpiryMode.CAREFUL else 0
            return max(self.max_snapshot_age_ms, least_ms)
        return int(self.retain_hours * HOUR_MS)

    @property
    def served_by(self) -> str:
        """The group that gets the table's orders."""
        return serving_group(self.group, self.groups)

    @property
    def paying_budget(self) -> tuple[str, Budget]:
        """Return which budget pays for the table's rewrites, and how much it is: its group's quota,
        or the fleet's budget where the group has none."""
        group = self.served_by
        return (
            (group, self.budget_by_group[group])
            if group in self.budget_by_group
            else (FLEET, self.budget)
        )

    @property
    def budget_by_group(self) -> dict[str, Budget]:
        """Return the budget of every group with a quota, and of the fleet."""
        share = self.budget.old_share
        quotas = {
            group.name: Budget(group.quota_gb_hours, share)
            for group in self.groups
            if group.quota_gb_hours is not None
        }
        return {FLEET: self.budget, **quotas}

    def divide_by(self, of: float) -> Thresholds:
        """Divide budget and quotas into so many equal parts."""
        groups = tuple(group.divide_by(of) for group in self.groups)
        return replace(self, groups=groups, budget=self.budget.divide_by(of))

    @property
    def is_bounded(self) -> bool:
        """Return True if any rewrite has to be paid for."""
        return self.budget.is_limited or any(
            group.quota_gb_hours is not None for group in self.groups
        )


PROPERTIES = {
    "firnline.enabled": Property(
        "enabled",
        "`false` disables maintenance of the table. Firnline still keeps and shows its statistics.",
        is_common=True,
    ),
    "firnline.shadow": Property(
        "shadow",
        "`true` is shadow mode: Firnline decides and shows each task (status `would order`), and "
        "runs none.",
        is_common=True,
    ),
    "firnline.rewrite.min-fragments": Property(
        "min_fragments",
        "Number of small files (below an eighth of the target size) that triggers a rewrite of "
        "their partition.",
        FILES,
        is_common=True,
    ),
    "firnline.rewrite.min-equality-deletes": Property(
        "min_equality_deletes",
        "Number of equality-delete files that triggers a rewrite of their partition.",
        FILES,
    ),
    "firnline.rewrite.min-position-deletes": Property(
        "min_position_deletes",
        "Number of position-delete files and deletion vectors that triggers a rewrite of a "
        "partition up to `firnline.rewrite.cheap-bytes`. In a larger partition: number of "
        "position-delete files, in excess of one per data file, that triggers their merge.",
        FILES,
    ),
    "firnline.rewrite.max-age-ms": Property(
        "max_age_ms",
        "Age of small files or delete files at which a partition is rewritten, however few there "
        "are.",
        PAUSE,
    ),
    "firnline.equality-deletes.max-age-ms": Property(
        "max_equality_delete_age_ms",
        "Maximum age of equality deletes on `main`, at any cost. Set it if readers "
        "cannot apply equality deletes. `0`: no maximum.",
        PAUSE,
    ),
    "firnline.objective.read-amplification": Property(
        "max_read_amplification",
        "Read cost that no partition may exceed, as a multiple of the cost after a full "
        "compaction. A rewrite starts at four fifths of it. `0`: no objective.",
        real_range(0, 1000),
    ),
    "firnline.objective.oldest-debt-ms": Property(
        "max_oldest_debt_ms",
        "Age that files to compact may not reach in any partition. A rewrite starts at four "
        "fifths of it. `0`: no objective.",
        PAUSE,
    ),
    "firnline.rewrite.quiet-ms": Property(
        "quiet_ms",
        "Wait after a commit to the partition, unless its files to compact are twice a threshold. "
        "Raise it if writers commit in bursts with longer pauses.",
        PAUSE,
    ),
    "firnline.rewrite.hot-ms": Property(
        "hot_ms",
        "Wait after a commit of DELETE, UPDATE or MERGE that changed rows of existing files, "
        "because a rewrite would make the writer's next statement fail. Appends and streaming "
        "upserts do not count. `0`: no wait.",
        PAUSE,
    ),
    "firnline.rewrite.hot-max-ms": Property(
        "hot_max_ms", "Maximum of that wait if the writer never pauses.", PAUSE
    ),
    "firnline.rewrite.cool-down-ms": Property(
        "cool_down_ms", "Minimum time between two rewrites of the same partition.", PAUSE
    ),
    # No rewrite, however small, is done and committed within 10 s; and a task that hangs is
    # to be missed within the week.
    "firnline.rewrite.deadline-ms": Property(
        "deadline_ms",
        "Run time after which a rewrite counts as lost. Four times its estimated time, if that is "
        "longer.",
        whole_range(10000, 7 * DAY_MS),
    ),
    # orders of one table in the planner's state: 0.5 MB
    "firnline.rewrite.slice-ms": Property(
        "slice_ms",
        "Maximum estimated run time of one task; a larger partition is rewritten in several. At "
        "most half of `firnline.rewrite.deadline-ms` counts. `0`: always one task.",
        whole_range(0, 7 * DAY_MS),
    ),
    "firnline.rewrite.max-in-flight": Property(
        "max_in_flight",
        "Maximum number of large rewrites of the table that run at the same time. A small one "
        "counts as an eighth.",
        whole_range(0, 1000),
    ),
    "firnline.commit.max-per-hour": Property(
        "max_commits",
        "Maximum number of snapshots that Firnline adds to the table per hour: half at once, the "
        "others evenly spread. Results that are ready together share a commit. Expiry does not "
        "count. `0`: no maximum.",
        whole_range(0, 1000000),
        is_common=True,
    ),
    "firnline.yield-ms": Property(
        "yield_ms",
        "Wait for rewrites after a commit of another maintainer that commits repeatedly. After "
        "its first commit the wait is at most 5 minutes. `0`: no wait.",
        PAUSE,
    ),
    "write.target-file-size-bytes": Property(
        "target_bytes",
        "Target size of data files (Iceberg's property).",
        TARGET_RANGE,
        is_common=True,
    ),
    "firnline.rewrite.max-size-error": Property(
        "max_size_error",
        "Relative deviation of data files from the target size (root mean square) that triggers a "
        "rewrite, if a merge improves it by as much. `0`: file sizes trigger nothing.",
        real_range(0, 1000),
    ),
    "firnline.rewrite.cheap-bytes": Property(
        "cheap_bytes",
        "Bytes that a rewrite may read without a comparison of cost and benefit. A larger one "
        "waits until readers have paid for it (reason `minimum_gain`).",
        SIZE,
    ),
    "firnline.rewrite.convert": Property(
        "convert",
        "When to convert equality deletes of larger files to position deletes (v2) or deletion "
        "vectors (v3): `auto` in partitions above `firnline.rewrite.cheap-bytes`, `always` if "
        "possible, or `never`.",
    ),
    "firnline.streaming-readers": Property(
        "streaming_readers",
        "`true` if Spark or Flink read the table as a stream: rewrites make only `replace` "
        "snapshots, so equality deletes are never converted, and expiry keeps the newest snapshot "
        "that added rows and all after it.",
    ),
    "firnline.rewrite.heavy-bytes": Property(
        "heavy_bytes",
        "Estimated memory of delete sets above which a rewrite goes to workers with more memory: "
        "99 bytes per delete row, more for long keys.",
        SIZE,
    ),
    "firnline.rewrite.payback": Property(
        "payback",
        "A rewrite starts when the accumulated read cost reaches this multiple of the rewrite "
        "cost. Raise it if compute is expensive compared with readers' time.",
        real_range(0, 1000000),
    ),
    "firnline.reads-per-hour": Property(
        "reads_per_hour",
        "Assumed scans of a partition per hour if readers do not report them. `0`: no reads, so "
        "only age counts.",
        real_range(0, 1000000000),
    ),
    "firnline.reads-from": Property(
        "reads_from",
        "Source of the read rate: `assumed` uses `firnline.reads-per-hour`, `reported` uses what "
        "the gateway counts, `at-least` the higher of the two. Use `reported` only if all readers "
        "use the gateway.",
    ),
    # below a hundredth a file would be written anew for every hundredth row of it
    "firnline.rewrite.min-dead-ratio": Property(
        "min_dead_ratio",
        "Minimum share of deleted rows in a larger data file before it is rewritten because of "
        "them.",
        real_range(0.01, 1),
    ),
    "firnline.rewrite.recycle": Property(
        "recycle",
        "`true` rewrites every file with a deleted row when the delete is as old as the snapshot "
        "retention, so that the row leaves the storage. It may rewrite the whole partition once "
        "per retention.",
    ),
    "firnline.rewrite.max-wait-ms": Property(
        "max_wait_ms",
        "Maximum time that a rewrite waits for its benefit to exceed its cost.",
        PAUSE,
    ),
    "firnline.rewrite.full-interval-ms": Property(
        "full_interval_ms",
        "Interval in which every file of a changed partition is rewritten, for example to remove "
        "deleted rows by a date or to change the codec. Reads and writes the whole partition. "
        "`0`: never.",
        PAUSE,
    ),
    "firnline.freeze.after-hours": Property(
        "freeze_after_h",
        "Time without a commit after which a partition is rewritten once and then left alone. "
        "`0`: never.",
        real_range(0, AGE_MS / HOUR_MS),
    ),
    "firnline.manifests.min-count": Property(
        "min_manifests",
        "Number of manifests, in excess of what full ones would need, that triggers a rewrite of "
        "the small ones. `0`: never.",
        FILES,
    ),
    "firnline.manifests.min-interval-ms": Property(
        "manifest_interval_ms", "Minimum time between two rewrites of the table's manifests.", PAUSE
    ),
    "firnline.orphans.enabled": Property(
        "remove_orphans",
        "`true` removes orphan files once a week: it moves them to a quarantine folder and "
        "deletes them later.",
    ),
    "firnline.orphans.min-age-ms": Property(
        "orphan_age_ms",
        "Minimum age of an orphan file, at least a day. Raise it if writers commit files later "
        "than three days after writing them.",
        PAUSE,
    ),
    "firnline.orphans.quarantine-ms": Property(
        "quarantine_ms", "Time from moving an orphan file to the quarantine to its deletion.", PAUSE
    ),
    "firnline.orphans.inventory": Property(
        "orphan_inventory",
        "Inventory of the bucket to read instead of listing the location: an S3 Inventory "
        "`manifest.json`, the folder of such inventories, or one Parquet, ORC or CSV file. Unset: "
        "the location is listed.",
    ),
    "firnline.partitions.ttl-hours": Property(
        "partition_ttl_h",
        "Age at which rows are removed from the table, one whole file at a time. This deletes "
        "rows. `0`: never.",
        real_range(0, AGE_MS / HOUR_MS),
    ),
    "firnline.partitions.column": Property(
        "partition_column",
        "Column that the age of rows is taken from: a date, a time, or ISO dates as text. Unset: "
        "the only time column that the table is partitioned by.",
    ),
    "firnline.partitions.grace-ms": Property(
        "partition_grace_ms",
        "Time from the announcement to the first removal or archiving of rows.",
        PAUSE,
    ),
    "firnline.partitions.min-interval-ms": Property(
        "partition_interval_ms", "Minimum time between two removals of old rows.", PAUSE
    ),
    "firnline.archive.after-hours": Property(
        "archive_after_h",
        "Age at which rows are moved to the archive table, one whole file at a time. `0`: never.",
        real_range(0, AGE_MS / HOUR_MS),
    ),
    "firnline.archive.table": Property(
        "archive_table",
        "Name of the archive: `namespace.name` in the same catalog, or a name in the table's "
        "namespace. Unset: `NAME_archive`.",
    ),
    "firnline.archive.location": Property(
        "archive_location",
        "Location of the archive, used when it is created. Unset: the catalog chooses.",
    ),
    "firnline.format-version": Property(
        "format_version",
        "Minimum format version of the table. `3` upgrades a v2 table, which cannot be undone.",
        whole_range(2, 3),
    ),
    "firnline.format-version.grace-ms": Property(
        "upgrade_grace_ms", "Time from the announcement of the upgrade to the upgrade.", PAUSE
    ),
    "firnline.format-version.writer-hours": Property(
        "writer_hours",
        "Refuse the upgrade if a writer that may not support v3 committed within this time. `0` "
        "disables the check.",
        real_range(0, AGE_MS / HOUR_MS),
    ),
    "firnline.sort": Property(
        "sort",
        "Columns to sort rows by, for example `customer, at desc`. `zorder(customer, at)` serves "
        "filters on each of two to four columns. `order` uses the table's sort order. Unset: no "
        "sorting.",
    ),
    "firnline.sort.max-depth": Property(
        "sort_depth",
        "Maximum number of files of a partition that may contain the same key.",
        whole_range(2, 1000),
    ),
    "firnline.sort.interval-ms": Property(
        "sort_interval_ms", "Minimum time between two checks of a changed partition.", PAUSE
    ),
    "firnline.statistics": Property(
        "statistics",
        "Columns, comma-separated, whose distinct values are counted for query planners. `all`: "
        "all columns that are no struct, list or map. Unset: none.",
    ),
    "firnline.partition-statistics": Property(
        "partition_statistics",
        "`true` keeps a partition statistics file for the current snapshot of a partitioned table.",
    ),
    "firnline.statistics.min-change": Property(
        "statistics_min_change",
        "Share of rows that must change before statistics are computed again.",
        real_range(0, 1000),
    ),
    "firnline.statistics.min-interval-ms": Property(
        "statistics_interval_ms", "Minimum time between two computations of statistics.", PAUSE
    ),
    "firnline.statistics.max-bytes": Property(
        "statistics_max_bytes",
        "Maximum size of a table (data and delete files) whose statistics are computed.",
        SIZE,
    ),
    "gc.enabled": Property(
        "gc_enabled",
        "`false`: another table may share the files, so nothing is expired or removed (Iceberg's "
        "property).",
    ),
    "history.expire.max-snapshot-age-ms": Property(
        "max_snapshot_age_ms", "Age at which snapshots expire (Iceberg's property).", PAUSE
    ),
    # an int of Iceberg's
    "history.expire.min-snapshots-to-keep": Property(
        "min_snapshots",
        "Number of snapshots to keep at any age (Iceberg's property).",
        whole_range(0, 2**31 - 1),
    ),
    "firnline.retain.hours": Property(
        "retain_hours",
        "Time that every snapshot is kept, instead of `history.expire.max-snapshot-age-ms`. A "
        "streaming reader can be stopped for this time. Unset: Iceberg's property, and at least a "
        "day while `firnline.expire.enabled` is `careful`.",
        real_range(0, AGE_MS / HOUR_MS),
        is_common=True,
    ),
    EXPIRE_ENABLED: Property(
        "expire",
        "`careful` announces the first expiry, then waits, and excludes tables with files outside "
        "their own locations. `true` starts at once. `false` disables expiry.",
        is_common=True,
    ),
    "firnline.expire.grace-ms": Property(
        "expire_grace_ms",
        "Time from the announcement of a table's first expiry to its start.",
        PAUSE,
    ),
    "firnline.tags.create": Property(
        "create_tags",
        "Names of tags to create at the end of each period, separated by `;`, for example "
        "`daily-{date}; monthly-{month}`. Unset: none.",
    ),
    "firnline.expire.tags": Property(
        "expire_tags",
        "Rules for the expiry of tags, for example `daily-* 30d keep 7; release-* never`. Unset: "
        "tags stay. An unreadable rule stops expiry (reason `unreadable_rules`).",
    ),
    "firnline.expire.branches": Property(
        "expire_branches", "Rules for the expiry of branches, as for tags. `main` always stays."
    ),
    "firnline.metadata.previous-versions-max": Property(
        "metadata_versions",
        "Number of old `metadata.json` files to keep. The next expiry removes older ones and sets "
        "Iceberg's `write.metadata.delete-after-commit.enabled` and "
        "`write.metadata.previous-versions-max`. `0`: as the table's properties are.",
        whole_range(0, 100000),
    ),
    "firnline.expire.min-interval-ms": Property(
        "expire_interval_ms", "Minimum time between two expiries of a table.", PAUSE
    ),
    "firnline.window": Property(
        "window",
        "Times in which tasks may start, for example `Mon-Fri 22:00-06:00 Europe/Berlin; Sat,Sun "
        "00:00-24:00 Europe/Berlin`. Unset: any time.",
        is_common=True,
    ),
    "firnline.blackout": Property(
        "blackout",
        "Times in which no task may start, for example `2026-12-24T00:00Z/2026-12-27T00:00Z; "
        "Mon-Fri 08:00-18:00 Europe/Berlin`.",
        is_common=True,
    ),
    "firnline.price.cpu-hour": Property(
        "price_cpu_hour",
        "Cost of one core for an hour in dollars, of workers and of readers.",
        PRICE,
    ),
    "firnline.price.million-gets": Property(
        "price_million_gets",
        "Cost of a million read requests in dollars. `0` if the storage does not charge requests.",
        PRICE,
    ),
    "firnline.price.million-puts": Property(
        "price_million_puts", "Cost of a million write or list requests in dollars.", PRICE
    ),
    "firnline.price.gb-month": Property(
        "price_gb_month", "Cost of 2^30 stored bytes for a month in dollars.", PRICE
    ),
    "firnline.memory.back-at-once": Property(
        "memory_back_at_once",
        "Workers of the heavy queue give back all additional memory at once, not step by step. "
        "Read from `FIRNLINE_DEFAULTS` only.",
    ),
    "firnline.group": Property(
        "group",
        "Resource group whose workers rewrite the table. Unset, `default` or an unknown name: the "
        "default group.",
        is_common=True,
    ),
}
RANGES = {one.field: one.range for one in PROPERTIES.values() if one.range is not None}
_KINDS: dict[str, str] = Thresholds.__annotations__  # texts, as they are written above
_DEFAULTS = Thresholds()
_FLAGS = {"true": True, "false": False}
_CHOICES: dict[str, dict[str, StrEnum]] = {
    kind.__name__: {member.value: member for member in kind}
    for kind in (ConversionPolicy, ExpiryMode, ReadsFrom)
}


NAMESPACE = "namespace:"  # before the name of a property that the table's namespace sets
POLICY = "policy:"  # before pattern, colon and name of one that a policy sets (`policies`)


class Origin(StrEnum):
    """Place where a setting of a table comes from, the weakest first."""

    DEFAULT = "default"
    FLEET = "fleet"  # the planner's environment
    POLICY = "policy"  # the operator's file
    NAMESPACE = "namespace"
    TABLE = "table"


_STRENGTHS = {origin: strength for strength, origin in enumerate(Origin)}


class PropertySource(Value):
    """A property's name, and where it is set. `policy`: the pattern of a policy."""

    name: str
    origin: Origin
    policy: str = ""

    @classmethod
    def parse(cls, key: str) -> PropertySource:
        """Parse a key of `with_namespace` and `TablePolicies.with_policies`."""
        if key.startswith(NAMESPACE):
            return cls(key.removeprefix(NAMESPACE), Origin.NAMESPACE)
        if key.startswith(POLICY):
            policy, _, name = key.removeprefix(POLICY).rpartition(":")
            return cls(name, Origin.POLICY, policy)
        return cls(key, Origin.TABLE)

    @property
    def text(self) -> str:
        """Return the source in words that follow `of the`."""
        return f"policy {self.policy}" if self.policy else self.origin


class PropertyValue(Value):
    """Value of one property for one field; `value` None = its text cannot be read."""

    field: str
    value: bool | int | float | str | None
    source: PropertySource
    text: str


def property_values(settings: Mapping[str, str]) -> list[PropertyValue]:
    """Return all settings in the properties of a table, of its namespace and of policies, the
    weakest first."""
    values = [saying for key, text in settings.items() for saying in _property_values(key, text)]
    return sorted(values, key=lambda value: _STRENGTHS[value.source.origin])


def _property_values(key: str, text: str) -> Iterator[PropertyValue]:
    source = PropertySource.parse(key)
    if known := PROPERTIES.get(source.name):
        yield PropertyValue(known.field, _parse_value(text, known.field), source, text)


def resolve_thresholds(
    settings: Mapping[str, str], defaults: Thresholds | None = None
) -> Thresholds:
    """Return what holds for a table with these properties; `defaults` are the fleet's."""
    return _resolve(tuple(sorted(settings.items())), defaults or _DEFAULTS)


@lru_cache(maxsize=4_096)  # asked with every record; most tables of a fleet say the same
def _resolve(settings: tuple[tuple[str, str], ...], defaults: Thresholds) -> Thresholds:
    said = {
        value.field: value.value
        for value in property_values(dict(settings))
        if value.value is not None
    }
    return replace(defaults, **said)  # type: ignore[arg-type]


def _parse_value(text: str, field: str) -> bool | int | float | str | None:
    """Return the value, or None if the text is none, or a number that makes no sense."""
    kind = _KINDS[field]
    if kind == "bool":
        return _FLAGS.get(text.strip().lower())
    if kind == "str":
        return text.strip()
    if kind in _CHOICES:
        return _CHOICES[kind].get(text.strip().lower())
    return RANGES[field].parse(text)
