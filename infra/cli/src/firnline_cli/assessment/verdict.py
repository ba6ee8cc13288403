"""The verdict about one table: the planner's own decisions, with what they cost and spare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import KEY_SHARE, Partition
from firnline_domain.policy.cost_model import FIRNLINE, Work
from firnline_domain.policy.reasons import NEEDS_NOTHING, Decision, Reason
from firnline_domain.settings.thresholds import Thresholds

from firnline_cli.assessment.facts import AssessedFacts
from firnline_cli.assessment.findings import (
    AssessmentFinding,
    FindingKind,
    findings_of,
    shared_uuid,
)
from firnline_cli.assessment.readiness import Readiness, readiness_of
from firnline_cli.forecast.forecast import Forecast

FIRST = 5  # rewrites that are shown of a table
NOT_PLANNED = NEEDS_NOTHING | {Reason.DISABLED, Reason.REMOVED, Reason.NAME_TOO_LONG}


class PlannedRewrite(Value):
    """A rewrite that is ordered now, or later: `due_ms`, by the planner's decision, if nothing
    changes. CPU seconds: `cost_s` once, `spared_s` for each scan."""

    partition: str
    action: str
    reason: str  # of the order, or of the wait
    files: int
    bytes: int
    cost_s: float
    spared_s: float
    now: bool
    due_ms: int | None = None


class TableAssessment(Value):
    """About one table. CPU seconds, by the policy's own model: `cost_s` of all planned rewrites,
    once; `spared_s` by them, each day, at `reads_per_hour` scans; `upkeep_s` of rewrites, each day,
    at the pace at which writers add files. `error`: it could not be read; nothing is known."""

    name: tuple[str, ...]
    facts: AssessedFacts | None = None
    findings: tuple[AssessmentFinding, ...] = ()
    first: tuple[PlannedRewrite, ...] = ()  # of all planned rewrites, those that spare most
    orders: int = 0  # now
    later: int = 0
    planned_bytes: int = 0
    cost_s: float = 0.0
    spared_s: float = 0.0
    upkeep_s: float = 0.0
    reads_per_hour: float = 0.0
    expiry: str = ""
    enabled: bool = True
    readiness: tuple[Readiness, ...] = ()  # for format versions above its own
    error: str = ""

    @property
    def dotted_name(self) -> str:
        """`namespace.name`."""
        return ".".join(self.name)

    @property
    def hazards(self) -> int:
        """Return the number of findings that are hazards."""
        return sum(one.kind is FindingKind.HAZARD for one in self.findings)

    @property
    def is_sick(self) -> bool:
        """Return whether there is something to do, or a hazard to report."""
        return bool(self.orders or self.later or self.hazards)

    @property
    def planned_rewrites(self) -> int:
        """Return the number of rewrites, now and later."""
        return self.orders + self.later


def by_need(verdict: TableAssessment) -> tuple[float, int, int, tuple[str, ...]]:
    """Return the sort key of a verdict: first what readers pay most for, then hazards, then the
    rest."""
    return -verdict.spared_s, -verdict.hazards, -len(verdict.findings), verdict.name


def verdict_of(
    name: tuple[str, ...], facts: AssessedFacts, forecast: Forecast | None, now_ms: int
) -> TableAssessment:
    """Return the verdict. `forecast` None: its manifests were not read."""
    findings = findings_of(".".join(name), facts, forecast, now_ms)
    if forecast is None:
        return TableAssessment(name, facts, findings, readiness=readiness_of(facts))
    settings = forecast.given.settings
    planned = [
        _planned_rewrite(partition, decision)
        for partition, decision in forecast.decisions
        if decision.reason not in NOT_PLANNED
    ]
    planned.sort(key=lambda one: (not one.now, -one.spared_s))
    now = sum(one.now for one in planned)
    return TableAssessment(
        name,
        facts,
        findings,
        first=tuple(planned[:FIRST]),
        orders=now,
        later=len(planned) - now,
        planned_bytes=sum(one.bytes for one in planned),
        cost_s=sum(one.cost_s for one in planned),
        spared_s=sum(one.spared_s for one in planned) * settings.reads_per_hour * 24,
        upkeep_s=upkeep_s(facts, settings),
        reads_per_hour=settings.reads_per_hour,
        expiry=str(forecast.expiry.reason),
        enabled=settings.enabled,
        readiness=readiness_of(facts),
    )


def with_shared_uuids(verdicts: Sequence[TableAssessment]) -> list[TableAssessment]:
    """Return the same verdicts. If other tables share a uuid, that finding comes first."""
    names = defaultdict[str, list[str]](list)
    for one in verdicts:
        if one.facts and one.facts.uuid:
            names[one.facts.uuid].append(one.dotted_name)
    shared = {one: found for one, found in names.items() if len(found) > 1}
    return [
        replace(one, findings=(shared_uuid(one.dotted_name, shared[uuid]), *one.findings))
        if one.facts and (uuid := one.facts.uuid) in shared
        else one
        for one in verdicts
    ]


def _planned_rewrite(partition: Partition, decision: Decision) -> PlannedRewrite:
    numbers, holds = decision.numbers, partition.counters.holds
    wanted = decision.wanted or decision
    return PlannedRewrite(
        partition.counters.scope.label,
        str(wanted.action),
        str(decision.reason),
        holds.data_files,
        int(numbers.get("rewrite_bytes", 0)),
        numbers.get("rewrite_cpu_s", 0.0),
        numbers.get("read_s_spared", 0.0),
        decision.order,
        None if decision.order else decision.until_ms,
    )


def upkeep_s(facts: AssessedFacts, settings: Thresholds) -> float:
    """Return the CPU seconds of rewrites in a day if writers keep their pace. Each crossed
    threshold triggers a rewrite, no more often than its rest allows. Each byte that is added is
    written once more, and with equality deletes the keys of the table are read each time."""
    by_files = facts.pace.files / max(settings.min_fragments, 2)
    by_deletes = facts.pace.equality_deletes / max(settings.min_equality_deletes, 1)
    rewrites = min(max(by_files, by_deletes), DAY_MS / max(settings.cool_down_ms, 1))
    if rewrites < 1 / 30:
        return 0.0
    added = facts.pace.bytes / rewrites
    old = float(facts.data_bytes if facts.deletes.equality_files else 0)
    if old > settings.cheap_bytes:
        old *= KEY_SHARE
    written = added + (old if old <= settings.cheap_bytes else 0.0)
    files = (facts.pace.files + facts.pace.equality_deletes) / rewrites
    return rewrites * FIRNLINE.cpu_s(Work(added + old, written, files=files))
