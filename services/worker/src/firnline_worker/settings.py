"""The worker's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once from the environment."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    redis: str = setting("FIRNLINE_REDIS", "Redis URL of the leases.")
    catalog_uri: str = setting("FIRNLINE_CATALOG_URI", "Iceberg REST URI: the gateway's.")
    iceberg_jar: str = setting("FIRNLINE_ICEBERG_JAR", "Path of the Iceberg Spark runtime jar.")
    state_dir: str = setting(
        "FIRNLINE_STATE_DIR",
        "Directory of the delete sets; where executors are other hosts, one that they share.",
    )
    catalog_name: str = setting("FIRNLINE_CATALOG_NAME", "Name of the catalog in Spark.", "lake")
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of the topics keyed by table.", 8)
    group: str = setting(
        "FIRNLINE_WORKER_GROUP",
        "Consumer group of all workers; those of a resource group add its name to it.",
        "worker",
    )
    resource_group: str = setting(
        "FIRNLINE_RESOURCE_GROUP",
        "Resource group whose rewrites to take, and nobody else's; unset: the default group, which "
        "has the expiries and comparisons of all.",
        "",
    )
    spark_master: str = setting("FIRNLINE_SPARK_MASTER", "Spark master URL.", "local[*]")
    driver_memory: str = setting("FIRNLINE_DRIVER_MEMORY", "Heap of the Spark driver JVM.", "1g")
    tasks_at_once: int = setting(
        "FIRNLINE_TASKS_AT_ONCE", "Tasks in work at once; a long one leaves room for others.", 4
    )
    lanes: str = setting(
        "FIRNLINE_WORKER_LANES",
        "Lanes of orders to take: ordinary, heavy (big delete sets, and what ran out of memory), "
        "or both. Expiries and comparisons are ordinary.",
        "ordinary,heavy",
    )
    heavy_share: int = setting(
        "FIRNLINE_HEAVY_SHARE", "Of ten orders begun while both lanes wait, the heavy ones.", 2
    )
    heavy_at_once: int = setting(
        "FIRNLINE_HEAVY_AT_ONCE", "Heavy orders in work at once, of FIRNLINE_TASKS_AT_ONCE.", 1
    )
    set_budget_bytes: int = setting(
        "FIRNLINE_SET_BUDGET_BYTES",
        "Memory for making and probing the delete sets of one task, in bytes; sets that do not fit "
        "are cut into parts of a quarter of it, which are probed one after the other.",
        1024**3,
    )
    compare_max_bytes: int = setting(
        "FIRNLINE_COMPARE_MAX_BYTES",
        "Files and deletes, before and after together, above which a commit is not read back: "
        "Iceberg's reader keeps equality deletes as objects, in the driver's heap with a local "
        "master.",
        64 * 1024**2,
    )
    lease_s: float = setting(
        "FIRNLINE_LEASE_S",
        "Seconds until a dead worker's leases end. One that comes back on the same host with the "
        "same FIRNLINE_STATE_DIR takes its own over at once.",
        30.0,
    )
    location_providers: str = setting(
        "FIRNLINE_LOCATION_PROVIDERS",
        "Java classes, comma-separated, that a table may name as write.location-provider.impl; "
        "tables with another one are not maintained.",
        "",
    )
    grace_s: float = setting(
        "FIRNLINE_GRACE_S", "Seconds that running tasks get to end after SIGTERM.", 8.0
    )
