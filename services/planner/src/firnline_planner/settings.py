"""The planner's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting


@dataclass(frozen=True)
class Settings(ServiceSettings):
    """Read once, from the environment."""

    kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
    state_dir: str = setting("FIRNLINE_STATE_DIR", "Directory of the RocksDB files.")
    buckets: int = setting("FIRNLINE_BUCKETS", "Partitions of the table-keyed topics.", 8)
    assign: str = setting(
        "FIRNLINE_ASSIGN",
        "Where new tables go: `hash`, or the bucket with the fewest `tables` or `files`. The same "
        "for the whole fleet. The driver `kafka` alone.",
        "hash",
    )
    app: str = setting(
        "FIRNLINE_PLANNER_APP", "Name of the consumer group and the changelogs.", "planner"
    )
    driver: str = setting(
        "FIRNLINE_PLANNER_DRIVER",
        "What reads Kafka: `kafka` (exact, transactional), or `faust`. The same for all.",
        "kafka",
    )
    standby: bool = setting(
        "FIRNLINE_PLANNER_STANDBY",
        "Read along what other planners keep, to take over at once. The driver `kafka` alone.",
        False,
    )
    replicas: int = setting("FIRNLINE_REPLICAS", "Replication factor of the changelogs.", 1)
    tick_s: float = setting("FIRNLINE_TICK_SECONDS", "Seconds between two ticks.", 1.0)
    stall_s: float = setting(
        "FIRNLINE_STALL_SECONDS",
        "Without progress for so long the planner stops, to be started again.",
        60.0,
    )
    window: str = setting("FIRNLINE_WINDOW", "Default of firnline.window, for every table.", "")
    blackout: str = setting(
        "FIRNLINE_BLACKOUT", "Default of firnline.blackout, for every table.", ""
    )
    defaults: str = setting(
        "FIRNLINE_DEFAULTS",
        "Defaults of any table property, as a JSON object of names and texts.",
        "",
    )
    groups: str = setting(
        "FIRNLINE_GROUPS",
        "Resource groups besides the default one, comma-separated, each with a quota or without: "
        "etl=2.5,adhoc. The same for the whole fleet.",
        "",
    )
    shadow: bool = setting(
        "FIRNLINE_SHADOW",
        "Default of firnline.shadow: true decides and shows, and orders nothing.",
        False,
    )
    budget_gb_hours: float = setting(
        "FIRNLINE_BUDGET_GB_HOURS",
        "GB-hours that rewrites of the whole fleet may take in an hour; 0 = any number.",
        0.0,
    )
    budget_old_share: float = setting(
        "FIRNLINE_BUDGET_OLD_SHARE", "Of these, for whoever has waited longest: 0 to 1.", 0.2
    )
    min_fragments: int = setting(
        "FIRNLINE_MIN_FRAGMENTS", "Default of firnline.rewrite.min-fragments.", 8
    )
    min_equality_deletes: int = setting(
        "FIRNLINE_MIN_EQUALITY_DELETES", "Default of firnline.rewrite.min-equality-deletes.", 4
    )
    min_position_deletes: int = setting(
        "FIRNLINE_MIN_POSITION_DELETES", "Default of firnline.rewrite.min-position-deletes.", 8
    )
