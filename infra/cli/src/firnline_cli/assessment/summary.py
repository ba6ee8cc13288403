"""A whole lake in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from firnline_domain.base.values import Value, to_plain

from firnline_cli.assessment.findings import FindingKind
from firnline_cli.assessment.readiness import ready_counts
from firnline_cli.assessment.verdict import TableAssessment, by_need


class LakeSummary(Value):
    """A whole lake in a few numbers. `listed`: tables; there are fewer verdicts if it was
    interrupted. CPU seconds."""

    listed: int
    assessed: int
    unread: int
    sick: int
    orders: int
    later: int
    planned_bytes: int
    cost_s: float
    spared_s: float
    upkeep_s: float
    data_files: int
    data_bytes: int
    delete_files: int
    equality_tables: int
    findings: dict[str, int]  # tables by the kind of their findings
    readiness: dict[str, dict[str, int]]  # tables by format version (`ready_counts`)
    unlisted: dict[str, str]
    reads_per_hour: float
    seconds: float
    interrupted: bool


def summarize(
    verdicts: Sequence[TableAssessment],
    listed: int,
    unlisted: dict[str, str],
    seconds: float,
    interrupted: bool,
) -> LakeSummary:
    """Return the summary of all tables that were read."""
    known = [one for one in verdicts if one.facts is not None]
    facts = [one.facts for one in known if one.facts is not None]
    kinds: Counter[str] = Counter()
    for one in known:
        kinds.update({str(finding.kind) for finding in one.findings})
    rates = Counter(one.reads_per_hour for one in known)
    return LakeSummary(
        listed=listed,
        assessed=len(known),
        unread=len(verdicts) - len(known),
        sick=sum(one.is_sick for one in known),
        orders=sum(one.orders for one in known),
        later=sum(one.later for one in known),
        planned_bytes=sum(one.planned_bytes for one in known),
        cost_s=sum(one.cost_s for one in known),
        spared_s=sum(one.spared_s for one in known),
        upkeep_s=sum(one.upkeep_s for one in known),
        data_files=sum(one.data_files for one in facts),
        data_bytes=sum(one.data_bytes for one in facts),
        delete_files=sum(one.deletes.files for one in facts),
        equality_tables=sum(one.deletes.equality_files > 0 for one in facts),
        findings={str(kind): kinds[kind] for kind in FindingKind},
        readiness=ready_counts(one.readiness for one in known),
        unlisted=dict(unlisted),
        reads_per_hour=rates.most_common(1)[0][0] if rates else 0.0,
        seconds=seconds,
        interrupted=interrupted,
    )


def as_plain(summary: LakeSummary, verdicts: Sequence[TableAssessment]) -> dict[str, Any]:
    """Return the assessment for programs, sick tables first."""
    tables = [{"table": one.dotted_name, **to_plain(one)} for one in sorted(verdicts, key=by_need)]
    return {"lake": to_plain(summary), "tables": tables}
