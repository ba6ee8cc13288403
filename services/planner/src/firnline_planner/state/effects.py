"""Effects of handling one record: records to send, and metrics to count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from firnline_adapters.kafka.dead_letters import DEAD_LETTERS, dead_letter_key
from firnline_adapters.observability import metrics
from firnline_adapters.records.record_sizes import Unsendable, dead_letter_of_unsent, encode_to_fit
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import Scope
from firnline_domain.records.assignments import is_by_bucket
from firnline_domain.records.orders import RewriteFiles, TableOrder

from firnline_planner.state.budget_ranking import RankedAction

SERVICE = "planner"
SHOWN = 16  # snapshots of a task's table in the log: it serves more commits than the last one
# A table's key in the state, and its partition, or the name of an action on the whole table.
Place = tuple[bytes, Scope | str]
BudgetRequest = tuple[str, RankedAction[Place]]  # by the name of the budget that is to pay
TABLE_TASKS = "table-tasks"
RESYNC_REQUESTS = "resync-requests"
TABLE_STATES = "table-states"
ADVICE = "advice"


class Sent(NamedTuple):
    """One record on its way to its topic."""

    topic: str
    key: str
    value: bytes | None
    partition: int


@dataclass(frozen=True)
class Output:
    """One record to send, None = that its key is no more; into `partition`, None = that of the
    bucket that is being handled, or of one home for several buckets. Of a task: the `trace` id of
    the request that it comes of, and the newest `snapshots` of its table."""

    topic: str
    key: str
    record: Any
    partition: int | None = None
    trace: str = ""
    snapshots: tuple[int, ...] = ()

    def encode_for_send(self, bucket: int, homes: int, at_ms: int) -> Sent:
        """Return the record as a bucket sends it. If its topic takes the record in no form, return
        a dead letter instead, so that the others of its transaction are sent."""
        place = self.partition
        if place is None:
            place = bucket if is_by_bucket(self.topic) else bucket % homes
        if self.record is None:
            return Sent(self.topic, self.key, None, place)
        try:
            return Sent(
                self.topic, self.key, encode_to_fit(self.topic, self.key, self.record), place
            )
        except Unsendable as error:
            metrics.count("dead_letters", reason=error.reason)
            letter = dead_letter_of_unsent(self.topic, place, self.key, error, SERVICE, at_ms)
            key = dead_letter_key(letter)
            return Sent(DEAD_LETTERS, key, encode_to_fit(DEAD_LETTERS, key, letter), bucket % homes)


def task_output(topic: str, order: RewriteFiles | TableOrder, table: Table) -> Output:
    """Return a task to send."""
    counters = table.counters
    newest = (*counters.recent.parent_by_id(),)[-SHOWN:]
    return Output(topic, order.table.key, order, trace=counters.trace.hex(), snapshots=newest)


@dataclass
class Effects:
    """Collects while one record is handled, or one tick."""

    outputs: list[Output] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)  # of `folding.Verdict`
    outcomes: list[str] = field(default_factory=list)  # of tasks that ended
    # None = the partition wants nothing now.
    budget_requests: dict[Place, BudgetRequest | None] = field(default_factory=dict)
    # Tables of which every partition was decided about: they have no other requests.
    fully_reconciled: set[bytes] = field(default_factory=set)
    spent_gb_hours: float = 0.0  # as estimated, of the budget
    # Of the oldest commit whose files a rewrite takes: when it was ordered, and when it is done.
    ages_at_order_ms: list[int] = field(default_factory=list)
    ages_at_finish_ms: list[int] = field(default_factory=list)

    def add_effects(self, other: Effects) -> None:
        """Add the effects of another record."""
        self.outputs += other.outputs
        self.verdicts += other.verdicts
        self.outcomes += other.outcomes
        self.budget_requests |= other.budget_requests
        self.fully_reconciled |= other.fully_reconciled
        self.spent_gb_hours += other.spent_gb_hours
        self.ages_at_order_ms += other.ages_at_order_ms
        self.ages_at_finish_ms += other.ages_at_finish_ms

    def add_outputs(self, outputs: Iterable[Output]) -> None:
        """Add records to send."""
        self.outputs.extend(outputs)
