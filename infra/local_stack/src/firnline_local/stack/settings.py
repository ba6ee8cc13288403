"""Settings that `firnline` and the embedded stack read, besides the services' settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.config.fleet_settings import MIN_IN_SYNC_REPLICAS, REPLICAS, TOPIC_CONFIG
from firnline_adapters.config.settings import declare_setting, shared_setting


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """Settings that are declared for the reference; each is read where it is used."""

    console_uri: str = declare_setting(
        "FIRNLINE_CONSOLE_URI", "Address of the console that commands use, as with `--console`.", ""
    )
    maven_root: str = declare_setting(
        "FIRNLINE_MAVEN_ROOT",
        "Root of the Maven 2 repository from which jars are downloaded. Unset: the default "
        "repository of PySpark's Ivy.",
        "",
    )
    replicas: int | None = shared_setting(REPLICAS)
    min_in_sync: int | None = shared_setting(MIN_IN_SYNC_REPLICAS)
    topic_config: str = shared_setting(TOPIC_CONFIG)
    worker_memory_share: float = declare_setting(
        "FIRNLINE_WORKER_MEMORY_SHARE",
        "Share of the memory of the host or container that the embedded stack's workers may use "
        "when the planner requests larger ones. `0`: they never grow.",
        0.5,
    )
