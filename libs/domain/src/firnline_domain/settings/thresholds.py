"""When a table deserves maintenance: table properties, then namespace's, then defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from firnline_domain.numbers import real, whole
from firnline_domain.records.tallies import DEFAULT_TARGET_BYTES, TARGET_RANGE
from firnline_domain.settings.amoro import UNDERSTOOD
from firnline_domain.settings.groups import Budget, Group, served
from firnline_domain.settings.property import AGE_MS, FILES, PAUSE, SIZE, Property
from firnline_domain.times import DAY_MS, HOUR_MS
from firnline_domain.values import Value, replace

PRICE = real(0, 1_000_000)  # dollars
FLEET = "*"  # the budget of all groups without a quota; no group has that name
EXPIRE_ENABLED = "firnline.expire.enabled"
KEY_SHARE = 0.15  # of a data file's bytes: its key columns, until a conversion has read some


class Conversions(StrEnum):
    """When equality deletes of larger files become positions instead of being applied."""

    AUTO = "auto"  # where that spares more for what it costs
    ALWAYS = "always"  # where it can be done
    NEVER = "never"


class ReadsFrom(StrEnum):
    """Who says how often a table is read."""

    ASSUMED = "assumed"  # firnline.reads-per-hour alone
    AT_LEAST = "at-least"  # as often as that, or as readers report if that is oftener
    REPORTED = "reported"  # as readers report, as soon as that is known (`reads`)


class Expiry(StrEnum):
    """Whether old snapshots go."""

    CAREFUL = "careful"  # announced, then a grace period; no table that shares files
    ALWAYS = "true"  # as soon as they are old enough
    NEVER = "false"


class Thresholds(Value, cache_hash=True):  # ninety fields, and `_resolved` asks with every record
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
    max_size_error: float = 0.2  # firnline.rewrite.max-size-error: see `sizes`; 0 = any
    cheap_bytes: int = 16 << 20  # firnline.rewrite.cheap-bytes: up to that nothing is weighed
    convert: Conversions = Conversions.AUTO  # firnline.rewrite.convert
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
    expire: Expiry = Expiry.CAREFUL  # firnline.expire.enabled
    expire_grace_ms: int = DAY_MS  # firnline.expire.grace-ms: from the announcement
    retain_hours: float | None = None  # firnline.retain.hours: instead of max-snapshot-age-ms
    create_tags: str = ""  # firnline.tags.create: their names; see `tag_rules`
    expire_tags: str = ""  # firnline.expire.tags: patterns and ages; see `ref_rules`
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
    group: str = ""  # firnline.group: whose workers rewrite it; see `groups`
    groups: tuple[Group, ...] = ()  # all that the fleet has: FIRNLINE_GROUPS alone says so
    cost_factor: float = 1.0  # no property: what rewrites take here was learned (`FleetShare`)
    conversion_factor: float = 1.0  # no property: the same of conversions, which read keys
    sort_factor: float | None = None  # no property: the same of sorts; None = none was made yet
    action_factors: tuple[tuple[str, float], ...] = ()  # no property: of actions on whole tables
    key_share: float = KEY_SHARE  # no property: of a data file's bytes, as conversions have shown
    budget: Budget = Budget()  # no property: the bucket's part of the fleet's
    paid: bool = False  # no property: its turn within the budget has come

    @property
    def retention_ms(self) -> int:
        """How long snapshots are kept. A streaming reader that was stopped goes on from the one
        that it has read last, so they stay for a day at least unless the owner says otherwise."""
        if self.retain_hours is None:
            least_ms = DAY_MS if self.expire is Expiry.CAREFUL else 0
            return max(self.max_snapshot_age_ms, least_ms)
        return int(self.retain_hours * HOUR_MS)

    @property
    def served_by(self) -> str:
        """The group that gets the table's orders."""
        return served(self.group, self.groups)

    @property
    def spending(self) -> tuple[str, Budget]:
        """Which budget pays for the table's rewrites, and how much it is: its group's quota, or the
        fleet's budget where the group has none."""
        group = self.served_by
        return (group, self.budgets[group]) if group in self.budgets else (FLEET, self.budget)

    @property
    def budgets(self) -> dict[str, Budget]:
        """Of every group with a quota, and of the fleet."""
        share = self.budget.old_share
        quotas = {
            group.name: Budget(group.quota_gb_hours, share)
            for group in self.groups
            if group.quota_gb_hours is not None
        }
        return {FLEET: self.budget, **quotas}

    def part(self, of: float) -> Thresholds:
        """With one of so many equal parts of budget and quotas."""
        groups = tuple(group.part(of) for group in self.groups)
        return replace(self, groups=groups, budget=self.budget.part(of))

    @property
    def is_bounded(self) -> bool:
        """Whether any rewrite has to be paid for."""
        return self.budget.binds or any(group.quota_gb_hours is not None for group in self.groups)


PROPERTIES = {
    "firnline.enabled": Property("enabled"),
    "firnline.shadow": Property("shadow"),
    "firnline.rewrite.min-fragments": Property("min_fragments", FILES),
    "firnline.rewrite.min-equality-deletes": Property(
        "min_equality_deletes",
        FILES,
        "readers of a streaming upsert table need another balance of their time and rewriting",
    ),
    "firnline.rewrite.min-position-deletes": Property(
        "min_position_deletes", FILES, "the same for tables of DELETE, UPDATE and MERGE"
    ),
    "firnline.rewrite.max-age-ms": Property(
        "max_age_ms", PAUSE, "small debt may lie longer, or not so long"
    ),
    "firnline.equality-deletes.max-age-ms": Property(
        "max_equality_delete_age_ms",
        PAUSE,
        "readers cannot apply equality deletes: they refuse the table, or see what was deleted",
    ),
    "firnline.objective.read-amplification": Property(
        "max_read_amplification",
        real(0, 1_000),
        "reads shall never cost more than so many times those of a tidy table, whoever pays for it",
    ),
    "firnline.objective.oldest-debt-ms": Property(
        "max_oldest_debt_ms",
        PAUSE,
        "no debt shall be older than that, however large its partition and few its readers",
    ),
    "firnline.rewrite.quiet-ms": Property(
        "quiet_ms", PAUSE, "a writer's bursts have longer pauses than a second"
    ),
    "firnline.rewrite.hot-ms": Property(
        "hot_ms",
        PAUSE,
        "a writer of DELETE, UPDATE or MERGE bypasses the gateway and fails on rewrites",
    ),
    "firnline.rewrite.hot-max-ms": Property(
        "hot_max_ms", PAUSE, "the same writer never pauses, and its debt may grow longer"
    ),
    "firnline.rewrite.cool-down-ms": Property(
        "cool_down_ms", PAUSE, "a partition shall be rewritten more rarely"
    ),
    # No rewrite, however small, is done and committed within 10 s; and a task that hangs is
    # to be missed within the week.
    "firnline.rewrite.deadline-ms": Property(
        "deadline_ms", whole(10_000, 7 * DAY_MS), "rewrites take longer than half an hour"
    ),
    # orders of one table in the planner's state: 0.5 MB
    "firnline.rewrite.slice-ms": Property(
        "slice_ms", whole(0, 7 * DAY_MS), "one order shall take less of a large partition, or more"
    ),
    "firnline.rewrite.max-in-flight": Property(
        "max_in_flight", whole(0, 1_000), "one table shall take less of the workers, or more"
    ),
    "firnline.commit.max-per-hour": Property("max_commits", whole(0, 1_000_000)),  # one every 4 ms
    "firnline.yield-ms": Property(
        "yield_ms", PAUSE, "another maintainer of the table has a rhythm of its own"
    ),
    "write.target-file-size-bytes": Property("target_bytes", TARGET_RANGE),
    "firnline.rewrite.max-size-error": Property(
        "max_size_error", real(0, 1_000), "readers mind uneven file sizes less, or more"
    ),
    "firnline.rewrite.cheap-bytes": Property(
        "cheap_bytes",
        SIZE,
        "storage charges so much per request, or so little, that small rewrites are to be weighed"
        " too, or larger ones not",
    ),
    "firnline.rewrite.convert": Property(
        "convert",
        set_where="readers cannot use deletion vectors, or equality deletes have to "
        "go at any price",
    ),
    "firnline.rewrite.heavy-bytes": Property(
        "heavy_bytes", SIZE, "ordinary workers have less memory, or more"
    ),
    "firnline.rewrite.payback": Property(
        "payback", real(0, 1_000_000), "compute is dearer than readers' time, or cheaper"
    ),
    "firnline.reads-per-hour": Property(
        "reads_per_hour", real(0, 1_000_000_000), "readers report nothing, and their rate is known"
    ),
    "firnline.reads-from": Property(
        "reads_from", set_where="all readers report, or reports are not to be believed"
    ),
    # below a hundredth a file would be written anew for every hundredth row of it
    "firnline.rewrite.min-dead-ratio": Property(
        "min_dead_ratio",
        real(0.01, 1),
        "storage is slow, so that dead rows cost readers more; or writing is dear, and they may lie"
        " longer",
    ),
    "firnline.rewrite.recycle": Property(
        "recycle", set_where="rows that were deleted have to leave the storage by a date"
    ),
    "firnline.rewrite.max-wait-ms": Property(
        "max_wait_ms", PAUSE, "a table is read so rarely that debt may wait for days"
    ),
    "firnline.rewrite.full-interval-ms": Property(
        "full_interval_ms",
        PAUSE,
        "deleted rows have to leave the storage by a date, or old files shall get the codec or the "
        "order that writers write now",
    ),
    "firnline.freeze.after-hours": Property(
        "freeze_after_h",
        real(0, AGE_MS / HOUR_MS),
        "partitions are written for a day or two and then only read",
    ),
    "firnline.manifests.min-count": Property(
        "min_manifests",
        FILES,
        "planning is slow with fewer small manifests already, or another program rewrites them (0)",
    ),
    "firnline.manifests.min-interval-ms": Property(
        "manifest_interval_ms", PAUSE, "a writer that merges no manifests commits every few seconds"
    ),
    "firnline.orphans.enabled": Property(
        "remove_orphans", set_where="writers that died have left files that cost storage"
    ),
    "firnline.orphans.min-age-ms": Property(
        "orphan_age_ms", PAUSE, "a writer commits files later than three days after it wrote them"
    ),
    "firnline.orphans.quarantine-ms": Property(
        "quarantine_ms", PAUSE, "what was moved aside shall be found longer, or not so long"
    ),
    "firnline.orphans.inventory": Property(
        "orphan_inventory",
        set_where="the location holds so many objects that listing them is slow or dear",
    ),
    "firnline.partitions.ttl-hours": Property(
        "partition_ttl_h",
        real(0, AGE_MS / HOUR_MS),
        "rows shall leave the table at an age: it deletes rows",
    ),
    "firnline.partitions.column": Property(
        "partition_column", set_where="the table is partitioned by no time, or by several"
    ),
    "firnline.partitions.grace-ms": Property(
        "partition_grace_ms", PAUSE, "owners need longer than a day to object"
    ),
    "firnline.partitions.min-interval-ms": Property(
        "partition_interval_ms", PAUSE, "rows shall leave sooner than six hours after their age"
    ),
    "firnline.archive.after-hours": Property(
        "archive_after_h",
        real(0, AGE_MS / HOUR_MS),
        "rows of an age shall leave the table, and be kept elsewhere",
    ),
    "firnline.archive.table": Property(
        "archive_table", set_where="the archive shall have another name, or namespace"
    ),
    "firnline.archive.location": Property(
        "archive_location", set_where="the archive shall lie in another bucket or storage class"
    ),
    "firnline.format-version": Property(
        "format_version",
        whole(2, 3),
        "a v2 table shall become v3, and its delete files deletion vectors: there is no way back",
    ),
    "firnline.format-version.grace-ms": Property(
        "upgrade_grace_ms", PAUSE, "owners of readers need longer than a day to object"
    ),
    "firnline.format-version.writer-hours": Property(
        "writer_hours",
        real(0, AGE_MS / HOUR_MS),
        "writers that are not known to write v3 commit more rarely than once a day; or they were "
        "seen to (0: nobody looks)",
    ),
    "firnline.sort": Property(
        "sort", set_where="readers filter by a column that files are not sorted by"
    ),
    "firnline.sort.max-depth": Property(
        "sort_depth",
        whole(2, 1_000),
        "readers shall open fewer files for one key, or less shall be written",
    ),
    "firnline.sort.interval-ms": Property(
        "sort_interval_ms", PAUSE, "a partition shall be sorted sooner, or more rarely"
    ),
    "firnline.statistics": Property(
        "statistics", set_where="Trino joins the table, and chooses the order by cost"
    ),
    "firnline.partition-statistics": Property(
        "partition_statistics", set_where="a reader plans by partition statistics files"
    ),
    "firnline.statistics.min-change": Property(
        "statistics_min_change",
        real(0, 1_000),
        "query plans mind stale numbers more, or less",
    ),
    "firnline.statistics.min-interval-ms": Property(
        "statistics_interval_ms", PAUSE, "statistics shall be fresher, or cost less"
    ),
    "firnline.statistics.max-bytes": Property(
        "statistics_max_bytes", SIZE, "the table is larger than 100 GB and worth a read of it all"
    ),
    "gc.enabled": Property(
        "gc_enabled", set_where="another table shares the files: Iceberg's own switch"
    ),
    "history.expire.max-snapshot-age-ms": Property(
        "max_snapshot_age_ms", PAUSE, "Iceberg's own setting is there already"
    ),
    # an int of Iceberg's
    "history.expire.min-snapshots-to-keep": Property(
        "min_snapshots", whole(0, 2**31 - 1), "Iceberg's own setting is there already"
    ),
    "firnline.retain.hours": Property("retain_hours", real(0, AGE_MS / HOUR_MS)),
    EXPIRE_ENABLED: Property("expire"),
    "firnline.expire.grace-ms": Property(
        "expire_grace_ms", PAUSE, "owners need longer than a day to object"
    ),
    "firnline.tags.create": Property(
        "create_tags",
        set_where="the state at the end of each day or month shall stay readable",
    ),
    "firnline.expire.tags": Property(
        "expire_tags",
        set_where="tags that a job makes pile up, and keep the files of old snapshots",
    ),
    "firnline.expire.branches": Property(
        "expire_branches", set_where="branches that nobody writes to any more keep old files"
    ),
    "firnline.metadata.previous-versions-max": Property(
        "metadata_versions",
        whole(0, 100_000),
        "commits are frequent, and nobody removes old metadata.json files",
    ),
    "firnline.expire.min-interval-ms": Property(
        "expire_interval_ms", PAUSE, "snapshots are many, and storage is dear"
    ),
    "firnline.window": Property("window"),
    "firnline.blackout": Property("blackout"),
    "firnline.price.cpu-hour": Property(
        "price_cpu_hour", PRICE, "a core costs more than 0.05 dollars an hour, or less"
    ),
    "firnline.price.million-gets": Property(
        "price_million_gets", PRICE, "the storage charges no requests (0), or others than S3 does"
    ),
    "firnline.price.million-puts": Property("price_million_puts", PRICE, "the same"),
    "firnline.price.gb-month": Property(
        "price_gb_month", PRICE, "the storage costs more than S3 Standard, or less"
    ),
    "firnline.group": Property("group"),
}
RANGES = {one.field: one.range for one in PROPERTIES.values() if one.range is not None}
_KINDS: dict[str, str] = Thresholds.__annotations__  # texts, as they are written above
_DEFAULTS = Thresholds()
_FLAGS = {"true": True, "false": False}
_CHOICES: dict[str, dict[str, StrEnum]] = {
    kind.__name__: {member.value: member for member in kind}
    for kind in (Conversions, Expiry, ReadsFrom)
}


NAMESPACE = "namespace:"  # before the name of a property that the table's namespace sets


class Origin(StrEnum):
    """Who says what holds for a table."""

    TABLE = "table"
    NAMESPACE = "namespace"
    FLEET = "fleet"  # the planner's environment
    DEFAULT = "default"


class PropertyValue(Value):
    """What one property says about one field; `value` None = its text cannot be read."""

    field: str
    value: bool | int | float | str | None
    origin: Origin
    name: str  # of the property
    text: str

    @property
    def is_amoros(self) -> bool:
        return self.name not in PROPERTIES

    @property
    def weight(self) -> tuple[bool, bool]:
        """The table goes before its namespace; at one of them our own names before Amoro's."""
        return self.origin is Origin.TABLE, not self.is_amoros


def property_values(settings: Mapping[str, str]) -> list[PropertyValue]:
    """All that the properties of a table and of its namespace say, the weaker ones first."""
    values = [saying for name, text in settings.items() for saying in _property_values(name, text)]
    return sorted(values, key=lambda one: one.weight)


def _property_values(name: str, text: str) -> Iterator[PropertyValue]:
    property_name = name.removeprefix(NAMESPACE)
    origin = Origin.TABLE if property_name == name else Origin.NAMESPACE
    if known := PROPERTIES.get(property_name):
        yield PropertyValue(known.field, _read(text, known.field), origin, property_name, text)
    elif meaning := UNDERSTOOD.get(property_name):
        for field in meaning.fields:
            value = _read(meaning.translated(text), field)
            yield PropertyValue(field, value, origin, property_name, text)


def thresholds(settings: Mapping[str, str], defaults: Thresholds | None = None) -> Thresholds:
    """What holds for a table with these properties; `defaults` are the fleet's."""
    return _resolved(tuple(sorted(settings.items())), defaults or _DEFAULTS)


@lru_cache(maxsize=4_096)  # asked with every record; most tables of a fleet say the same
def _resolved(settings: tuple[tuple[str, str], ...], defaults: Thresholds) -> Thresholds:
    said = {
        value.field: value.value
        for value in property_values(dict(settings))
        if value.value is not None
    }
    return replace(defaults, **said)  # type: ignore[arg-type]


def _read(text: str, field: str) -> bool | int | float | str | None:
    """The value, or None where the text is none, or a number that makes no sense."""
    kind = _KINDS[field]
    if kind == "bool":
        return _FLAGS.get(text.strip().lower())
    if kind == "str":
        return text.strip()
    if kind in _CHOICES:
        return _CHOICES[kind].get(text.strip().lower())
    return RANGES[field].read(text)
