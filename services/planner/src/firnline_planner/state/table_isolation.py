"""A step of one table that fails costs that table alone: it is undone, told and tried again.

A tick is one record for all tables of a bucket. What an owner or a writer has said may make a
handler raise, and a bug of ours may: no neighbour waits for either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firnline_adapters.kafka.dead_letters import DEAD_LETTERS
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Table
from firnline_domain.records.events import DeadLettered
from firnline_domain.records.states import TableState

from firnline_planner.state.effects import SERVICE, TABLE_STATES, Effects, Output
from firnline_planner.state.encoding import UnusableState, table_key_in
from firnline_planner.state.table_context import TableContext

TICKS = "ticks"  # the topic that a letter about a table names: the failure has no record of its own
NO_OFFSET = -1
REASON = "table_failing"
NO_TABLE = b""  # a part of the bucket's own work
LOG = Log("planner")
T = TypeVar("T")


def run_isolated(context: TableContext, do: Callable[[TableContext], T]) -> T:
    """Run a function for one table. What it changes and sends counts only if it does not raise.

    Raises what `do` raises, and what the state raises for a value that cannot be kept."""
    inner = replace(context, effects=Effects())
    done = context.state.run_undoable(do, inner)
    context.effects.add_effects(inner.effects)
    return done


class TickSteps:
    """The steps of one tick of one bucket."""

    def __init__(self, bucket: int, context: TableContext) -> None:
        self._bucket = bucket
        self._context = context

    def run_step(self, key: bytes, step: str, do: Callable[[TableContext], T]) -> T | None:
        """Run a step of a table in the tick's context. If it fails, undo its changes,
        report the failure under key and step, and return None.

        Raises UnusableState: that is no failure of the table's."""
        context = self._context
        try:
            done = run_isolated(context, do)
        except UnusableState:
            raise
        except Exception as error:
            self._report_failure(key, step, error)
            return None
        context.failing.clear_failure(key, step)
        return done

    def _report_failure(self, key: bytes, step: str, error: Exception) -> None:
        context, table = self._context, _read_table(self._context, key)
        is_first = context.failing.failure(key, step) is None
        failure = context.failing.note_failure(key, step, error, context.now_ms)
        table_key = table_key_in(key) if key else ""
        identity = table.counters.table if table else None
        name = identity.dotted_name if identity else table_key or "no table"
        again_s = failure.pause_ms // 1000
        LOG.error(REASON, error, table=identity, table_key=table_key, step=step, again_s=again_s)
        if is_first:
            metrics.count("dead_letters", reason=REASON)
            letter = self._dead_letter(table_key, f"{name}: {step}: {failure.error}")
            context.effects.add_outputs([Output(DEAD_LETTERS, f"{TICKS}/{self._bucket}", letter)])
        if table is not None:
            context.effects.add_outputs([_failing_state(context, key, table)])

    def _dead_letter(self, table_key: str, message: str) -> DeadLettered:
        return DeadLettered(
            topic=TICKS,
            partition=self._bucket,
            offset=NO_OFFSET,
            key=table_key.encode() or None,
            value=None,
            reason=REASON,
            message=message,
            service=SERVICE,
            at_ms=self._context.now_ms,
        )


def _read_table(context: TableContext, key: bytes) -> Table | None:
    """Return the table; None also if the table itself cannot be read."""
    try:
        return context.state.table_at(key) if key else None
    except UnusableState:
        raise
    except Exception:
        return None


def _failing_state(context: TableContext, key: bytes, table: Table) -> Output:
    """Return the state of a table that can be published without any step of the table."""
    counters = table.counters
    state = TableState(
        table=counters.table,
        ref=counters.ref,
        head_snapshot_id=counters.head_snapshot_id,
        sequence_number=counters.sequence_number,
        epoch=counters.epoch,
        ordinal=counters.ordinal,
        format_version=counters.format_version,
        holds=counters.totals.holds,
        partition_count=counters.totals.partitions,
        partitions=(),
        snapshot_count=counters.snapshot_count,
        oldest_snapshot_ms=counters.oldest_snapshot_ms,
        waiting_for_resync=counters.waiting is not None,
        settings=counters.settings,
        expiry_reason=table.work.expiry.reason,
        removed=counters.removed,
        updated_at_ms=context.now_ms,
        hold=context.failing.hold_of(key),
        metadata_bytes=counters.metadata_bytes,
    )
    return Output(TABLE_STATES, f"{counters.table.key}/{counters.ref}", state)
