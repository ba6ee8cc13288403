"""The planner's settings."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_adapters.config.fleet_settings import (
    GROUPS,
    MIN_IN_SYNC_REPLICAS,
    REPLICAS,
    STATE_DIR,
)
from firnline_adapters.config.settings import declare_setting, shared_setting
from firnline_adapters.service import ServiceSettings


@dataclass(frozen=True, kw_only=True)
class PlannerSettings(ServiceSettings):
    """Read once, from the environment."""

    state_dir: str = shared_setting(STATE_DIR)
    app: str = declare_setting(
        "FIRNLINE_PLANNER_APP", "Name of the planner's consumer group and changelogs.", "planner"
    )
    driver: str = declare_setting(
        "FIRNLINE_PLANNER_DRIVER",
        "How the planner processes Kafka records: `kafka` (transactional, balances buckets) or "
        "`faust`. Must be the same for all planners.",
        "kafka",
    )
    replicas: int | None = shared_setting(REPLICAS)
    min_in_sync: int | None = shared_setting(MIN_IN_SYNC_REPLICAS)
    defaults: str = declare_setting(
        "FIRNLINE_DEFAULTS",
        'Default table properties as a JSON object: `{"firnline.retain.hours": "48"}`. The '
        "planner does not start if one is invalid or can only be set on a table.",
        "",
    )
    groups: str = shared_setting(GROUPS)
    budget_gb_hours: float = declare_setting(
        "FIRNLINE_BUDGET_GB_HOURS",
        "Budget of all rewrites: memory multiplied by time, in GB-hours per hour. `0`: no limit.",
        0.0,
    )
    # Of the budget, for whoever has waited longest: nothing starves, and the rest is for the best.
    budget_old_share: float = 0.2
    tick_s: float = 1.0  # the policy's shortest time, `quiet-ms`, is as long
    # A planner without progress for so long ends, to be started again (`watchdog`).
    stall_s: float = 60.0
