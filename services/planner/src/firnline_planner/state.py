"""The planner's state of one bucket, and changes of it that are not final yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from firnline_domain.assignments import Route
from firnline_domain.fleet_share import FleetShare
from firnline_domain.holds import Pause
from firnline_domain.identity import Scope
from firnline_domain.progress import Partition, Table
from firnline_domain.values import replace

from firnline_planner.pairs import Pairs
from firnline_planner.values import (
    CURSOR,
    PAUSE,
    ROUTE,
    SHARE,
    TABLE,
    Head,
    cursor_key,
    head_of,
    partition_from,
    partition_key,
    partition_prefix,
    pause_from,
    pause_key,
    pause_to_bytes,
    route_from,
    route_key,
    share_from,
    table_from,
    table_key,
    table_uuid,
    to_bytes,
    waiting_key,
)

# Values of a bucket, for tables that change often and for what is shown a second later. More are
# memory that is in no cache when it is let go of.
REMEMBERED = 500


@dataclass(frozen=True)
class Switch:
    """A pause as it stands in the state: pulled, or let go."""

    pause: Pause | None


Value = Table | Partition | FleetShare | Switch | Route | bytes | int | None  # None = deleted


@dataclass(frozen=True)
class Mark:
    """Changes as they were at one moment."""

    changed: dict[bytes, Value]
    scopes: dict[bytes, set[bytes]]


class State:
    """Tables, partitions, switches and cursors of one bucket, and its share of what is the whole
    fleet's. Nothing is kept before `commit`.

    Values are read from bytes once and written once per commit, and the newest of them stay
    readable: a table is mostly shown a second after it has changed.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._changed: dict[bytes, Value] = {}
        self._scopes: dict[bytes, set[bytes]] = {}  # changed partitions' keys by their prefix
        self._known: OrderedDict[bytes, Table | Partition] = OrderedDict()  # the newest last
        self._pauses = {key: pause_from(data) for key, data in pairs.scan(PAUSE)}
        self._cursors: dict[bytes, int] = {}
        kept = pairs.get(SHARE)
        self._share = share_from(kept) if kept else FleetShare()

    def table(self, uuid: str, ref: str) -> Table | None:
        """One ref of a table."""
        return self.table_at(table_key(uuid, ref))

    def table_at(self, key: bytes) -> Table | None:
        """The table of a key as `heads` gave it."""
        table = self._value(key, table_from)
        assert table is None or isinstance(table, Table)
        return None if table is None else self._paused(table)

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        """Those that are not of remembered tables or partitions, once each."""
        return [key for key in dict.fromkeys(keys) if key not in self._known]

    def _value(self, key: bytes, read: Callable[[bytes], Table | Partition]) -> Value:
        if key in self._changed:
            return self._changed[key]
        if known := self._known.get(key):
            return known
        data = self._pairs.get(key)
        return None if data is None else read(data)

    def _paused(self, table: Table) -> Table:
        pause = self.pause(table.counters.table.uuid)
        return table if pause == table.pause else replace(table, pause=pause)

    def pause(self, uuid: str) -> Pause | None:
        """What holds for a table, whether or not it is known: the fleet's switch, or its own."""
        return self._switch(None) or self._switch(uuid)

    def _switch(self, uuid: str | None) -> Pause | None:
        if not self._pauses and not self._changed:
            return None
        key = pause_key(uuid)
        if key not in self._changed:
            return self._pauses.get(key)
        changed = self._changed[key]
        return changed.pause if isinstance(changed, Switch) else None

    def put_pause(self, uuid: str | None, pause: Pause | None) -> None:
        """Pull a table's switch (or, None, the fleet's), or let go of it.

        Never deleted: the fleet's key is in every partition, and Faust deletes a key where it has
        seen it last (its index knows one partition of a key).
        """
        self._changed[pause_key(uuid)] = Switch(pause)

    def tables(self) -> Iterator[tuple[bytes, Table]]:
        """Every table with its key, in no order."""
        for key in self._keys(TABLE):
            if table := self.table_at(key):
                yield key, table

    def heads(self) -> Iterator[tuple[bytes, Head, bool]]:
        """What to follow of every table that is kept, by key, and whether it is paused."""
        for key, data in self._pairs.scan(TABLE):
            yield key, head_of(data), self.pause(table_uuid(key)) is not None

    def put_table(self, table: Table) -> None:
        """Keep a table."""
        self._changed[table_key(table.counters.table.uuid, table.counters.ref)] = table

    def drop_table(self, table: Table) -> None:
        """Forget a table."""
        self._changed[table_key(table.counters.table.uuid, table.counters.ref)] = None
        self._changed[pause_key(table.counters.table.uuid)] = None

    def partition(self, uuid: str, ref: str, scope: Scope) -> Partition | None:
        """One partition."""
        return self._partition_at(partition_key(uuid, ref, scope))

    def _partition_at(self, key: bytes) -> Partition | None:
        found = self._value(key, partition_from)
        assert found is None or isinstance(found, Partition)
        return found

    def partitions(self, uuid: str, ref: str) -> Iterator[Partition]:
        """Every partition of a ref; changes made meanwhile are not seen."""
        prefix = partition_prefix(uuid, ref)
        changed = {key: self._changed[key] for key in self._scopes.get(prefix, ())}
        for key, data in self._pairs.scan(prefix):
            if key not in changed:
                found = self._known.get(key) or partition_from(data)
                assert isinstance(found, Partition)
                yield found
        for _, one in sorted(changed.items(), key=itemgetter(0)):
            if isinstance(one, Partition):
                yield one

    def _keys(self, prefix: bytes) -> list[bytes]:
        changed = [key for key in self._changed if key.startswith(prefix)]
        return [*dict.fromkeys([*(key for key, _ in self._pairs.scan(prefix)), *changed])]

    def put_partition(self, uuid: str, ref: str, partition: Partition) -> None:
        """Keep a partition."""
        self._change(uuid, ref, partition.counters.scope, partition)

    def _change(self, uuid: str, ref: str, scope: Scope, value: Partition | None) -> None:
        key = partition_key(uuid, ref, scope)
        self._changed[key] = value
        self._scopes.setdefault(partition_prefix(uuid, ref), set()).add(key)

    def drop_partition(self, uuid: str, ref: str, scope: Scope) -> None:
        """Forget a partition."""
        self._change(uuid, ref, scope, None)

    def switch(self, uuid: str) -> Pause | None:
        """A table's own pause, whatever holds for the fleet."""
        return self._switch(uuid)

    def forget_switch(self, uuid: str) -> None:
        """Say nothing of a table's own pause any more."""
        self._changed[pause_key(uuid)] = None

    def route(self, uuid: str) -> Route | None:
        """Where a table is; None = where it always was, at home."""
        key = route_key(uuid)
        if key in self._changed:
            changed = self._changed[key]
            return changed if isinstance(changed, Route) else None
        data = self._pairs.get(key)
        return None if data is None else route_from(data)

    def put_route(self, uuid: str, route: Route) -> None:
        """Keep where a table is."""
        self._changed[route_key(uuid)] = route

    def drop_route(self, uuid: str) -> None:
        """A table is at home, or no more."""
        self._changed[route_key(uuid)] = None

    def routes(self) -> Iterator[Route]:
        """All that are kept."""
        return (route_from(data) for _, data in self._pairs.scan(ROUTE))

    def put_waiting(self, uuid: str, number: int, record: bytes) -> None:
        """Keep a record until its table is back."""
        self._changed[waiting_key(uuid, number)] = record

    def take_waiting(self, uuid: str, count: int) -> list[bytes]:
        """The records kept so, the first one first; they are no longer kept."""
        keys = [waiting_key(uuid, number) for number in range(count)]
        found = [self._changed.get(key) or self._pairs.get(key) for key in keys]
        self._changed.update(dict.fromkeys(keys))
        return [one for one in found if isinstance(one, bytes)]

    def dropped(self) -> list[str]:
        """Tables that are not kept any more, once this is committed."""
        gone = (key for key, value in self._changed.items() if value is None)
        return [table_uuid(key) for key in gone if key.startswith(TABLE)]

    def mark(self) -> Mark:
        """What was changed so far, to go `back_to`."""
        return Mark(dict(self._changed), {key: set(one) for key, one in self._scopes.items()})

    def back_to(self, mark: Mark) -> None:
        """Forget what was changed since."""
        self._changed, self._scopes = dict(mark.changed), mark.scopes

    @property
    def share(self) -> FleetShare:
        """What the bucket keeps for all of its tables together."""
        changed = self._changed.get(SHARE)
        return changed if isinstance(changed, FleetShare) else self._share

    def put_share(self, share: FleetShare) -> None:
        """Keep it."""
        self._changed[SHARE] = share

    @property
    def is_new(self) -> bool:
        """True if no record is in the state."""
        return next(self._pairs.scan(CURSOR), None) is None

    def cursor(self, topic: str) -> int:
        """The offset after the last record of the topic that is in the state."""
        key = cursor_key(topic)
        if key not in self._cursors:
            self._cursors[key] = int(self._pairs.get(key) or 0)
        changed = self._changed.get(key)
        return changed if isinstance(changed, int) else self._cursors[key]

    def put_cursor(self, topic: str, offset: int) -> None:
        """A record is in the state with this commit; a repeated one moves nothing back."""
        if offset >= self.cursor(topic):
            self._changed[cursor_key(topic)] = offset + 1

    def commit(self) -> dict[bytes, Table | None]:
        """Keep everything changed since, in the order of the keys; the tables among it by key,
        None = dropped."""
        touched: dict[bytes, Table | None] = {}
        for key, value in sorted(self._changed.items(), key=itemgetter(0)):
            self._keep(key, value)
            if key.startswith(TABLE):
                touched[key] = value if isinstance(value, Table) else None
        self.discard()
        return touched

    def _keep(self, key: bytes, value: Value) -> None:
        match value:
            case Table() | Partition():  # first: most are
                if self._known.get(key) is not value:
                    self._pairs.put(key, to_bytes(value))
                self._remember(key, value)
            case None:
                self._known.pop(key, None)
                self._pauses.pop(key, None)
                if self._pairs.get(key) is not None:
                    self._pairs.delete(key)
            case int():
                self._cursors[key] = value
                self._pairs.put(key, str(value).encode())
            case Switch():
                self._pauses[key] = value.pause
                self._pairs.put(key, pause_to_bytes(value.pause))
            case FleetShare():
                self._share = value
                self._pairs.put(key, to_bytes(value))
            case Route():
                self._pairs.put(key, to_bytes(value))
            case bytes():
                self._pairs.put(key, value)

    def _remember(self, key: bytes, value: Table | Partition) -> None:
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def discard(self) -> None:
        """Forget everything changed since the last commit."""
        self._changed.clear()
        self._scopes.clear()
