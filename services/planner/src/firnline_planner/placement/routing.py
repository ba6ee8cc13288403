"""Route a record to the bucket that counts its table, as one bucket sees it (decision 0022).

A table's home, the bucket of its hash, alone says where it is: it hands the table over, or asks it
back first. All that goes between buckets goes by its home, so a table is in one bucket's state, or
on its way between its home and another, and never in two, unless state is lost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from firnline_adapters.kafka.dead_letters import DEAD_LETTERS
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN
from firnline_domain.records.assignments import HANDOVERS, Board, BucketRoute
from firnline_domain.records.events import (
    DeadLettered,
    FilesChanged,
    RecordForwarded,
    TableHanded,
)
from firnline_domain.records.orders import (
    MoveTable,
    PauseMaintenance,
    RecallTable,
)
from firnline_domain.records.pauses import FLEET, FLEET_PARTITION

from firnline_planner.handlers.dispatch import on_record
from firnline_planner.placement.load import BucketLoad
from firnline_planner.placement.transfers import Transfers
from firnline_planner.reconcile.schedule import Due
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import ADVICE, TABLE_STATES, Effects, Output
from firnline_planner.state.encoding import UnusableState, ref_key, table_key_in
from firnline_planner.state.failing_tables import FORGET, MOVE
from firnline_planner.state.table_context import TableContext
from firnline_planner.state.table_isolation import NO_TABLE, TickSteps, run_isolated


@dataclass(frozen=True)
class BucketFleet:
    """State that the buckets of one process share."""

    board: Board
    codec: RecordCodec

    def create_routing(self, bucket: int) -> Routing:
        """Return the routing of one bucket."""
        return Routing(self, bucket)


class Routing:
    """Routing of one bucket."""

    def __init__(self, fleet: BucketFleet, bucket: int) -> None:
        self._fleet = fleet
        self._board = fleet.board
        self._bucket = bucket
        self._transfers = Transfers(bucket, fleet.board)
        self._load = BucketLoad(bucket, fleet.board)

    @property
    def growth(self) -> float:
        """Return the number of buckets divided by the number that the fleet began with."""
        return self._board.buckets / self._board.homes

    @property
    def load(self) -> int:
        """Return the steps per minute in the last complete window."""
        return self._load.total

    def start_time_anew(self) -> None:
        """Drop waiting times that were planned by a clock that was set back since."""
        self._load.start_time_anew()

    def restore_assignments(self, state: BucketState) -> None:
        """Restore the assignments for a state that has read nothing yet, because there is none or
        it was lost: tables that were assigned from this bucket stay assigned."""
        for one in self._board.assigned_from(self._bucket):
            away = None if one.bucket == self._bucket else one.bucket
            state.put_route(one.table_key, BucketRoute(one.epoch, away))

    def on_record(self, record: Any, context: TableContext) -> None:
        """Handle a record here, or send it on to where its table is. Raises
        PoisonousRecord."""
        match record:
            case FilesChanged():  # first: most are
                self._route_record(record.table.key, record, 0, context)
            case TableHanded():
                for one in self._transfers.receive_chunk(record, context):
                    self._route_apart(record.table_key, one, context)
            case RecallTable():
                self._transfers.return_table(record, context)
            case RecordForwarded():
                came = self._fleet.codec.decode(record.record)
                if record.table_key == FLEET:
                    on_record(came, context)
                else:
                    self._route_record(record.table_key, came, record.epoch, context)
            case _ if getattr(record, "table", None) is None:
                on_record(record, context)
                self._tell_added(record, context)
            case _:
                self._route_record(record.table.key, record, 0, context)
        self._address_outputs(context.effects)

    def on_tick(self, due: Due, tables: int, context: TableContext, steps: TickSteps) -> None:
        """Announce after a tick which tables were removed and what the bucket costs, and transfer
        tables if that is too much. `tables`: how many it has."""
        for table_key in context.state.dropped_tables():
            forget = partial(self._transfers.end_assignment, table_key)
            steps.run_step(ref_key(table_key, MAIN), FORGET, forget)
        for key in (*due.reconciles, *due.publications):
            self._load.count_steps(table_key_in(key))
        for order in steps.run_step(NO_TABLE, "load", partial(self._load.pass_time, tables)) or ():
            move = partial(self._route_record, order.table.key, order, 0)
            steps.run_step(ref_key(order.table.key, MAIN), MOVE, move)
        steps.run_step(NO_TABLE, "new buckets", self._tell_new_buckets)
        self._address_outputs(context.effects)

    def _tell_added(self, order: Any, context: TableContext) -> None:
        """Forward an operator command for the whole fleet, which only the default buckets receive.
        One of them sends it in its order to every bucket that was added."""
        if self._bucket != FLEET_PARTITION:
            return
        for bucket in range(self._board.homes, context.state.share.buckets):
            self._transfers.forward_record(FLEET, order, 0, bucket, context)

    def _tell_new_buckets(self, context: TableContext) -> None:
        """Forward the deployment's pause to buckets that were added since."""
        share, homes, buckets = context.state.share, self._board.homes, self._board.buckets
        if self._bucket != FLEET_PARTITION or buckets <= max(share.buckets, homes):
            return
        if pause := context.state.pause_of(None):
            order = PauseMaintenance(None, pause.reason, pause.by, pause.since_ms)
            for bucket in range(max(share.buckets, homes), buckets):
                self._transfers.forward_record(FLEET, order, 0, bucket, context)
        context.state.put_share(replace(share, buckets=buckets))

    def _address_outputs(self, effects: Effects) -> None:
        """Send the records that are kept by table from one partition, wherever the table is: of two
        newest records of a key one would be wrong."""
        for place, output in enumerate(effects.outputs):
            if output.topic in (TABLE_STATES, ADVICE):
                home = self._transfers.default_bucket(output.key.partition("/")[0])
                effects.outputs[place] = Output(output.topic, output.key, output.record, home)

    def _route_record(self, table_key: str, record: Any, epoch: int, context: TableContext) -> None:
        route = context.state.route(table_key)
        if self._transfers.default_bucket(table_key) == self._bucket:
            self._route_home(table_key, route, record, epoch, context)
        elif route is not None and not isinstance(record, MoveTable):
            self._handle_record(table_key, record, context)
        elif not self._transfers.is_over(table_key, epoch):
            self._transfers.forward_record(
                table_key, record, epoch, self._transfers.default_bucket(table_key), context
            )

    def _route_home(
        self,
        table_key: str,
        route: BucketRoute | None,
        record: Any,
        epoch: int,
        context: TableContext,
    ) -> None:
        if route is not None and route.recalled_for is not None:
            self._transfers.put_waiting(table_key, route, record, context)
        elif isinstance(record, MoveTable):
            self._move_table(table_key, route, record, context)
        elif route is not None and route.bucket is not None:
            if epoch == route.epoch:  # it comes back from there: what it was handed is lost
                reason = f"bucket {route.bucket} has lost it"
                route = self._transfers.hand_over(table_key, route.bucket, reason, context)
            self._transfers.forward_record(
                table_key, record, route.epoch, route.bucket or 0, context
            )
        else:
            self._handle_record(table_key, record, context)

    def _handle_record(self, table_key: str, record: Any, context: TableContext) -> None:
        parts = len(record.partitions) if isinstance(record, FilesChanged) else 0
        self._load.count_steps(table_key, 1 + parts)
        on_record(record, context)

    def _move_table(
        self, table_key: str, route: BucketRoute | None, order: MoveTable, context: TableContext
    ) -> None:
        to = self._bucket if order.bucket is None else order.bucket
        if not 0 <= to < self._board.buckets:
            text = f"{order.table.dotted_name} cannot move to bucket {to} of {self._board.buckets}"
            raise PoisonousRecord("no_such_bucket", text)
        at = self._bucket if route is None or route.bucket is None else route.bucket
        if to == at:
            return
        reason = f"{order.requested_by}: {order.reason}" if order.reason else order.requested_by
        if route is None or at == self._bucket:
            self._transfers.hand_over(table_key, to, reason, context)
        else:
            self._transfers.recall_table(table_key, route, to, reason, context)

    def _route_apart(self, table_key: str, value: bytes, context: TableContext) -> None:
        """Route a record that has waited: if it fails, only it becomes a dead letter."""
        try:
            record = self._fleet.codec.decode(value)
            run_isolated(context, partial(self._route_record, table_key, record, 0))
        except UnusableState:
            raise
        except Exception as why:  # a bug of ours, or poison: as `Reader` does with each record
            reason = why.reason if isinstance(why, PoisonousRecord) else "handler_failed"
            letter = DeadLettered(
                topic=HANDOVERS,
                partition=self._bucket,
                offset=-1,
                key=table_key.encode(),
                value=value,
                reason=reason,
                message=str(why),
                service="planner",
                at_ms=context.now_ms,
            )
            context.effects.outputs.append(
                Output(DEAD_LETTERS, f"{HANDOVERS}/{self._bucket}", letter)
            )
