"""Builds the planner: the one place that knows how its parts fit."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import inf

from firnline_adapters import clock
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.kafka_admin.topics import require_topics
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import signer_of
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import topics_of_groups
from firnline_domain.policy.fleet.worker_memory import TOPIC as WORKER_DIRECTIVES
from firnline_domain.records.assignments import HANDOVERS
from firnline_domain.records.assignments import TOPIC as ASSIGNMENTS
from firnline_domain.settings.groups import LEAST_GB_HOURS, Budget, parse_groups
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner.bucket.inputs import InputReader
from firnline_planner.default_settings import with_defaults
from firnline_planner.handlers.dispatch import FACTS
from firnline_planner.settings import PlannerSettings

# Imported only when chosen: Faust alone takes 30 MB and half a second.
LIVES = {
    "faust": "firnline_planner.drivers.faust.driver",
    "kafka": "firnline_planner.drivers.kafka.serve",
}
Serve = Callable[[PlannerSettings, InputReader, Thresholds, PolicyFile, Log], None]


def thresholds_of(settings: PlannerSettings) -> Thresholds:
    """Return the defaults for tables without settings. Raises Misconfigured."""
    limits = Thresholds(
        groups=tuple(one.divide_by(settings.buckets) for one in parse_groups(settings.groups)),
        budget=budget_of(settings).divide_by(settings.buckets),
    )
    return with_defaults(settings.defaults, limits, clock.now_ms())


def budget_of(settings: PlannerSettings) -> Budget:
    """Return the deployment's budget. Raises Misconfigured."""
    hours = settings.budget_gb_hours
    if hours != 0 and not LEAST_GB_HOURS <= hours < inf:  # nan is neither
        raise Misconfigured(
            f"FIRNLINE_BUDGET_GB_HOURS={hours:g}: write a number of GB-hours, 0 = any number"
        )
    return Budget(settings.budget_gb_hours, settings.budget_old_share)


def run(settings: PlannerSettings, log: Log) -> None:
    """Serve until a signal; the process exits through SystemExit. Raises Misconfigured, also if a
    topic is missing: a record sent to it would stop the planner later."""
    defaults = thresholds_of(settings)
    serve = _load_driver(settings.driver)
    wanted = [*FACTS, WORKER_DIRECTIVES, ASSIGNMENTS, HANDOVERS, *topics_of_groups(defaults.groups)]
    signer = signer_of(settings)
    require_topics(settings.broker, wanted, settings.buckets)
    reader = InputReader(RecordCodec(SchemaTopic(settings.broker).find_schema), log, signer)
    serve(settings, reader, defaults, PolicyFile(settings.config, log), log)


def _load_driver(driver: str) -> Serve:
    if driver not in LIVES:
        known = ", ".join(LIVES)
        raise Misconfigured(f"FIRNLINE_PLANNER_DRIVER: {driver!r} is none of {known}")
    serve: Serve = import_module(LIVES[driver]).serve
    return serve
