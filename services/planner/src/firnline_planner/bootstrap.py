"""Builds the planner: the one place that knows how its parts fit."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import inf

from firnline_adapters import clock
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.kafka_admin.topics import require_topics
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import signer_of
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import topics_of
from firnline_domain.policy.fleet.worker_memory import TOPIC as WORKER_DIRECTIVES
from firnline_domain.records.assignments import HANDOVERS
from firnline_domain.records.assignments import TOPIC as ASSIGNMENTS
from firnline_domain.settings.groups import LEAST_GB_HOURS, Budget, groups_of
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner.bucket.inputs import Reader
from firnline_planner.default_settings import with_defaults
from firnline_planner.handlers.dispatch import FACTS
from firnline_planner.settings import Settings

# Imported only when chosen: Faust alone takes 30 MB and half a second.
LIVES = {
    "faust": "firnline_planner.drivers.faust.driver",
    "kafka": "firnline_planner.drivers.kafka.serve",
}
Serve = Callable[[Settings, Reader, Thresholds, Log], None]


def thresholds_of(settings: Settings) -> Thresholds:
    """Defaults for tables that say nothing. Raises Misconfigured."""
    limits = Thresholds(
        groups=tuple(one.part(settings.buckets) for one in groups_of(settings.groups)),
        budget=budget_of(settings).part(settings.buckets),
    )
    return with_defaults(settings.defaults, limits, clock.now_ms())


def budget_of(settings: Settings) -> Budget:
    """The fleet's. Raises Misconfigured."""
    hours = settings.budget_gb_hours
    if hours != 0 and not LEAST_GB_HOURS <= hours < inf:  # nan is neither
        raise Misconfigured(
            f"FIRNLINE_BUDGET_GB_HOURS={hours:g}: write a number of GB-hours, 0 = any number"
        )
    return Budget(settings.budget_gb_hours, settings.budget_old_share)


def run(settings: Settings, log: Log) -> None:
    """Serve until a signal; the process exits through SystemExit. Raises Misconfigured, also if a
    topic is missing: a record sent to it would stop the planner later."""
    defaults = thresholds_of(settings)
    serve = _life(settings.driver)
    wanted = [*FACTS, WORKER_DIRECTIVES, ASSIGNMENTS, HANDOVERS, *topics_of(defaults.groups)]
    signer = signer_of(settings)
    require_topics(settings.broker, wanted, settings.buckets)
    reader = Reader(RecordCodec(SchemaTopic(settings.broker).find), log, signer)
    serve(settings, reader, defaults, log)


def _life(driver: str) -> Serve:
    if driver not in LIVES:
        known = ", ".join(LIVES)
        raise Misconfigured(f"FIRNLINE_PLANNER_DRIVER: {driver!r} is none of {known}")
    serve: Serve = import_module(LIVES[driver]).serve
    return serve
