"""The settings of the doctor: the same variables as the services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firnline_adapters.config.config_file import with_config
from firnline_adapters.config.fleet_settings import (
    GROUPS,
    ICEBERG_JAR,
    MIN_IN_SYNC_REPLICAS,
    REDIS,
    REPLICAS,
    STATE_DIR,
)
from firnline_adapters.config.settings import declare_setting, from_environment, shared_setting
from firnline_adapters.kafka.connection import KAFKA, KafkaConnection, connection_here
from firnline_adapters.records.signing import SigningSettings

SERVICES = ("gateway", "listener", "enricher", "planner", "worker", "committer", "console")
OF_CATALOG = ("listener", "enricher", "worker", "committer")
OF_JAVA = ("worker", "committer")
OF_REDIS = ("worker", "console")
OF_STATE = ("gateway", "planner", "worker")


@dataclass(frozen=True, kw_only=True)
class Told(SigningSettings):
    """The settings that the environment contains; nothing is required. None and '' = not set."""

    kafka: str | None = shared_setting(KAFKA, None)
    redis: str | None = shared_setting(REDIS, None)
    iceberg_jar: str | None = shared_setting(ICEBERG_JAR, None)
    state_dir: str | None = shared_setting(STATE_DIR, None)
    groups: str = shared_setting(GROUPS)
    replicas: int | None = shared_setting(REPLICAS)
    min_in_sync: int | None = shared_setting(MIN_IN_SYNC_REPLICAS)
    buckets: int = declare_setting("FIRNLINE_BUCKETS", "", 8)
    planner_app: str = declare_setting("FIRNLINE_PLANNER_APP", "", "planner")


@dataclass(frozen=True)
class Given:
    """The settings of a run of the doctor. `services`: those whose needs are checked."""

    told: Told
    environment: Mapping[str, str]
    services: tuple[str, ...] = SERVICES
    writes: bool = False  # scratch tables may be made
    table: str | None = None  # namespace.name

    def concerns(self, services: tuple[str, ...]) -> bool:
        """Return whether one of these services is given."""
        return bool(set(services) & set(self.services))

    def connection(self) -> KafkaConnection:
        """Return the connection to Kafka. Raises Misconfigured."""
        return connection_here(self.told.kafka or "", self.environment)


def read_given(
    environment: Mapping[str, str],
    services: tuple[str, ...] = SERVICES,
    writes: bool = False,
    table: str | None = None,
) -> Given:
    """Read what is given in an environment. Raises Misconfigured."""
    environment = with_config(environment)
    told = from_environment(Told, environment)
    return Given(told, environment, services or SERVICES, writes, table)
