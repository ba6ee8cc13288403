"""The worker's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.fleet_settings import (
    HEAP_BYTES,
    ICEBERG_JAR,
    REDIS,
    STATE_DIR,
)
from firnline_adapters.settings import setting, shared
from firnline_iceberg.catalog_settings import CatalogSettings

GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Settings(CatalogSettings):
    """Read once from the environment."""

    redis: str = shared(REDIS)
    iceberg_jar: str = shared(ICEBERG_JAR)
    state_dir: str = shared(STATE_DIR)
    heap_bytes: int = shared(HEAP_BYTES, GIB)
    resource_group: str = setting(
        "FIRNLINE_RESOURCE_GROUP",
        "Resource group whose rewrites to take, and nobody else's. Unset: the default group, which "
        "has the expiries and comparisons of all.",
        "",
    )
    spark_master: str = setting("FIRNLINE_SPARK_MASTER", "Spark master URL.", "local[*]")
    tasks_at_once: int = setting(
        "FIRNLINE_TASKS_AT_ONCE",
        "Tasks in work at once. A worker of both lanes has one heavy one among them at the most.",
        4,
    )
    lanes: str = setting(
        "FIRNLINE_WORKER_LANES",
        "Lanes of orders to take: ordinary, heavy (big delete sets, and what ran out of memory), "
        "or both. Expiries and comparisons are ordinary.",
        "ordinary,heavy",
    )
    delete_set_bytes: int = setting(
        "FIRNLINE_DELETE_SET_BYTES",
        "Memory for making and probing the delete sets of one task. Sets that do not fit are cut "
        "into parts of a quarter of it, which are probed one after the other.",
        GIB,
    )
    location_providers: str = setting(
        "FIRNLINE_LOCATION_PROVIDERS",
        "Java classes, comma-separated, that a table may name as write.location-provider.impl; "
        "tables with another one are not maintained.",
        "",
    )
    grace_s: float = setting(
        "FIRNLINE_GRACE_SECONDS", "Time that running tasks get to end after SIGTERM.", 8.0
    )
    # Of Spark; "" = a folder below the state directory, where no other worker has the same one.
    scratch: str = ""
    # The consumer group; a resource group's workers add its name to it.
    group: str = "worker"
    # Of ten orders begun while both lanes wait, the heavy ones.
    heavy_share: int = 2
    # A dead worker's leases end after it. One that comes back on the same host with the same
    # FIRNLINE_STATE_DIR takes its own over at once.
    lease_s: float = 30.0
    # Files and deletes, before and after together, above which a commit is not read back: Iceberg's
    # reader keeps equality deletes as objects, with a local master in the driver's heap.
    compare_max_bytes: int = 64 * 1024**2

    @property
    def on_cluster(self) -> bool:
        """Whether executors run on other hosts."""
        return is_remote(self.spark_master)


def is_remote(master: str) -> bool:
    """Whether a Spark master's executors are no threads of the driver."""
    return not master.startswith("local")
