"""Which bucket counts a record's table, as one bucket sees it (decision 0022).

A table's home, the bucket of its hash, alone says where it is: it hands the table over, or asks it
back first. All that goes between buckets goes by its home, so a table is in one bucket's state, or
on its way between its home and another, and never in two, unless state is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
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
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import ADVICE, TABLE_STATES, Output, Step
from firnline_planner.handlers.dispatch import on_record
from firnline_planner.placement.transfers import Transfers, Turn
from firnline_planner.state.bucket_state import State

LOADS_MS = 5_000  # between two words on a bucket's load, at the least


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
        self._told = BucketLoaded(bucket, -1, 0, 0)

    @property
    def by_files(self) -> bool:
        """True if somebody asks how many files the bucket has."""
        return self._fleet.assign is Assign.FILES

    def begin(self, state: State) -> None:
        """Of a state that has read nothing yet, because there is none or it was lost: what was
        assigned from here stays assigned."""
        for one in self._board.assigned_from(self._bucket):
            away = None if one.bucket == self._bucket else one.bucket
            state.routes.put(one.table_uuid, Route(one.epoch, away))

    def on_record(self, record: Any, state: State, defaults: Thresholds, now_ms: int) -> Step:
        """Handle a record here, or see that it comes to where its table is. Raises
        PoisonousRecord."""
        turn = Turn(state, defaults, now_ms, Step())
        match record:
            case TableHanded():
                for one in self._transfers.received(record, turn):
                    self._route_apart(record.table_uuid, one, turn)
            case RecallTable():
                self._transfers.recalled(record, turn)
            case RecordForwarded():
                came = self._fleet.codec.decode(record.record)
                self._route(record.table_uuid, came, record.epoch, turn)
            case _ if getattr(record, "table", None) is None:
                turn.step = on_record(record, state, defaults, now_ms)
            case _:
                self._route(record.table.uuid, record, 0, turn)
        return self._addressed(turn.step)

    def on_tick(self, step: Step, state: State, tables: int, files: int, now_ms: int) -> None:
        """After a tick: say which tables are forgotten, and how much there is to count."""
        turn = Turn(state, Thresholds(), now_ms, step)
        for uuid in state.dropped():
            self._transfers.forgotten(uuid, turn)
        if now_ms - self._told.at_ms >= LOADS_MS or now_ms < self._told.at_ms:
            told = BucketLoaded(self._bucket, tables, files, now_ms)
            if replace(told, at_ms=self._told.at_ms) != self._told:
                self._told = told
                step.outputs.append(Output(TOPIC, f"bucket/{self._bucket}", told))
        self._addressed(step)

    def _addressed(self, step: Step) -> Step:
        """What is kept by table stays in one partition, wherever the table is: of two newest
        records of a key one would be wrong."""
        for place, output in enumerate(step.outputs):
            if output.topic in (TABLE_STATES, ADVICE):
                home = self._transfers.home(output.key.partition("/")[0])
                step.outputs[place] = changed(output, partition=home)
        return step

    def _route(self, uuid: str, record: Any, epoch: int, turn: Turn) -> None:
        route = turn.state.routes.of(uuid)
        if self._transfers.home(uuid) == self._bucket:
            self._route_home(uuid, route, record, epoch, turn)
        elif route is not None and not isinstance(record, MoveTable):
            turn.step.include(on_record(record, turn.state, turn.defaults, turn.now_ms))
        elif not self._transfers.is_over(uuid, epoch):
            self._transfers.forward(uuid, record, epoch, self._transfers.home(uuid), turn)

    def _route_home(
        self, uuid: str, route: Route | None, record: Any, epoch: int, turn: Turn
    ) -> None:
        if route is not None and route.recalled_for is not None:
            self._transfers.put_waiting(uuid, route, record, turn)
        elif isinstance(record, MoveTable):
            self._move(uuid, route, record, turn)
        elif route is not None and route.bucket is not None:
            if epoch == route.epoch:  # it comes back from there: what it was handed is lost
                route = self._transfers.hand_over(uuid, route.bucket, turn)
            self._transfers.forward(uuid, record, route.epoch, route.bucket or 0, turn)
        elif (to := self._place_of(uuid, route, record, turn)) != self._bucket:
            route = self._transfers.hand_over(uuid, to, turn)
            self._transfers.forward(uuid, record, route.epoch, to, turn)
        else:
            turn.step.include(on_record(record, turn.state, turn.defaults, turn.now_ms))

    def _place_of(self, uuid: str, route: Route | None, record: Any, turn: Turn) -> int:
        """Where a table goes that is here, at home: elsewhere only with its first event."""
        is_first = (
            route is None
            and isinstance(record, FilesChanged)
            and record.ref == MAIN
            and record.kind is not ChangeKind.REMOVED
            and turn.state.table(uuid, MAIN) is None
        )
        if not is_first:
            return self._bucket
        to = self._board.lightest(self._bucket, self._fleet.assign)
        self._board.expect(uuid, to, turn.now_ms)
        return to

    def _move(self, uuid: str, route: Route | None, order: MoveTable, turn: Turn) -> None:
        to = self._bucket if order.bucket is None else order.bucket
        if not 0 <= to < self._fleet.buckets:
            text = f"{order.table.dotted} cannot move to bucket {to} of {self._fleet.buckets}"
            raise PoisonousRecord("no_such_bucket", text)
        at = self._bucket if route is None or route.bucket is None else route.bucket
        if to == at:
            if route is None and turn.state.table(uuid, MAIN) is None:  # its first event is to come
                self._transfers.assign_here(uuid, turn)
        elif route is None or at == self._bucket:
            self._transfers.hand_over(uuid, to, turn)
        else:
            self._transfers.recall(uuid, route, to, turn)

    def _route_apart(self, uuid: str, value: bytes, turn: Turn) -> None:
        """A record that has waited: where it fails, it alone is put aside."""
        mark, inner = turn.state.mark(), changed(turn, step=Step())
        try:
            self._route(uuid, self._fleet.codec.decode(value), 0, inner)
            turn.step.include(inner.step)
        except Exception as why:  # a bug of ours, or poison: as `Reader` does with each record
            turn.state.back_to(mark)
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
                at_ms=turn.now_ms,
            )
            turn.step.outputs.append(Output(DEAD_LETTERS, f"{HANDOVERS}/{self._bucket}", letter))
