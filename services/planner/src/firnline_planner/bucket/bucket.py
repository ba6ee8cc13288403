"""One bucket: its state and its schedule. What every driver runs, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import Promised, Table
from firnline_domain.policy.clock_set_back import set_value_back
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_domain.records.events import TickPassed
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner.handlers.dispatch import on_record, on_tick
from firnline_planner.placement.routing import Routing
from firnline_planner.reconcile.budget_queue import BudgetQueue, Grant, order_granted
from firnline_planner.reconcile.schedule import NOTHING, TableSchedule
from firnline_planner.reconcile.worker_memory import size_workers
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import Effects
from firnline_planner.state.failing_tables import PUBLISH, RECONCILE, FailingTables
from firnline_planner.state.stores import KeyValueStore, keys_needed
from firnline_planner.state.table_context import TableContext, context_of
from firnline_planner.state.table_isolation import NO_TABLE, TickSteps

BETWEEN_POLICIES = "-"  # no digest: some tables were decided by those of before


class TableSummary(Value):
    """Numbers that the gauges of a bucket take from a table. Of a table that was not read yet, only
    those at the beginning of its entry in the store are known."""

    in_flight: int = 0
    is_paused: bool = False
    off_objective: int = 0
    promised: Promised | None = None


AT_REST = TableSummary()


class PlannerBucket:
    """Handles the records of one partition number, one at a time.

    `handle`, send the step's outputs, then `commit` (or `discard`): state is kept only when its
    orders are on the broker, so a crash in between repeats them under the same task ids, and an
    order is never lost.
    """

    def __init__(
        self,
        store: KeyValueStore,
        defaults: Thresholds,
        max_reconciles: int | None = None,
        routing: Routing | None = None,
        read_policies: Callable[[], TablePolicies] = TablePolicies,
    ) -> None:
        """Open a bucket's state. `max_reconciles`: tables that one tick may reconcile; the rest
        stays due. `routing`: None if each table is in the bucket of its hash. `read_policies`:
        returns the policies in force now."""
        self._max_reconciles = max_reconciles
        self.max_publications: int | None = None  # tables whose state one tick may publish
        self._state = BucketState(store)
        self._defaults = self._fleet = defaults
        self._read_policies, self._policies = read_policies, read_policies()
        self._growth = 1.0
        self._routing = routing
        if routing and self._state.has_read_nothing:
            routing.restore_assignments(self._state)
            self._state.commit()
        self._policies_followed = self._state.share.policies
        self._schedule = TableSchedule()
        self._due = NOTHING
        self._budget_queue = BudgetQueue()
        self._failing = FailingTables()
        self._effects = Effects()
        self._now_ms = 0
        self._tables: set[bytes] = set()
        self._summaries: dict[bytes, TableSummary] = {}  # of the tables that are not at rest
        for key, head, paused in self._state.heads():
            self._schedule.add_unread(key, head.due_ms)
            self._state.note_kept(head.kept_ms)
            self._tables.add(key)
            self._note_summary(key, TableSummary(head.in_flight, paused))

    @property
    def table_count(self) -> int:
        """Return the number of tables (by ref) with counters."""
        return len(self._tables)

    @property
    def paused_table_count(self) -> int:
        """Return the number of tables that an operator has paused."""
        return sum(one.is_paused for one in self._summaries.values())

    @property
    def failing_table_count(self) -> int:
        """Return the number of tables of which a step fails with an error of Firnline's."""
        return len(self._failing)

    @property
    def waiting_partition_count(self) -> int:
        """Return the number of partitions whose rewrite waits for the budget."""
        return len(self._budget_queue)

    @property
    def waiting_s(self) -> dict[str, float]:
        """Return, by budget, the age in seconds of the oldest debt that waited for it at the last
        tick."""
        since_ms = {
            **dict.fromkeys(self._fleet.budget_by_group, self._now_ms),
            **self._budget_queue.oldest_ms,
        }
        return {name: max(0, self._now_ms - ms) / 1000 for name, ms in since_ms.items()}

    @property
    def promise_used(self) -> float:
        """Return the age of the oldest equality delete divided by the age that its table promises,
        the worst of all tables; above 1 = broken."""
        promises = (one.promised for one in self._summaries.values() if one.promised)
        ages = ((self._now_ms - one.oldest_ms) / one.max_age_ms for one in promises)
        return max(ages, default=0.0)

    @property
    def off_objective(self) -> int:
        """Return the number of partitions that miss an objective of their table."""
        return sum(one.off_objective for one in self._summaries.values())

    @property
    def in_flight(self) -> int:
        """Return the number of partitions with an order out."""
        return sum(one.in_flight for one in self._summaries.values())

    @property
    def price_factors(self) -> Iterable[tuple[str, float]]:
        """Return the learned cost factors; see `FleetShare.factors`."""
        return self._state.share.factors()

    @property
    def memory_steps(self) -> Iterable[tuple[tuple[str, MemoryKind], int]]:
        """Return the steps of memory that are requested; see `FleetShare.memory_steps`."""
        return self._state.share.memory_steps()

    @property
    def load(self) -> int:
        """Return the load in steps a minute; 0 without routing."""
        return self._routing.load if self._routing else 0

    def uncached_keys(self, records: Iterable[Any]) -> list[bytes]:
        """Return the keys that handling these records would read from the store, once each."""
        return self._state.uncached_keys(key for one in records for key in keys_needed(one))

    def handle(self, record: Any, now_ms: int) -> Effects:
        """Return the effects of a record. Raises PoisonousRecord; nothing is kept then."""
        self._now_ms = now_ms
        if self._state.set_clock(now_ms):
            self._start_time_anew()
        context = context_of(self._state, self._fleet, now_ms, self._failing, self._policies)
        self._effects = context.effects
        if isinstance(record, TickPassed):
            self._follow_policies()
            self._pass_time(record.bucket, replace(context, policies=self._policies))
        elif self._routing:
            self._routing.on_record(record, context)
        else:
            on_record(record, context)
        return self._effects

    def _start_time_anew(self) -> None:
        """Make every table due now, as many in a tick as after a start: the clock was set back, and
        all that is planned by it would be late."""
        self._failing = FailingTables()
        for key in self._tables:
            self._schedule.add_unread(key, self._now_ms)
        if self._routing:
            self._routing.start_time_anew()
        share = self._state.share
        self._state.put_share(set_value_back(share, self._now_ms))

    def _follow_policies(self) -> None:
        """If the policies have changed, also since the last life, have every table decided about,
        as many in a tick as after a start."""
        self._policies = self._read_policies()
        if self._policies.digest != self._policies_followed:
            self._policies_followed = self._policies.digest
            self._state.put_share(replace(self._state.share, policies=BETWEEN_POLICIES))
            for key in self._tables:
                self._schedule.add_unread(key, self._now_ms)

    def _pass_time(self, bucket: int, context: TableContext) -> None:
        now_ms, steps = context.now_ms, TickSteps(bucket, context)
        self._failing.drop_old(now_ms)
        self._due = self._schedule.take_due(now_ms, self._max_reconciles, self.max_publications)
        on_tick(self._due, steps)
        share = self._state.share
        if share.policies != self._policies_followed and not self.is_behind:
            self._state.put_share(replace(share, policies=self._policies_followed))
        # After it: what was promised is taken from the budgets, too.
        for grant in steps.run_step(NO_TABLE, "budget", self._grant_budgets) or ():
            order_granted(grant, context, steps)
        steps.run_step(NO_TABLE, "worker memory", partial(size_workers, bucket))
        if self._routing:
            self._routing.on_tick(self._due, self.table_count, context, steps)
            self._divide_budgets(self._routing.growth)

    def _grant_budgets(self, context: TableContext) -> list[Grant]:
        tokens, budgets = context.state.share.tokens, self._fleet.budget_by_group
        return self._budget_queue.grant_budgets(tokens, budgets, context.now_ms)

    def _divide_budgets(self, growth: float) -> None:
        """Give the added buckets a part of the budgets, too."""
        if growth != self._growth:
            self._growth = growth
            self._fleet = self._defaults.divide_by(growth)

    @property
    def is_behind(self) -> bool:
        """True if the last record was a tick that left something due."""
        due = self._due
        reconciles, publications = len(due.reconciles), len(due.publications)
        return reconciles == self._max_reconciles or publications == self.max_publications

    def next_offset(self, topic: str) -> int:
        """Return the first offset of the topic that is not in the state."""
        return self._state.next_offset(topic)

    def advance_offset(self, topic: str, offset: int) -> None:
        """Mark the record at that offset as handled once this is committed."""
        self._state.advance_offset(topic, offset)

    def demand_small(self) -> None:
        """Check the size of a table or partition that the last record has changed. Raises
        PoisonousRecord if it is larger than any that is kept. Time adds little; there is room for
        it."""
        self._state.demand_small()

    def commit(self) -> None:
        """Keep what the last record changed; its outputs are on the broker."""
        self._budget_queue.update_requests(self._effects)
        for key, table in self._state.commit().items():
            self._follow_table(key, table)
        for key in self._failing.take_noted():
            self._delay_failing(key)
        self._due = NOTHING

    def discard(self) -> None:
        """Forget what the last record changed; what was due stays due."""
        self._state.discard()
        self._effects = Effects()
        self._schedule.put_back(self._due, self._now_ms)
        self._due = NOTHING

    def _delay_failing(self, key: bytes) -> None:
        """Delay a table whose steps fail until their next tries."""
        if not self._failing:
            return  # mostly
        moments = [
            None if failure is None else failure.again_ms
            for failure in (self._failing.failure(key, step) for step in (RECONCILE, PUBLISH))
        ]
        self._schedule.delay_table(key, *moments)

    def _follow_table(self, key: bytes, table: Table | None) -> None:
        """Update the schedule, the gauges and the budget queue of the bucket after a change of a
        table; None: it was removed."""
        self._schedule.update_table(key, table)
        self._delay_failing(key)
        (self._tables.discard if table is None else self._tables.add)(key)
        self._note_summary(key, AT_REST if table is None else _summarize(table))
        if table is None or table.counters.removed:
            self._budget_queue.drop_table(key)
        if table is None:
            self._failing.drop_table(key)

    def _note_summary(self, key: bytes, summary: TableSummary) -> None:
        if summary == AT_REST:
            self._summaries.pop(key, None)
        else:
            self._summaries[key] = summary


def _summarize(table: Table) -> TableSummary:
    """Return the summary of a table; one that was dropped from its catalog misses nothing."""
    service, is_there = table.work.service, not table.counters.removed
    return TableSummary(
        len(table.work.running),
        table.pause is not None,
        service.off_objective if is_there else 0,
        service.promised if is_there else None,
    )
