"""The worker's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.config.fleet_settings import HEAP_BYTES, ICEBERG_JAR, REDIS, STATE_DIR
from firnline_adapters.config.settings import declare_setting, shared_setting
from firnline_iceberg.connection.settings import CatalogSettings

GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(CatalogSettings):
    """The worker's settings, read once from the environment."""

    redis: str = shared_setting(REDIS)
    iceberg_jar: str = shared_setting(ICEBERG_JAR)
    state_dir: str = shared_setting(STATE_DIR)
    heap_bytes: int = shared_setting(HEAP_BYTES, GIB)
    resource_group: str = declare_setting(
        "FIRNLINE_RESOURCE_GROUP",
        "Resource group whose rewrites this worker runs. Unset: the default group, which also "
        "runs the table actions and row verifications of all groups.",
        "",
    )
    spark_master: str = declare_setting("FIRNLINE_SPARK_MASTER", "Spark master URL.", "local[*]")
    tasks_at_once: int = declare_setting(
        "FIRNLINE_TASKS_AT_ONCE",
        "Maximum number of tasks that run at the same time, at most one of them from the heavy "
        "queue if the worker serves both.",
        4,
    )
    lanes: str = declare_setting(
        "FIRNLINE_WORKER_LANES",
        "Queues that this worker serves: `ordinary`, `heavy` (large delete sets, and tasks that "
        "ran out of memory), or both. Table actions and row verifications are ordinary.",
        "ordinary,heavy",
    )
    delete_set_bytes: int = declare_setting(
        "FIRNLINE_DELETE_SET_BYTES",
        "Memory for the delete sets of one task. Larger sets are split into parts of a quarter "
        "of it, which are processed one after the other.",
        GIB,
    )
    location_providers: str = declare_setting(
        "FIRNLINE_LOCATION_PROVIDERS",
        "Java classes, comma-separated, that a table may set as "
        "`write.location-provider.impl`. Tables with another class are not maintained.",
        "",
    )
    grace_s: float = declare_setting(
        "FIRNLINE_GRACE_SECONDS", "Time that running tasks have to finish after SIGTERM.", 8.0
    )
    # Of Spark; "" = a folder below the state directory, where no other worker has the same one.
    scratch: str = ""
    # The consumer group; a resource group's workers add its name to it.
    group: str = "worker"
    # Of ten orders begun while both lanes wait, the heavy ones.
    heavy_share: int = 2
    # A dead worker's leases end after it, when the broker has given its partitions away for 3 s.
    # One that comes back on the same host with the same FIRNLINE_STATE_DIR takes its own over at
    # once.
    lease_s: float = 9.0
    # Files and deletes, before and after together, above which a commit is not read back: Iceberg's
    # reader keeps equality deletes as objects, with a local master in the driver's heap.
    compare_max_bytes: int = 64 * 1024**2

    @property
    def on_cluster(self) -> bool:
        """Return whether executors run on other hosts."""
        return is_remote(self.spark_master)


def is_remote(master: str) -> bool:
    """Return whether a Spark master's executors are not threads of the driver."""
    return not master.startswith("local")
