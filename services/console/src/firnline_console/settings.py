"""What the console runs with."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once from the environment."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    redis: str = setting("FIRNLINE_REDIS", "URL of the Redis that holds the read model.")
    port: int = setting("FIRNLINE_CONSOLE_PORT", "Port of the page and the API.", 8080)
    host: str = setting(
        "FIRNLINE_CONSOLE_HOST",
        "Interface to listen on. There is no login: keep it on loopback or behind a proxy.",
        "127.0.0.1",
    )
    rebuild: bool = setting(
        "FIRNLINE_CONSOLE_REBUILD",
        "True throws the read model away and reads every topic from its beginning.",
        False,
    )
    worker_cores: float = setting(
        "FIRNLINE_WORKER_CORES", "Cores of one worker, for `/api/workers`.", 2.0
    )
    drain_s: float = setting(
        "FIRNLINE_DRAIN_S", "Seconds within which `/api/workers` wants orders done.", 60.0
    )
    most_workers: int = setting(
        "FIRNLINE_MOST_WORKERS", "The most workers that `/api/workers` wants on a lane.", 100
    )
    groups: str = setting(
        "FIRNLINE_GROUPS", "Resource groups besides the default one, as the planner has them.", ""
    )
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of the topics keyed by table.", 8)
