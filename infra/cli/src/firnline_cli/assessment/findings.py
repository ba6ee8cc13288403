"""Findings about a table, as text: pure functions of what was read of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from firnline_domain.advice.snapshots import METADATA_BYTES, metadata_text
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import Value

from firnline_cli.assessment.facts import AssessedFacts
from firnline_cli.forecast.forecast import Forecast

MANY_DANGLING = 10


class FindingKind(StrEnum):
    """The subject of a finding, the most serious first."""

    HAZARD = "hazard"  # rows may be wrong, or come back, when somebody maintains the table
    DEBT = "debt"  # readers pay for it
    READERS = "readers"  # some cannot read the table
    METADATA = "metadata"
    ADVICE = "advice"  # by the rules of docs/advice.md


class AssessmentFinding(Value):
    """A finding. `code`: stable, for programs."""

    kind: FindingKind
    code: str
    text: str
    remedy: str = ""


def findings_of(
    name: str, facts: AssessedFacts, forecast: Forecast | None, now_ms: int
) -> tuple[AssessmentFinding, ...]:
    """Return the findings, the most serious first. `name`: the table's, for remedies."""
    debt, metadata = _debt_findings(name, facts, now_ms), _metadata_findings(name, facts)
    found = [*_hazard_findings(facts), *debt, *_reader_findings(facts), *metadata]
    if forecast is not None:
        known = {one.code for one in found}
        found += [
            AssessmentFinding(
                _KINDS.get(one.rule, FindingKind.ADVICE), one.rule, one.finding, one.remedy
            )
            for one in forecast.advice
            if one.rule not in known and one.rule != "duplicate_files"
        ]
    order = list(FindingKind)
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))


_KINDS = {
    "many_snapshots": FindingKind.METADATA,
    "many_manifests": FindingKind.METADATA,
    "metadata_files_kept": FindingKind.METADATA,
    "held_snapshots": FindingKind.METADATA,
}


def _hazard_findings(facts: AssessedFacts) -> Iterator[AssessmentFinding]:
    deletes = facts.deletes
    if facts.repeated:
        yield AssessmentFinding(
            FindingKind.HAZARD,
            "duplicate_files",
            f"{facts.repeated:,} files are in the table twice: readers see their rows twice, and a "
            "rewrite of one entry takes the other along, also Iceberg's own",
            "remove one of the entries; Firnline leaves the table alone until then",
        )
    if deletes.equality_files and facts.partitions <= 1:
        yield AssessmentFinding(
            FindingKind.HAZARD,
            "rewrite_may_bring_rows_back",
            "all its files are rewritten together while equality deletes arrive: Iceberg's own "
            "rewrite_data_files can then bring deleted rows back (apache/iceberg#10312)",
            "do not run it while a writer commits, or set use-starting-sequence-number=false",
        )
    if deletes.equality_files and len({*facts.live_specs, *deletes.equality_specs}) > 1:
        specs = ", ".join(str(one) for one in sorted({*facts.live_specs, *deletes.equality_specs}))
        yield AssessmentFinding(
            FindingKind.HAZARD,
            "spec_changed",
            f"files of partition specs {specs} with equality deletes: a rewrite into another spec "
            "loses deletes that arrive meanwhile, or applies them to rows they were not for",
            "let the deletes be applied within each spec before anything is moved to a new one",
        )


def shared_uuid(name: str, names: Sequence[str]) -> AssessmentFinding:
    """Return the finding for a table whose uuid several names have. For Firnline they are one
    table, which changes its name with each commit."""
    others = ", ".join(one for one in sorted(names) if one != name)
    return AssessmentFinding(
        FindingKind.HAZARD,
        "shared_uuid",
        f"{others} has the same uuid, so one was registered or restored from the other: they may "
        "share files. Firnline removes no file of either (shared_identity), but an expiry by "
        "another engine removes files that the other table still reads",
        "drop one without purging it, or copy its rows into a new table; set gc.enabled=false in "
        "all but one against other engines",
    )


def _debt_findings(name: str, facts: AssessedFacts, now_ms: int) -> Iterator[AssessmentFinding]:
    deletes = facts.deletes
    if deletes.files:
        kinds = (
            (deletes.equality_files, f"equality-delete files ({deletes.equality_records:,} keys)"),
            (deletes.position_files, "position-delete files"),
            (deletes.vectors, "deletion vectors"),
        )
        text = ", ".join(f"{count:,} {words}" for count, words in kinds if count)
        beside = f"{text} beside {facts.data_files:,} data files"
        yield AssessmentFinding(
            FindingKind.DEBT, "delete_debt", beside + _oldest_delete_text(facts, now_ms)
        )
    if deletes.dangling and deletes.dangling >= MANY_DANGLING:
        yield AssessmentFinding(
            FindingKind.DEBT,
            "dangling_deletes",
            f"{deletes.dangling:,} delete files apply to nothing any more, and are planned by "
            "every reader",
            f"firnline run {name} remove_dangling_deletes",
        )


def _oldest_delete_text(facts: AssessedFacts, now_ms: int) -> str:
    if facts.deletes.oldest_ms is None:
        return ""
    at_least = "at least " if facts.deletes.at_least else ""
    age = age_in_hours_or_days(now_ms - facts.deletes.oldest_ms)
    return f"; the oldest equality delete is {at_least}{age} old"


def age_in_hours_or_days(age_ms: int) -> str:
    """Return `5 h`, `3 d`."""
    if age_ms >= 2 * DAY_MS:
        return f"{age_ms // DAY_MS:,} d"
    return f"{age_ms // HOUR_MS} h" if age_ms >= HOUR_MS else f"{max(age_ms, 0) // 60_000} min"


def _reader_findings(facts: AssessedFacts) -> Iterator[AssessmentFinding]:
    if facts.deletes.equality_files:
        yield AssessmentFinding(
            FindingKind.READERS,
            "equality_deletes_unread",
            "PyIceberg 0.12 and Daft 0.7 refuse a scan with equality deletes",
            "firnline.equality-deletes.max-age-ms promises an age that none of them reaches",
        )
    features = [*facts.types, *(["deletion vectors"] if facts.deletes.vectors else [])]
    if facts.format_version >= 3:
        uses = f", and it uses {', '.join(features)}" if features else ""
        yield AssessmentFinding(
            FindingKind.READERS,
            "format_v3",
            f"format version 3: readers and writers have to know it{uses}. PyIceberg 0.12 cannot "
            "write it",
        )


def _metadata_findings(name: str, facts: AssessedFacts) -> Iterator[AssessmentFinding]:
    if facts.metadata_bytes is not None and facts.metadata_bytes >= METADATA_BYTES:
        yield AssessmentFinding(
            FindingKind.METADATA,
            "large_metadata",
            metadata_text(facts.metadata_bytes, facts.snapshots),
            f"expire snapshots: firnline run {name} expire --dry-run",
        )
