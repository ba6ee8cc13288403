"""Settings that several services have in common."""

from __future__ import annotations

from firnline_adapters.settings import Setting

CATALOG_URI = Setting(
    "FIRNLINE_CATALOG_URI",
    "Iceberg REST URI, the gateway's, of one catalog that asks for no credentials: instead of "
    "`[catalogs.NAME]` in FIRNLINE_CONFIG.",
    None,
)
REDIS = Setting(
    "FIRNLINE_REDIS",
    "URL of the Redis or Valkey with the workers' leases and the console's read model: `redis://`, "
    "`rediss://` (TLS), `redis+sentinel://`.",
)
STATE_DIR = Setting(
    "FIRNLINE_STATE_DIR",
    "Directory of the gateway's outbox, of the planner's counters, of the worker's delete sets and "
    "the archive of its JVM's classes (130 MB). Each process has its own. Where Spark's executors "
    "are on other hosts, the worker's is on a disk that they share.",
)
GROUPS = Setting(
    "FIRNLINE_GROUPS",
    "Resource groups besides the default one, comma-separated, each with a quota in GB-hours per "
    "hour or without: `etl=2.5,adhoc`. The same for the whole fleet.",
    "",
)
LISTEN_ADDRESS = Setting(
    "FIRNLINE_LISTEN_ADDRESS",
    "`host:port` of the gateway for writers, of the console for browsers; a port alone is on the "
    "loopback interface. The console has no login: keep it there or behind a proxy.",
)
REPLICAS = Setting(
    "FIRNLINE_REPLICAS",
    "Replication factor of topics that are made, the planner's changelog among them. Unset: 3, or "
    "as many as there are brokers where those are fewer.",
    None,
)
MIN_IN_SYNC_REPLICAS = Setting(
    "FIRNLINE_MIN_IN_SYNC_REPLICAS",
    "`min.insync.replicas` of topics that are made. Unset: one less than the replication factor, "
    "and 1 where that is 1.",
    None,
)
TOPIC_CONFIG = Setting(
    "FIRNLINE_TOPIC_CONFIG",
    "Settings of Kafka for our topics over those of their files, a JSON object by topic: "
    '`{"table-commits": {"retention.ms": "1209600000"}}`. Read by `firnline topics`.',
    "",
)
ICEBERG_JAR = Setting(
    "FIRNLINE_ICEBERG_JAR",
    "Path of the Iceberg Spark runtime jar, and behind colons those of cloud bundles: what "
    "`firnline jars` prints.",
)
HEAP_BYTES = Setting(
    "FIRNLINE_HEAP_BYTES", "Heap of a service's JVM: the worker's Spark driver, the committer's."
)
