"""Tables for the rules of advice, each with what a rule looks at."""

from __future__ import annotations

from typing import Any

from firnline_domain.advice.finding import Known
from firnline_domain.advice.rules import advise
from firnline_domain.advice.sorting import DATA_FILES, SCANS, TARGETS
from firnline_domain.advice.writers import OVERWRITES
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import Filters, Use
from firnline_domain.counters.activity.writers import Hour, WriterActivity
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import (
    ExpiryWork,
    Partition,
    Promised,
    RunningTask,
    ServiceLevel,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.policy.partition.deadlines import QUEUE_MS
from firnline_domain.records.events import TableLayout
from firnline_domain.records.parts.tallies import FileTally, Tally, target_bytes_of
from firnline_domain.records.results import ExpiryPreview
from firnline_domain.settings.table_rules import TableRule
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from tests.kit.names import TABLE

NOW_MS = 1_795_000_000_000
TARGET = 8_000


def known(
    partitions: dict[str, int] | None = None,
    settings: dict[str, str] | None = None,
    hour: Hour | None = None,
    expiry: ExpiryWork | None = None,
    filters: Filters | None = None,
    duplicate: str = "",
    expiry_reason: str = "",
    running: tuple[RunningTask, ...] = (),
    turnaround_ms: int = 0,
    promised: Promised | None = None,
    rules: tuple[TableRule, ...] = (),
    **counters: Any,
) -> Known:
    """A table with so many bytes in each partition."""
    said = {"write.target-file-size-bytes": str(TARGET), **(settings or {})}
    table = Table(
        TableCounters(TABLE, "main", known=True, settings=said, **counters),
        TableWork(
            running=running,
            activity=WriterActivity(hour or Hour()),
            expiry=replace(expiry or ExpiryWork(), reason=expiry_reason),
            filters=filters,
            duplicate=duplicate,
            service=ServiceLevel(turnaround_ms, promised),
        ),
    )
    fleet = Thresholds()
    spread = PartitionSpread(target_bytes_of(said))
    every = (
        Partition(
            PartitionCounters(Scope(0, name), holds=FileTally(on_target=Tally(1, 1, held_bytes)))
        )
        for name, held_bytes in (partitions or {}).items()
    )
    for partition in every:
        spread.add(partition)
    limits = resolve_thresholds(said, fleet)
    return Known(table, limits, cost_model(limits), NOW_MS, spread, fleet, rules)


def rules(facts: Known) -> set[str]:
    return set(advise(facts).given)


def many(count: int, held_bytes: int, **more: int) -> dict[str, int]:
    return {f'["{number}"]': held_bytes for number in range(count)} | more


def hour(**counts: int) -> Hour:
    return Hour(NOW_MS - 60_000, **counts)


def ordered(minutes: float, deadline_ms: int = 0, **more: Any) -> RunningTask:
    """An order that went out so long ago."""
    at_ms = NOW_MS - int(minutes * 60_000)
    told = deadline_ms or at_ms + QUEUE_MS
    return RunningTask("t", Scope(0, "[]"), "compact", "fragments", 1, 1, at_ms, told, **more)


def holding(**kinds: int) -> Totals:
    """Totals with so many files, of a thousand bytes each."""
    tallies = {kind: Tally(files, files, files * 1_000) for kind, files in kinds.items()}
    return Totals(FileTally(**tallies), partitions=1, partitioned=1)


def filtering(
    scans: float = SCANS,
    share: float = 1.0,
    every: float = SCANS,
    *,
    data_files: int = DATA_FILES,
    held_bytes: int = int(TARGET * TARGETS),
    more: tuple[Use, ...] = (),
    ordered_by: tuple[str, ...] = (),
    partitioned_by: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A table whose readers filter by `id`, and read that share of it nevertheless."""
    layout = TableLayout(ordered_by, partitioned_by)
    uses = (Use("id", scans, scans * share), *more)
    return {
        "filters": Filters(NOW_MS, every, uses, layout),
        "partitions": {"[]": held_bytes},
        "totals": holding(on_target=data_files),
    }


SMALL = TARGET // 8 - 1
OVERWRITE = {"overwrites": OVERWRITES, "replaced_records": 100, "returned_records": 90}
OLD = NOW_MS - 10 * DAY_MS  # twice the retention
ANNOUNCED = ExpiryWork(announced_ms=NOW_MS, going=ExpiryPreview(2, 3, 4_000))
