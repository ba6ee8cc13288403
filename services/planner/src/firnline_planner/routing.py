"""One bucket's part in who counts which table, where tables are assigned (decision 0022).

A table's home, the bucket of its hash, alone says where it is: it hands the table over, or asks it
back first. All that goes between buckets goes by its home, on `table-handovers`, in the order in
which it was said; each step of it is one transaction with the state. So a table is in one bucket's
state, or on its way between its home and another, and never in two, unless state is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

from firnline_adapters.dead_letters import DEAD_LETTERS
from firnline_adapters.records import RecordCodec, encode
from firnline_domain.assignments import HANDOVERS, TOPIC, Assign, Board, Route, next_epoch
from firnline_domain.commands import MoveTable, RecallTable
from firnline_domain.errors import PoisonousRecord
from firnline_domain.events import (
    BucketLoaded,
    ChangeKind,
    DeadLettered,
    FilesChanged,
    RecordForwarded,
    TableAssigned,
    TableHanded,
)
from firnline_domain.identity import MAIN, bucket_of
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.handing import handed, take_in
from firnline_planner.handlers import on_record
from firnline_planner.state import State
from firnline_planner.step import ADVICE, TABLE_STATES, Output, Step

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


@dataclass
class Turn:
    """One record: what it is handled with, and what it comes to."""

    state: State
    defaults: Thresholds
    now_ms: int
    step: Step


class Routing:
    """Of one bucket."""

    def __init__(self, fleet: Fleet, bucket: int) -> None:
        self._fleet = fleet
        self._board = fleet.board
        self._bucket = bucket
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
            state.put_route(one.table_uuid, Route(one.epoch, away))

    def on_record(self, record: Any, state: State, defaults: Thresholds, now_ms: int) -> Step:
        """Handle a record here, or see that it comes to where its table is. Raises
        PoisonousRecord."""
        turn = Turn(state, defaults, now_ms, Step())
        match record:
            case TableHanded():
                self._handed(record, turn)
            case RecallTable():
                self._recalled(record, turn)
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
            self._forgotten(uuid, turn)
        if now_ms - self._told.at_ms >= LOADS_MS or now_ms < self._told.at_ms:
            told = BucketLoaded(self._bucket, tables, files, now_ms)
            if replace(told, at_ms=self._told.at_ms) != self._told:
                self._told = told
                step.outputs.append(Output(TOPIC, f"bucket/{self._bucket}", told))
        self._addressed(step)

    def _home(self, uuid: str) -> int:
        return bucket_of(uuid, self._fleet.buckets)

    def _addressed(self, step: Step) -> Step:
        """What is kept by table stays in one partition, wherever the table is: of two newest
        records of a key one would be wrong."""
        for place, output in enumerate(step.outputs):
            if output.topic in (TABLE_STATES, ADVICE):
                home = self._home(output.key.partition("/")[0])
                step.outputs[place] = changed(output, partition=home)
        return step

    def _route(self, uuid: str, record: Any, epoch: int, turn: Turn) -> None:
        route = turn.state.route(uuid)
        if self._home(uuid) == self._bucket:
            self._route_home(uuid, route, record, epoch, turn)
        elif route is not None and not isinstance(record, MoveTable):
            turn.step.include(on_record(record, turn.state, turn.defaults, turn.now_ms))
        elif not self._is_over(uuid, epoch):
            self._forward(uuid, record, epoch, self._home(uuid), turn)

    def _is_over(self, uuid: str, epoch: int) -> bool:
        """True of what was said under an assignment that is known not to be the newest."""
        newest = self._board.assigned(uuid)
        return bool(epoch) and newest is not None and newest.epoch > epoch

    def _route_home(
        self, uuid: str, route: Route | None, record: Any, epoch: int, turn: Turn
    ) -> None:
        if route is not None and route.recalled_for is not None:
            turn.state.put_waiting(uuid, route.waiting, encode(record))
            turn.state.put_route(uuid, replace(route, waiting=route.waiting + 1))
        elif isinstance(record, MoveTable):
            self._move(uuid, route, record, turn)
        elif route is not None and route.bucket is not None:
            if epoch == route.epoch:  # it comes back from there: what it was handed is lost
                route = self._hand_over(uuid, route.bucket, turn)
            self._forward(uuid, record, route.epoch, route.bucket or 0, turn)
        elif (to := self._place_of(uuid, route, record, turn)) != self._bucket:
            route = self._hand_over(uuid, to, turn)
            self._forward(uuid, record, route.epoch, to, turn)
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
                self._say(uuid, Route(self._next_epoch(uuid, turn)), turn)
            return
        if route is None or at == self._bucket:
            self._hand_over(uuid, to, turn)
            return
        turn.state.put_route(uuid, replace(route, recalled_for=to))
        recall = RecallTable(uuid, route.epoch)
        turn.step.outputs.append(Output(HANDOVERS, uuid, recall, at))

    def _hand_over(self, uuid: str, to: int, turn: Turn) -> Route:
        route = Route(self._next_epoch(uuid, turn), to)
        self._send(uuid, handed(turn.state, uuid, route.epoch), to, turn)
        self._say(uuid, route, turn)
        return route

    def _next_epoch(self, uuid: str, turn: Turn) -> int:
        route, said = turn.state.route(uuid), self._board.assigned(uuid)
        last = max(route.epoch if route else 0, said.epoch if said else 0)
        return next_epoch(last, turn.now_ms)

    def _say(self, uuid: str, route: Route, turn: Turn) -> None:
        bucket = self._bucket if route.bucket is None else route.bucket
        turn.state.put_route(uuid, route)
        said = TableAssigned(uuid, bucket, route.epoch, turn.now_ms)
        turn.step.outputs.append(Output(TOPIC, uuid, said))
        self._board.expect(uuid, bucket, turn.now_ms)

    def _send(self, uuid: str, records: Iterable[TableHanded], to: int, turn: Turn) -> None:
        turn.step.send(Output(HANDOVERS, uuid, one, to) for one in records)

    def _forward(self, uuid: str, record: Any, epoch: int, to: int, turn: Turn) -> None:
        sent = RecordForwarded(uuid, epoch, encode(record))
        turn.step.outputs.append(Output(HANDOVERS, uuid, sent, to))

    def _handed(self, record: TableHanded, turn: Turn) -> None:
        uuid = record.table_uuid
        if self._home(uuid) == self._bucket:
            self._returned(record, turn)
            return
        route = turn.state.route(uuid)
        if self._is_over(uuid, record.epoch) or (route and route.epoch > record.epoch):
            return
        if take_in(turn.state, record):
            turn.state.put_route(uuid, Route(record.epoch, is_guest=True))

    def _recalled(self, order: RecallTable, turn: Turn) -> None:
        uuid = order.table_uuid
        route = turn.state.route(uuid)
        if route is None or not route.is_guest or route.epoch != order.epoch:
            return  # it is on its way back
        turn.state.drop_route(uuid)
        self._send(uuid, handed(turn.state, uuid, order.epoch), self._home(uuid), turn)

    def _returned(self, record: TableHanded, turn: Turn) -> None:
        uuid, state = record.table_uuid, turn.state
        route = state.route(uuid)
        if route is None or route.bucket is None or route.epoch != record.epoch:
            return
        if not take_in(state, record):
            return
        if route.recalled_for is None:  # forgotten there
            self._not_assigned(uuid, turn)
            return
        waiting = state.take_waiting(uuid, route.waiting)
        state.put_route(uuid, replace(route, bucket=None, recalled_for=None, waiting=0))
        if route.recalled_for != self._bucket:
            self._hand_over(uuid, route.recalled_for, turn)
        else:
            self._say(uuid, Route(self._next_epoch(uuid, turn)), turn)
        for one in waiting:
            self._route_apart(uuid, one, turn)

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

    def _forgotten(self, uuid: str, turn: Turn) -> None:
        route = turn.state.route(uuid)
        if route is None:
            return
        if not route.is_guest:
            self._not_assigned(uuid, turn)
            return
        turn.state.drop_route(uuid)
        self._send(uuid, [TableHanded(uuid, route.epoch, ())], self._home(uuid), turn)

    def _not_assigned(self, uuid: str, turn: Turn) -> None:
        turn.state.drop_route(uuid)
        turn.step.outputs.append(Output(TOPIC, uuid, None))
