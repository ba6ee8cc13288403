"""The committer's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.config.fleet_settings import HEAP_BYTES, ICEBERG_JAR
from firnline_adapters.config.settings import declare_setting, shared_setting
from firnline_domain.commits.output_lifetimes import SWEEP_AGE_S
from firnline_iceberg.connection.settings import CatalogSettings


@dataclass(frozen=True, kw_only=True)
class CommitterSettings(CatalogSettings):
    """The committer's settings, read once in `main()`."""

    iceberg_jar: str = shared_setting(ICEBERG_JAR)
    heap_bytes: int = shared_setting(HEAP_BYTES, 512 * 1024**2)
    sweep_age_s: float = declare_setting(
        "FIRNLINE_SWEEP_AGE_SECONDS",
        "Age at which output files of a failed task are removed. Its result is not committed "
        "after half of this time. Must be the same for all committers and `firnline "
        "sweep-outputs`.",
        SWEEP_AGE_S,
    )
    compare_share: float = declare_setting(
        "FIRNLINE_COMPARE_SHARE",
        "Share of the commits whose rows are verified with Iceberg's own Spark reader, chosen "
        "by a hash of the task id. `0`: none.",
        0.01,
    )
    # A result waits at the most so long for others that were ordered with it, to share their
    # commit; and no longer than until none has come for twice the time that its own task took.
    gather_s: float = 30.0
    # Tables that are committed to at the same time; of those whose last tries came to nothing half
    # as many. One more thread polls. More tables at once are more committers.
    commit_threads: int = 4
