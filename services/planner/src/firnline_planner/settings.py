"""The planner's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.fleet_settings import (
    GROUPS,
    MIN_IN_SYNC_REPLICAS,
    REPLICAS,
    STATE_DIR,
)
from firnline_adapters.service import ServiceSettings
from firnline_adapters.settings import setting, shared


@dataclass(frozen=True, kw_only=True)
class Settings(ServiceSettings):
    """Read once, from the environment."""

    state_dir: str = shared(STATE_DIR)
    app: str = setting(
        "FIRNLINE_PLANNER_APP", "Name of the consumer group and of the changelogs.", "planner"
    )
    driver: str = setting(
        "FIRNLINE_PLANNER_DRIVER",
        "What reads Kafka: `kafka` (exact, transactional, balances the buckets), or `faust`. All "
        "planners have the same.",
        "kafka",
    )
    standby: bool = setting(
        "FIRNLINE_PLANNER_STANDBY",
        "Read along what other planners keep, so that their buckets are at hand when one of them "
        "dies. It takes the disk for the whole fleet's state, and up to 32 MiB of memory for each "
        "bucket. The driver `kafka` alone.",
        False,
    )
    replicas: int | None = shared(REPLICAS)
    min_in_sync: int | None = shared(MIN_IN_SYNC_REPLICAS)
    defaults: str = setting(
        "FIRNLINE_DEFAULTS",
        "Defaults of table properties, as a JSON object of names and texts: "
        '`{"firnline.retain.hours": "48"}`. A wrong one, and one that workers read of the table '
        "alone, keeps the planner from starting.",
        "",
    )
    groups: str = shared(GROUPS)
    budget_gb_hours: float = setting(
        "FIRNLINE_BUDGET_GB_HOURS",
        "Memory times time that rewrites of the whole fleet may take in an hour; 0 = any.",
        0.0,
    )
    # Of the budget, for whoever has waited longest: nothing starves, and the rest is for the best.
    budget_old_share: float = 0.2
    tick_s: float = 1.0  # the policy's shortest time, `quiet-ms`, is as long
    # A planner without progress for so long ends, to be started again (`watchdog`).
    stall_s: float = 60.0
