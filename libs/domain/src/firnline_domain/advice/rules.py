"""Advice for the owner of a table: the rules, and when a word is given, repeated, withdrawn.

docs/advice.md lists the rules with their limits, and those that would need more than is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firnline_domain.advice import layout, settings, snapshots, sorting, workers, writers
from firnline_domain.advice.finding import UNKNOWN, Known, Rule, RuleFinding, without_limit
from firnline_domain.base.values import Value
from firnline_domain.counters.state.work import GivenAdvice, Table
from firnline_domain.records.states import TableAdvice

EASE = 0.8  # what holds is withdrawn only a fifth below its limit
AGAIN = 2.0  # published again when its leading number has doubled or halved

RULES: dict[str, Rule] = {
    "unknown_settings": without_limit(settings.unknown_settings),
    "unreadable_settings": without_limit(settings.unreadable_settings),
    "contradictory_settings": without_limit(settings.contradictory_settings),
    "unknown_group": without_limit(settings.unknown_group),
    "broken_rules": without_limit(settings.broken_rules),
    "duplicate_files": without_limit(layout.duplicate_files),
    "odd_numbers": without_limit(layout.odd_numbers),
    "tiny_partitions": layout.tiny_partitions,
    "huge_partitions": layout.huge_partitions,
    "skewed_partitions": layout.skewed_partitions,
    "position_deletes_in_v2": layout.position_deletes_in_v2,
    "global_deletes": layout.global_deletes,
    "file_format": without_limit(layout.file_format),
    "codec": layout.parquet_codec,
    "missing_sort_order": sorting.missing_sort_order,
    "frequent_commits": writers.frequent_commits,
    "metadata_files_kept": writers.metadata_files_kept,
    "copy_on_write": writers.copy_on_write,
    "equality_delete_promise": writers.equality_delete_promise,
    "write_conflicts": writers.write_conflicts,
    "waiting_orders": workers.waiting_orders,
    "slow_rewrites": workers.slow_rewrites,
    "many_snapshots": snapshots.many_snapshots,
    "many_manifests": snapshots.many_manifests,
    "large_metadata": snapshots.large_metadata,
    "held_snapshots": snapshots.held_snapshots,
    "expiry_announced": without_limit(snapshots.expiry_announced),
    "external_files": without_limit(snapshots.external_files),
}


class AdviceChange(Value):
    """Advice that holds now, by rule, and advice to publish because it changed."""

    given: dict[str, GivenAdvice]
    changed: tuple[TableAdvice, ...]


def advise(known: Known) -> AdviceChange:
    """Judge a table by every rule. While its counters may be wrong nothing is changed."""
    table, given = known.table, known.table.work.advice
    if table.counters.removed:
        return AdviceChange({}, tuple(_withdrawals(table, given, known.now_ms)))
    if table.counters.waiting or not table.counters.known:
        return AdviceChange(given, ())
    judged = {name: one for name in RULES if (one := _judge_rule(known, name)) is not None}
    findings = {name: one for name, one in judged.items() if one is not UNKNOWN}
    after = {
        name: _remember_advice(given.get(name), one, known.now_ms) for name, one in findings.items()
    }
    changed = [name for name in after if after[name] != given.get(name)]
    published = [
        _to_record(table, name, findings[name], after[name], known.now_ms) for name in changed
    ]
    after |= {name: one for name, one in given.items() if judged.get(name) is UNKNOWN}
    gone = {name: one for name, one in given.items() if name not in judged}
    return AdviceChange(after, (*published, *_withdrawals(table, gone, known.now_ms)))


def _judge_rule(known: Known, name: str) -> RuleFinding | None:
    return RULES[name](known, EASE if name in known.table.work.advice else 1.0)


def _remember_advice(old: GivenAdvice | None, finding: RuleFinding, now_ms: int) -> GivenAdvice:
    """Return the remembered advice; the same as before where it need not be published again."""
    new = GivenAdvice(old.since_ms if old else now_ms, finding.lead, finding.mark)
    if old is None or finding.mark != old.mark:
        return new
    grown = finding.lead >= old.lead * AGAIN or finding.lead * AGAIN <= old.lead
    return new if finding.lead and grown else old


def _to_record(
    table: Table, rule: str, finding: RuleFinding, given: GivenAdvice, now_ms: int
) -> TableAdvice:
    return TableAdvice(
        table=table.counters.table,
        ref=table.counters.ref,
        rule=rule,
        withdrawn=False,
        finding=finding.finding,
        remedy=finding.remedy,
        numbers=finding.numbers,
        limits=finding.limits,
        since_ms=given.since_ms,
        at_ms=now_ms,
    )


def _withdrawals(
    table: Table, gone: Mapping[str, GivenAdvice], now_ms: int
) -> Iterator[TableAdvice]:
    """Yield the records that take recommendations back, because their rules hold no more."""
    counters = table.counters
    for rule, given in gone.items():
        yield TableAdvice(
            counters.table, counters.ref, rule, True, "", "", {}, {}, given.since_ms, now_ms
        )
