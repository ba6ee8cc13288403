"""Everything that a simulation assumes. Published in docs/simulator.md; none of it is hidden."""

from __future__ import annotations

from firnline_domain.policy.costs import FIRNLINE, CostModel
from firnline_domain.values import Value, field

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


KINDS = (
    Kind("streaming", 0.03, 60, 1.5 * MB, 1, 0.35, 6.0),
    Kind("slow_stream", 0.05, 5 * MINUTE_S, 4 * MB, 2, 0.35, 4.0),
    Kind("hourly", 0.12, HOUR_S, 24 * MB, 4, 0.2, 2.0),
    Kind("daily", 0.35, DAY_S, 200 * MB, 12, 0.1, 0.5),
    Kind("bursty", 0.05, 120, 3 * MB, 2, 0.2, 1.0, 2 * HOUR_S, 46 * HOUR_S),
    Kind("dormant", 0.40, 30 * DAY_S, 40 * MB, 4, 0.05, 0.05),
)


class Reading(Value):
    """What a scan costs whoever reads: CPU seconds of an engine on Iceberg's own reader."""

    scan_s_per_byte: float = 1e-8  # 100 MB of Parquet a second and core
    open_s: float = 0.01  # a data file or a delete file, each time
    delete_s_per_record: float = 1.6e-6  # an equality delete, for every data file it reaches
    position_s_per_record: float = 2e-7
    most_bytes: float = 10.0 * GB  # a read takes no more of a partition; it prunes the others


class Parameters(Value):
    """A fleet, its time, its readers and what work costs."""

    tables: int = 1_000
    days: float = 7.0
    first: int = 0  # of the tables that are simulated: shards of a fleet add up
    last: int | None = None
    seed: int = 3
    tick_s: float = 60.0  # nothing is resolved finer than that
    sample_s: float = 600.0
    target_bytes: int = 128 * MB
    largest_bytes: float = 2_000 * GB  # Zipf: a table's base is this / rank ** zipf
    zipf: float = 1.0
    partitions: tuple[int, ...] = (1, 1, 2, 4, 8)  # that a table's commits touch, evenly
    spread: float = 1.0  # sigma of the lognormal between tables of a kind
    row_bytes: float = 30.0  # of bench/rewrite's table: 465 MB, 15 M rows
    delete_bytes: float = 8.0
    hit_share: float = 0.7  # upserts whose key is there; the others are new rows
    key_share: float = 0.15  # of a data file's bytes: its key columns
    kinds: tuple[Kind, ...] = KINDS
    reading: Reading = field(default_factory=Reading)
    costs: CostModel = FIRNLINE

    @property
    def ticks(self) -> int:
        return int(self.days * DAY_S / self.tick_s)
