"""Settings that several services have in common."""

from __future__ import annotations

from firnline_adapters.config.settings import Setting

CATALOG_URI = Setting(
    "FIRNLINE_CATALOG_URI",
    "URI of the gateway for one catalog without credentials. Use it instead of "
    "`[catalogs.NAME]` in `FIRNLINE_CONFIG`, not together with it.",
    None,
)
REDIS = Setting(
    "FIRNLINE_REDIS",
    "URL of the Redis or Valkey server that stores the workers' leases and the console's data: "
    "`redis://`, `rediss://` (TLS) or `redis+sentinel://`.",
)
STATE_DIR = Setting(
    "FIRNLINE_STATE_DIR",
    "Directory of the gateway's outbox, the planner's statistics, or the worker's delete "
    "sets. Each process needs its own. If Spark's executors run on other "
    "hosts, the worker's must be on a shared disk.",
)
GROUPS = Setting(
    "FIRNLINE_GROUPS",
    "Additional resource groups, comma-separated, each with or without a quota in GB-hours per "
    "hour: `etl=2.5,adhoc`. Must be the same for all services.",
    "",
)
LISTEN_ADDRESS = Setting(
    "FIRNLINE_LISTEN_ADDRESS",
    "`host:port` on which the gateway serves writers, the listener webhooks, or the console "
    "browsers. A port without a host listens on loopback. The console has no login: keep it on "
    "loopback or behind a proxy.",
)
REPLICAS = Setting(
    "FIRNLINE_REPLICAS",
    "Replication factor of new topics, including the planner's changelog. Unset: 3, or the "
    "number of brokers if that is lower.",
    None,
)
MIN_IN_SYNC_REPLICAS = Setting(
    "FIRNLINE_MIN_IN_SYNC_REPLICAS",
    "`min.insync.replicas` of new topics. Unset: one less than the replication factor, at least 1.",
    None,
)
TOPIC_CONFIG = Setting(
    "FIRNLINE_TOPIC_CONFIG",
    'Kafka settings of single topics as a JSON object: `{"table-commits": {"retention.ms": '
    '"1209600000"}}`. Read by `firnline topics`.',
    "",
)
ICEBERG_JAR = Setting(
    "FIRNLINE_ICEBERG_JAR",
    "Paths of the Iceberg Spark runtime jar and of cloud bundles, separated by colons, as "
    "`firnline jars` prints them.",
)
HEAP_BYTES = Setting(
    "FIRNLINE_HEAP_BYTES", "Heap of the JVM: of the worker's Spark driver, or of the committer."
)
