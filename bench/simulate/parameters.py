"""Everything that a simulation assumes. Published in bench/results; none of it is hidden."""

from __future__ import annotations

from firnline_domain.base.values import Value, field
from firnline_domain.policy.cost_model import FIRNLINE, CpuRates

MB = 1 << 20
GB = 1 << 30
MINUTE_S = 60.0
HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S


class Kind(Value):
    """One kind of table. A commit writes `files` of about `commit_bytes` / `files` each into
    every partition that it touches."""

    name: str
    share: float  # of the tables
    period_s: float  # between two commits; of a bursty one, while it bursts
    commit_bytes: float  # median, per partition
    files: int
    upserts: float  # share of the tables whose commits bring equality deletes
    reads_per_hour: float  # median of a table
    burst_s: float = 0.0  # it commits for so long ...
    pause_s: float = 0.0  # ... then pauses for so long
    merges: float = 0.0  # share whose commits bring position deletes (MERGE, UPDATE, DELETE)
    by_day: float = 0.0  # share partitioned by day: the others' partitions are written for ever


KINDS = (
    Kind("streaming", 0.03, 60, 1.5 * MB, 1, 0.35, 6.0, by_day=0.5),
    Kind("slow_stream", 0.05, 5 * MINUTE_S, 4 * MB, 2, 0.35, 4.0, by_day=0.5),
    Kind("hourly", 0.12, HOUR_S, 24 * MB, 4, 0.2, 2.0, merges=0.2, by_day=0.4),
    Kind("daily", 0.35, DAY_S, 200 * MB, 12, 0.1, 0.5, merges=0.15, by_day=0.3),
    Kind("bursty", 0.05, 120, 3 * MB, 2, 0.2, 1.0, 2 * HOUR_S, 46 * HOUR_S),
    Kind("dormant", 0.40, 30 * DAY_S, 40 * MB, 4, 0.05, 0.05, merges=0.05),
)


class Reading(Value):
    """What a scan costs whoever reads: CPU seconds. As measured with Spark's reads of tables of
    these shapes on local files (bench/results/prices.json), but for two: a delete file costs as
    much as a data file, though nothing was found beside a few of them; and an equality delete costs
    what it costs in the largest sets, for those of a fleet are large (0.3 to 1 us)."""

    scan_s_per_byte: float = 1e-8  # of rows that are alive, or masked by an equality delete
    masked_s_per_byte: float = 0.0  # of rows that positions mask: they are decoded, and no more
    open_s: float = 0.003  # a data file or a delete file, each time
    delete_s_per_record: float = 1e-6  # an equality delete, for every data file it reaches
    position_s_per_record: float = 3.4e-9
    most_bytes: float = 10.0 * GB  # a read takes no more of a partition; it prunes the others


# Iceberg's own reader where all of it is slow: bytes of bench/results/reads.json (90 MB of our
# result in 2.3 s on two cores, of which half is the start of a query), equality deletes of
# growth.json (the slope of Iceberg's action over 1, 2 and 4 times the commits). The cost of a file
# and of a masked row are guesses, as of an object store: its bytes are fetched all the same.
DEAR = Reading(
    scan_s_per_byte=2.5e-8,
    masked_s_per_byte=2.5e-8,
    open_s=0.01,
    delete_s_per_record=1.7e-6,
    position_s_per_record=2e-7,
)
# Other readers of every run: what a read costs changes nothing that a system does.
READERS = {
    "a dearer reader": DEAR,
    "the policy's own reckoning": Reading(1e-8, 1e-8, 0.01, 1.6e-6, 2e-7),
    "masked rows cost as much as living ones": Reading(masked_s_per_byte=1e-8),
    "opening a file: 0.3 ms": Reading(open_s=0.0003),
    "opening a file: 30 ms": Reading(open_s=0.03),
    "loading a delete: 0.3 us": Reading(delete_s_per_record=3e-7),
    "loading a delete: 5 us": Reading(delete_s_per_record=5e-6),
    "scanning: 400 MB/s": Reading(scan_s_per_byte=2.5e-9),
    "scanning: 10 MB/s": Reading(scan_s_per_byte=1e-7),
    "a read takes all of a partition": Reading(most_bytes=1e18),
}


class Metadata(Value):
    """What commits leave behind. By Iceberg's formats, not measured here."""

    requests_per_commit: float = 8.0  # metadata, manifest list, manifests: read and written
    bytes_per_commit: float = 24_000.0  # manifest list and new manifests
    bytes_per_snapshot: float = 1_000.0  # of every retained snapshot in each metadata file
    retained_s: float = 5 * DAY_S  # snapshots, and with them the files that were replaced
    requests_per_file: float = 2.0  # read or written
    requests_per_expired_file: float = 1.0


class Parameters(Value):
    """A fleet, its time, its readers and what work costs."""

    tables: int = 1_000
    days: float = 10.0  # that are judged
    warm_days: float = 2.0  # before them: what deferred cost is there has begun to come due
    first: int = 0  # of the tables that are simulated: shards of a fleet add up
    last: int | None = None
    sample: int = 1  # only every so many-th of the shards of the fleet was run
    seed: int = 3
    tick_s: float = 60.0  # commits are not resolved finer than that
    grain_s: float = 60.0  # nor are ends of rewrites, than that
    sample_s: float = 1_800.0
    target_bytes: int = 128 * MB
    largest_bytes: float = 2_000 * GB  # Zipf: a table's base is this / rank ** zipf
    zipf: float = 1.0
    partitions: tuple[int, ...] = (1, 1, 2, 4, 8)  # that a table's commits touch, evenly
    days_before: int = 7  # day partitions that are there when the simulation begins
    late_share: float = 0.03  # of commits that bring rows for one of the last days as well
    late_days: int = 3
    recent_share: float = 0.5  # of tables with deletes: whose keys are mostly of the last hours
    recent_s: float = 6 * HOUR_S  # half-life of a row's chance to be replaced, there
    vectors: float = 0.3  # share of the tables with deletion vectors (format version 3)
    spread: float = 1.0  # sigma of the lognormal between tables of a kind
    row_bytes: float = 30.0  # of bench/rewrite's table: 465 MB, 15 M rows
    delete_bytes: float = 8.0
    hit_share: float = 0.7  # upserts whose key is there; the others are new rows
    merge_share: float = 0.5  # of a MERGE's rows: those that replace one
    key_share: float = 0.15  # of a data file's bytes: its key columns
    reads_fade_s: float = DAY_S  # a day partition is read half as often a day later
    workers_per_table: float = 1 / 40  # places of two cores; at least four in all
    order_s: float = 0.0  # that an order takes beside its work: its way and its commit
    slowness: float = 1.0  # workers' times against those of the cost model; CPU is not changed
    kinds: tuple[Kind, ...] = KINDS
    reading: Reading = field(default_factory=Reading)
    metadata: Metadata = field(default_factory=Metadata)
    costs: CpuRates = FIRNLINE  # as measured

    @property
    def ticks(self) -> int:
        """All of them, the warm-up's too."""
        return int((self.days + self.warm_days) * DAY_S / self.tick_s)

    @property
    def end_s(self) -> float:
        return self.ticks * self.tick_s

    @property
    def warm_s(self) -> float:
        return self.warm_days * DAY_S

    @property
    def workers(self) -> int:
        """Of a shard."""
        last = self.tables if self.last is None else self.last
        return max(round((last - self.first) * self.workers_per_table), 4)
