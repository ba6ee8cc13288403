"""Which bucket counts a record's table, as one bucket sees it (decision 0022).

A table's home, the bucket of its hash, alone says where it is: it hands the table over, or asks it
back first. All that goes between buckets goes by its home, so a table is in one bucket's state, or
on its way between its home and another, and never in two, unless state is lost.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from firnline_adapters.dead_letters import DEAD_LETTERS
from firnline_adapters.records import RecordCodec
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Assign, Board, Route
from firnline_domain.records.events import (
    BucketLoaded,
    ChangeKind,
    DeadLettered,
    FilesChanged,
    RecordForwarded,
    TableHanded,
)
from firnline_domain.records.orders import MoveTable, RecallTable
from firnline_domain.values import replace

from firnline_planner.effects import ADVICE, TABLE_STATES, Effects, Output
from firnline_planner.handlers.dispatch import on_record
from firnline_planner.placement.transfers import Transfers
from firnline_planner.reconcile.context import TableContext
from firnline_planner.state.bucket_state import BucketState

LOAD_INTERVAL_MS = 5_000  # between two reports of a bucket's load, at the least


@dataclass(frozen=True)
class Fleet:
    """What the buckets of one process share."""

    assign: Assign
    buckets: int
    board: Board
    codec: RecordCodec

    def routing(self, bucket: int) -> Routing:
        """For one of them."""
        return Routing(self, bucket)


class Routing:
    """Of one bucket."""

    def __init__(self, fleet: Fleet, bucket: int) -> None:
        self._fleet = fleet
        self._board = fleet.board
        self._bucket = bucket
        self._transfers = Transfers(bucket, fleet.buckets, fleet.board)
        self._reported = BucketLoaded(bucket, -1, 0, 0)

    @property
    def by_files(self) -> bool:
        """True if somebody asks how many files the bucket has."""
        return self._fleet.assign is Assign.FILES

    def restore(self, state: BucketState) -> None:
        """Of a state that has read nothing yet, because there is none or it was lost: what was
        assigned from here stays assigned."""
        for one in self._board.assigned_from(self._bucket):
            away = None if one.bucket == self._bucket else one.bucket
            state.put_route(one.table_uuid, Route(one.epoch, away))

    def on_record(self, record: Any, context: TableContext) -> None:
        """Handle a record here, or send it on to where its table is. Raises
        PoisonousRecord."""
        match record:
            case TableHanded():
                for one in self._transfers.received(record, context):
                    self._route_apart(record.table_uuid, one, context)
            case RecallTable():
                self._transfers.recalled(record, context)
            case RecordForwarded():
                came = self._fleet.codec.decode(record.record)
                self._route(record.table_uuid, came, record.epoch, context)
            case _ if getattr(record, "table", None) is None:
                on_record(record, context)
            case _:
                self._route(record.table.uuid, record, 0, context)
        self._address(context.effects)

    def on_tick(self, tables: int, files: int, context: TableContext) -> None:
        """After a tick: announce which tables are forgotten, and how much there is to count."""
        now_ms, outputs = context.now_ms, context.effects.outputs
        for uuid in context.state.dropped_tables():
            self._transfers.forgotten(uuid, context)
        if now_ms - self._reported.at_ms >= LOAD_INTERVAL_MS or now_ms < self._reported.at_ms:
            load = BucketLoaded(self._bucket, tables, files, now_ms)
            if replace(load, at_ms=self._reported.at_ms) != self._reported:
                self._reported = load
                outputs.append(Output(TOPIC, f"bucket/{self._bucket}", load))
        self._address(context.effects)

    def _address(self, effects: Effects) -> None:
        """What is kept by table stays in one partition, wherever the table is: of two newest
        records of a key one would be wrong."""
        for place, output in enumerate(effects.outputs):
            if output.topic in (TABLE_STATES, ADVICE):
                home = self._transfers.home(output.key.partition("/")[0])
                effects.outputs[place] = dataclasses.replace(output, partition=home)

    def _route(self, uuid: str, record: Any, epoch: int, context: TableContext) -> None:
        route = context.state.route(uuid)
        if self._transfers.home(uuid) == self._bucket:
            self._route_home(uuid, route, record, epoch, context)
        elif route is not None and not isinstance(record, MoveTable):
            on_record(record, context)
        elif not self._transfers.is_over(uuid, epoch):
            self._transfers.forward(uuid, record, epoch, self._transfers.home(uuid), context)

    def _route_home(
        self, uuid: str, route: Route | None, record: Any, epoch: int, context: TableContext
    ) -> None:
        if route is not None and route.recalled_for is not None:
            self._transfers.put_waiting(uuid, route, record, context)
        elif isinstance(record, MoveTable):
            self._move(uuid, route, record, context)
        elif route is not None and route.bucket is not None:
            if epoch == route.epoch:  # it comes back from there: what it was table_chunks is lost
                route = self._transfers.hand_over(uuid, route.bucket, context)
            self._transfers.forward(uuid, record, route.epoch, route.bucket or 0, context)
        elif (to := self._first_bucket_of(uuid, route, record, context)) != self._bucket:
            route = self._transfers.hand_over(uuid, to, context)
            self._transfers.forward(uuid, record, route.epoch, to, context)
        else:
            on_record(record, context)

    def _first_bucket_of(
        self, uuid: str, route: Route | None, record: Any, context: TableContext
    ) -> int:
        """Where a table goes that is here, at home: elsewhere only with its first event."""
        is_first = (
            route is None
            and isinstance(record, FilesChanged)
            and record.ref == MAIN
            and record.kind is not ChangeKind.REMOVED
            and context.state.table(uuid, MAIN) is None
        )
        if not is_first:
            return self._bucket
        to = self._board.lightest(self._bucket, self._fleet.assign)
        self._board.expect(uuid, to, context.now_ms)
        return to

    def _move(
        self, uuid: str, route: Route | None, order: MoveTable, context: TableContext
    ) -> None:
        to = self._bucket if order.bucket is None else order.bucket
        if not 0 <= to < self._fleet.buckets:
            text = f"{order.table.dotted} cannot move to bucket {to} of {self._fleet.buckets}"
            raise PoisonousRecord("no_such_bucket", text)
        at = self._bucket if route is None or route.bucket is None else route.bucket
        if to == at:
            if (
                route is None and context.state.table(uuid, MAIN) is None
            ):  # its first event is to come
                self._transfers.assign_here(uuid, context)
        elif route is None or at == self._bucket:
            self._transfers.hand_over(uuid, to, context)
        else:
            self._transfers.recall(uuid, route, to, context)

    def _route_apart(self, uuid: str, value: bytes, context: TableContext) -> None:
        """A record that has waited: where it fails, it alone is put aside."""
        savepoint, inner = context.state.savepoint(), replace(context, effects=Effects())
        try:
            self._route(uuid, self._fleet.codec.decode(value), 0, inner)
            context.effects.add(inner.effects)
        except Exception as why:  # a bug of ours, or poison: as `Reader` does with each record
            context.state.roll_back(savepoint)
            reason = why.reason if isinstance(why, PoisonousRecord) else "handler_failed"
            letter = DeadLettered(
                topic=HANDOVERS,
                partition=self._bucket,
                offset=-1,
                key=uuid.encode(),
                value=value,
                reason=reason,
                message=str(why),
                service="planner",
                at_ms=context.now_ms,
            )
            context.effects.outputs.append(
                Output(DEAD_LETTERS, f"{HANDOVERS}/{self._bucket}", letter)
            )
