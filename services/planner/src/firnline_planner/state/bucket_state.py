"""The planner's state of one bucket: what is kept, and changes that are not final yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TypeVar

from firnline_domain.base.times import CLOCKS_DIFFER_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope
from firnline_domain.policy.clock_set_back import set_partition_back, set_table_back
from firnline_domain.records.assignments import BucketRoute
from firnline_domain.records.pauses import Pause

from firnline_planner.state.encoding import (
    CURSOR,
    PARTITION,
    PAUSE,
    ROUTE,
    SHARE,
    TABLE,
    StateHead,
    cursor_key,
    decode_head,
    group_of,
    partition_from,
    partition_key,
    partition_prefix,
    pause_from,
    pause_key,
    ref_key,
    route_from,
    route_key,
    share_from,
    table_from,
    table_key_in,
    to_bytes,
    waiting_key,
)
from firnline_planner.state.fleet_share import FleetShare
from firnline_planner.state.stores import KeyValueStore

# Values of a bucket, for tables that change often and are published a second later. More are
# memory that is in no processor cache when it is freed.
REMEMBERED = 500
MAX_SHOWN = 200
PACKED = (Table, Partition, FleetShare, Pause, BucketRoute)  # kept as `to_bytes` writes them
Value = Table | Partition | FleetShare | Pause | BucketRoute | bytes | int | None  # None = deleted
Staged = dict[bytes, Value]
C = TypeVar("C")
T = TypeVar("T")


class _Unchanged:
    """Stands for a key that was not staged."""


UNCHANGED = _Unchanged()


class BucketState:
    """Tables, partitions, pauses, routes and cursors of one bucket, and its share of what is the
    whole fleet's. Nothing is kept before `commit`.

    Values are read from bytes once and written once per commit, and the newest of them stay
    decoded: a table is mostly published a second after it has changed.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._staged: Staged = {}
        self._scopes: dict[bytes, set[bytes]] = {}  # changed partitions' keys by their prefix
        # Of each attempt that is under way: what the keys that it has staged had before.
        self._undo: list[dict[bytes, Value | _Unchanged]] = []
        self._known: OrderedDict[bytes, Table | Partition] = OrderedDict()  # the newest last
        self._packed: dict[bytes, tuple[Value, bytes]] = {}  # staged values that were measured
        self._pauses = {key: pause_from(data) for key, data in store.scan(PAUSE)}
        # Asked for with every record. Few: a table is at home as a rule.
        self._routes = {key: route_from(data) for key, data in store.scan(ROUTE)}
        self._cursors: dict[bytes, int] = {}  # those that were asked for
        self._now_ms = 0
        self._newest_ms = 0  # that a clock has shown here
        self._is_set_back = False
        kept = store.get(SHARE)
        self._share = share_from(kept) if kept else FleetShare()

    def set_clock(self, now_ms: int) -> bool:
        """Note what the time is; True if the clock was set back by more than clocks differ.

        What is read from then on is corrected (`set_partition_back`) until the time is again what
        it was.
        """
        was_set_back = now_ms < max(self._now_ms, self._newest_ms) - CLOCKS_DIFFER_MS
        is_news = was_set_back and (
            not self._is_set_back or now_ms < self._now_ms - CLOCKS_DIFFER_MS
        )
        self._is_set_back, self._now_ms = was_set_back, now_ms
        self._newest_ms = max(self._newest_ms, now_ms)
        return is_news

    def note_kept(self, at_ms: int) -> None:
        """Note when something here was kept: by a clock that may have been set back since."""
        self._newest_ms = max(self._newest_ms, at_ms)

    def table(self, table_key: str, ref: str) -> Table | None:
        """Return one ref of a table."""
        return self.table_at(ref_key(table_key, ref))

    def table_at(self, key: bytes) -> Table | None:
        """Return the table of a key from `heads`; None if it is not there."""
        table = self._read_value(key, table_from)
        assert table is None or isinstance(table, Table)
        return None if table is None else self._with_pause(table)

    def uncached_keys(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return the keys of tables and partitions that are not cached, once each."""
        return [key for key in dict.fromkeys(keys) if key not in self._known]

    def _read_value(self, key: bytes, read: Callable[[bytes], Table | Partition]) -> Value:
        if key in self._staged:
            return self._staged[key]
        if known := self._known.get(key):
            return self._set_clock_back(key, known)
        data = self._store.get(key)
        return None if data is None else self._set_clock_back(key, read(data))

    def _set_clock_back(self, key: bytes, value: Table | Partition) -> Table | Partition:
        """Return a table or partition without times in the future if the clock was set back, and
        stage the change."""
        if not self._is_set_back:
            return value
        if isinstance(value, Table):
            after: Table | Partition = set_table_back(value, self._now_ms)
        else:
            after = set_partition_back(value, self._now_ms)
        if after is not value:
            self._stage_value(key, after)
            if isinstance(after, Partition):
                self._scopes.setdefault(group_of(key), set()).add(key)
        return after

    def _with_pause(self, table: Table) -> Table:
        pause = self.pause_in_force(table.counters.table.key)
        return table if pause == table.pause else replace(table, pause=pause)

    def table_keys(self) -> list[bytes]:
        """Return the keys of every table, in no order."""
        return self._keys_with_prefix(TABLE)

    def heads(self) -> Iterator[tuple[bytes, StateHead, bool]]:
        """Yield, for each stored table, its key, its head, and whether it is paused."""
        for key, data in self._store.scan(TABLE):
            yield key, decode_head(data), self.pause_in_force(table_key_in(key)) is not None

    def put_table(self, table: Table) -> None:
        """Keep a table."""
        self._stage_value(ref_key(table.counters.table.key, table.counters.ref), table)

    def drop_table(self, table: Table) -> None:
        """Forget a table."""
        self._stage_value(ref_key(table.counters.table.key, table.counters.ref), None)
        self.put_pause(table.counters.table.key, None)

    def partition(self, table_key: str, ref: str, scope: Scope) -> Partition | None:
        """Return one partition."""
        return self._partition_at(partition_key(table_key, ref, scope))

    def _partition_at(self, key: bytes) -> Partition | None:
        partition = self._read_value(key, partition_from)
        assert partition is None or isinstance(partition, Partition)
        return partition

    def partitions(self, table_key: str, ref: str) -> Iterator[Partition]:
        """Yield every partition of a ref, without changes made meanwhile."""
        prefix = partition_prefix(table_key, ref)
        changed = {key: self._staged[key] for key in self._scopes.get(prefix, ())}
        for key, data in self._store.scan(prefix):
            if key not in changed:
                partition = self._set_clock_back(key, self._known.get(key) or partition_from(data))
                assert isinstance(partition, Partition)
                yield partition
        for _, value in sorted(changed.items(), key=itemgetter(0)):
            if isinstance(value, Partition):
                yield value

    def _keys_with_prefix(self, prefix: bytes) -> list[bytes]:
        changed = [key for key in self._staged if key.startswith(prefix)]
        return [*dict.fromkeys([*(key for key, _ in self._store.scan(prefix)), *changed])]

    def put_partition(self, table_key: str, ref: str, partition: Partition) -> None:
        """Keep a partition."""
        self._stage_partition(table_key, ref, partition.counters.scope, partition)

    def _stage_partition(
        self, table_key: str, ref: str, scope: Scope, value: Partition | None
    ) -> None:
        key = partition_key(table_key, ref, scope)
        self._stage_value(key, value)
        self._scopes.setdefault(partition_prefix(table_key, ref), set()).add(key)

    def drop_partition(self, table_key: str, ref: str, scope: Scope) -> None:
        """Forget a partition."""
        self._stage_partition(table_key, ref, scope, None)

    def dropped_tables(self) -> list[str]:
        """Return the tables that are removed once this is committed."""
        gone = (key for key, value in self._staged.items() if value is None)
        return [table_key_in(key) for key in gone if key.startswith(TABLE)]

    def _stage_value(self, key: bytes, value: Value) -> None:
        if self._undo:
            self._undo[-1].setdefault(key, self._staged.get(key, UNCHANGED))
        self._staged[key] = value

    def run_undoable(self, do: Callable[[C], T], context: C) -> T:
        """Run a function of a context. Undo what it stages if it raises, or if a staged value
        cannot be kept.

        Values that were staged before stay, so one table that fails takes no other along. Raises
        what the function raises, PoisonousRecord `state_too_large`, and what `to_bytes` raises."""
        before: dict[bytes, Value | _Unchanged] = {}
        self._undo.append(before)
        try:
            done = do(context)
            self._pack_values(before)
        except BaseException:
            self._undo.pop()
            for key, value in before.items():
                self._unstage_value(key, value)
            raise
        self._undo.pop()
        for key, value in before.items() if self._undo else ():
            self._undo[-1].setdefault(key, value)
        return done

    def _unstage_value(self, key: bytes, value: Value | _Unchanged) -> None:
        if not isinstance(value, _Unchanged):
            self._staged[key] = value
            return
        del self._staged[key]
        if key.startswith(PARTITION):
            self._scopes[group_of(key)].discard(key)

    @property
    def share(self) -> FleetShare:
        """Return the state that the bucket keeps for all of its tables together."""
        changed = self._staged.get(SHARE)
        return changed if isinstance(changed, FleetShare) else self._share

    def put_share(self, share: FleetShare) -> None:
        """Keep the bucket's share of the deployment."""
        self._stage_value(SHARE, share)

    def next_offset(self, topic: str) -> int:
        """Return the first offset of the topic that is not in the state."""
        key = cursor_key(topic)
        if key not in self._cursors:
            self._cursors[key] = int(self._store.get(key) or 0)
        staged = self._staged.get(key)
        return staged if isinstance(staged, int) else self._cursors[key]

    def advance_offset(self, topic: str, offset: int) -> None:
        """Mark the record at that offset as handled with this commit; a repeated record does not
        move the offset back."""
        if offset >= self.next_offset(topic):
            self._stage_value(cursor_key(topic), offset + 1)

    @property
    def has_read_nothing(self) -> bool:
        """True if no record is in the state."""
        return next(self._store.scan(CURSOR), None) is None

    def pause_in_force(self, table_key: str) -> Pause | None:
        """Return the pause in force for a table, known or not: the deployment's, or the table's."""
        return self.pause_of(None) or self.pause_of(table_key)

    def pause_of(self, table_key: str | None) -> Pause | None:
        """Return a table's own pause, or (None) the deployment's."""
        if not self._pauses and not self._staged:
            return None
        key = pause_key(table_key)
        if key not in self._staged:
            return self._pauses.get(key)
        staged = self._staged[key]
        return staged if isinstance(staged, Pause) else None

    def put_pause(self, table_key: str | None, pause: Pause | None) -> None:
        """Begin a pause of a table (or, None, of the deployment); None = it has ended."""
        self._stage_value(pause_key(table_key), pause)

    def route(self, table_key: str) -> BucketRoute | None:
        """Return the bucket that a table is assigned to; None = it never left its default
        bucket."""
        if not self._routes and not self._staged:
            return None
        key = route_key(table_key)
        if key in self._staged:
            staged = self._staged[key]
            return staged if isinstance(staged, BucketRoute) else None
        return self._routes.get(key)

    def put_route(self, table_key: str, route: BucketRoute) -> None:
        """Keep where a table is."""
        self._stage_value(route_key(table_key), route)

    def drop_route(self, table_key: str) -> None:
        """Remove the route of a table that is in its default bucket, or removed."""
        self._stage_value(route_key(table_key), None)

    def routes(self) -> Iterator[BucketRoute]:
        """Return all stored routes, without staged ones."""
        return iter(self._routes.values())

    def put_waiting(self, table_key: str, number: int, record: bytes) -> None:
        """Keep a record until its table is back."""
        self._stage_value(waiting_key(table_key, number), record)

    def take_waiting(self, table_key: str, count: int) -> list[bytes]:
        """Remove and return the records that wait for a table, the first one first."""
        keys = [waiting_key(table_key, number) for number in range(count)]
        staged = self._staged
        records = [staged[key] if key in staged else self._store.get(key) for key in keys]
        for key in keys:
            self._stage_value(key, None)
        return [record for record in records if isinstance(record, bytes)]

    def demand_small(self) -> None:
        """Check the size of changed values. Raises PoisonousRecord if one is larger than any that
        is kept: its transaction would fail, and with it all other records in it, permanently."""
        self._pack_values(self._staged)

    def _pack_values(self, keys: Iterable[bytes]) -> None:
        """Encode the staged values of these keys that have changed. Raises PoisonousRecord for one
        that the store cannot hold."""
        for key in keys:
            value = self._staged.get(key)
            if not isinstance(value, PACKED) or value is self._known.get(key):
                continue
            packed, _ = self._packed.get(key, (None, b""))
            if packed is value:
                continue
            data = to_bytes(value, self._now_ms)
            if len(key) + len(data) > self._store.max_value_bytes:
                name = key[:MAX_SHOWN].decode(errors="replace")
                raise PoisonousRecord("state_too_large", f"{len(data)} bytes of {name}")
            self._packed[key] = value, data

    def commit(self) -> dict[bytes, Table | None]:
        """Keep all changes since the last commit, in the order of the keys. Return the changed
        tables by key, None = dropped."""
        touched: dict[bytes, Table | None] = {}
        for key, value in sorted(self._staged.items(), key=itemgetter(0)):
            self._keep_value(key, value)
            if key.startswith(TABLE):
                touched[key] = value if isinstance(value, Table) else None
        self.discard()
        return touched

    def _keep_value(self, key: bytes, value: Value) -> None:
        """Write a value, or delete its key for None, and keep what is held in memory in step."""
        match value:
            case Table() | Partition():  # first: most are
                if self._known.get(key) is not value:
                    self._put_packed(key, value)
                self._cache_value(key, value)
            case None:
                self._known.pop(key, None)
                self._pauses.pop(key, None)
                self._routes.pop(key, None)
                if self._store.get(key) is not None:
                    self._store.delete(key)
            case int():
                self._cursors[key] = value
                self._store.put(key, str(value).encode())
            case Pause():
                self._pauses[key] = value
                self._put_packed(key, value)
            case FleetShare():
                self._share = value
                self._put_packed(key, value)
            case BucketRoute():
                self._routes[key] = value
                self._put_packed(key, value)
            case bytes():
                self._store.put(key, value)

    def _put_packed(
        self, key: bytes, value: Table | Partition | FleetShare | Pause | BucketRoute
    ) -> None:
        packed, data = self._packed.get(key, (None, b""))
        self._store.put(key, data if packed is value else to_bytes(value, self._now_ms))

    def _cache_value(self, key: bytes, value: Table | Partition) -> None:
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def discard(self) -> None:
        """Forget everything changed since the last commit."""
        self._packed.clear()
        self._staged.clear()
        self._scopes.clear()
