"""What the committer is told from outside."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting
from firnline_domain.commits.lifetimes import SWEEP_AGE_S


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once, in `main()`."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    catalog_uri: str = setting("FIRNLINE_CATALOG_URI", "Iceberg REST URI: the gateway's.")
    iceberg_jar: str = setting("FIRNLINE_ICEBERG_JAR", "Path of the Iceberg Spark runtime jar.")
    catalog_name: str = setting("FIRNLINE_CATALOG_NAME", "Name of that catalog.", "lake")
    heap_mb: int = setting("FIRNLINE_COMMITTER_HEAP_MB", "Heap of the small JVM, in MB.", 512)
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of every table-keyed topic.", 8)
    sweep_age_s: float = setting(
        "FIRNLINE_SWEEP_AGE_S",
        "Seconds until the outputs of a task that came to nothing are removed; its result is not "
        "committed after half of that. The same for all committers and `firnline sweep-outputs`.",
        SWEEP_AGE_S,
    )
    compare_share: float = setting(
        "FIRNLINE_COMPARE_SHARE",
        "Share of the commits, 0 to 1, that are read back before and after by Iceberg's own Spark "
        "reader; told by the task's id. 0 = none.",
        0.01,
    )
    gather_s: float = setting(
        "FIRNLINE_GATHER_SECONDS",
        "A result waits so long at the most for others that were ordered with it, to share their "
        "commit; and no longer than until none has come for twice the time that its own task took. "
        "0 = not at all.",
        30.0,
    )
    commit_threads: int = setting(
        "FIRNLINE_COMMIT_THREADS",
        "Tables that are committed to at the same time; of those whose last tries came to nothing "
        "half as many. One more thread polls.",
        4,
    )
