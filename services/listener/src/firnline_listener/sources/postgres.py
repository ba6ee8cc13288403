"""The catalog's own database: each change of a table's pointer, by PostgreSQL's logical decoding.

The slot holds what no listener has settled, in order and over restarts. The server gives it up
where it may hold no more (`max_slot_wal_keep_size`) or where a standby without it takes over. Then,
as at the first start, the whole catalog is asked about once.
"""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import psycopg2
from firnline_adapters.observability import metrics
from firnline_domain.base.values import replace
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_iceberg.storage.paths import folder_of
from psycopg2 import errors
from psycopg2.extras import LogicalReplicationConnection

from firnline_listener.port import Doorbell, Surroundings
from firnline_listener.sources import slots
from firnline_listener.sources.pgoutput import Change, Decoder, TransactionEnd
from firnline_listener.sources.pointers import POINTERS

CONNECTION = {  # a server that is gone without a word is missed within half a minute
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "firnline-listener",
}
AT_ONCE = 1_000  # doorbells
CONFIRM_S = 1.0
MEASURE_S = 30.0
PROPERTIES = {"type", "url", "catalog", "slot", "publication", "only"}
OF_RELATION = {one.relation: one for one in POINTERS}
Position = tuple[int, int]  # life of the slot, place in the log


def open_postgres(properties: Mapping[str, str], where: Surroundings) -> PostgresSource:
    """Return the source of a section. Raises Misconfigured."""
    section = f"[sources.{where.name}]"
    if unknown := sorted(properties.keys() - PROPERTIES):
        raise Misconfigured(f"{section}: {', '.join(unknown)} is unknown")
    if not properties.get("url"):
        raise Misconfigured(f"{section}: set url, as postgresql://USER:PASSWORD@HOST/DATABASE")
    return PostgresSource(properties, where)


class PostgresSource:
    """A `DoorbellSource` on one replication slot. A position is the end of a transaction."""

    def __init__(self, properties: Mapping[str, str], where: Surroundings) -> None:
        """Read the section. `only`: the catalog's name in the database, if it has several."""
        self._url = properties["url"]
        self._catalog = where.catalog_of(properties)
        own = f"firnline_{where.name}".replace("-", "_").lower()
        self._slot = properties.get("slot", own)
        self._publication = properties.get("publication", "firnline")
        self._only = properties.get("only", "")
        self._where = where
        self._stream: Any = None  # psycopg2's replication cursor
        self._decoder = Decoder()
        self._found = dict[tuple[str, ...], Doorbell]()  # in the transaction that is being read
        self._life = 0  # of the slot
        self._given = self._settled = 0  # ends of transactions
        self._next_confirm = self._next_measure = 0.0
        self._warned = False
        for reason in ("lost", "missing"):
            metrics.count("source_slots_made", 0, source=where.name, reason=reason)

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        try:
            if self._stream is None:
                return self._connect()
            found = self._read(self._where.now() + timeout_s)
            self._confirm()
            self._measure()
        except errors.UndefinedObject as error:  # the publication, when what is read was written
            self._disconnect()
            self._drop_slot()
            raise RetryLater(f"slot {self._slot} was dropped: {str(error).strip()}") from None
        except psycopg2.Error as error:
            self._disconnect()
            raise RetryLater(f"slot {self._slot}: {str(error).strip()}") from None
        return found

    def settle(self, position: Position) -> None:
        life, end = position
        if life == self._life:
            self._settled = max(self._settled, end)
            self._next_confirm = 0.0

    def close(self) -> None:
        if self._stream is not None:
            with suppress(psycopg2.Error):
                self._confirm()
        self._disconnect()

    # ---- the connection

    def _connect(self) -> list[Doorbell]:
        """Begin where the slot stands. Return the whole catalog if it is a new one."""
        self._decoder, self._found = Decoder(), {}
        kind = LogicalReplicationConnection
        cursor = psycopg2.connect(self._url, connection_factory=kind, **CONNECTION).cursor()
        self._stream = cursor
        slots.ensure_publication(cursor, self._publication)
        made = slots.ensure_slot(cursor, self._slot)
        if slots.is_unlimited(cursor) and not self._warned:
            self._warned = True
            self._where.log.warning("wal_unlimited", slot=self._slot, set="max_slot_wal_keep_size")
        quoted = self._publication.replace('"', '""')
        options = {"proto_version": "1", "publication_names": f'"{quoted}"'}
        cursor.start_replication(slot_name=self._slot, options=options)
        self._where.log.info("slot_opened", slot=self._slot, made=made or "before")
        if not made:
            return []
        metrics.count("source_slots_made", source=self._where.name, reason=made)
        self._life += 1
        self._given = self._settled = 0
        return [Doorbell(catalog=self._catalog, position=(self._life, 0))]

    def _disconnect(self) -> None:
        if self._stream is not None:
            with suppress(psycopg2.Error):
                self._stream.connection.close()
        self._stream = None

    def _drop_slot(self) -> None:
        with suppress(psycopg2.Error), closing(self._open_side()) as side:
            slots.drop_slot(side.cursor(), self._slot)

    def _open_side(self) -> Any:
        side = psycopg2.connect(self._url, **CONNECTION)
        side.autocommit = True
        return side

    # ---- the stream

    def _read(self, until: float) -> list[Doorbell]:
        """Read until there are doorbells, and what else has arrived."""
        found, rest = list[Doorbell](), 1.0
        while len(found) < AT_ONCE and rest > 0:
            rest = until - self._where.now()
            if message := self._stream.read_message():
                found += self._decode(message.payload)
            elif found:
                break
            elif rest > 0:
                select.select([self._stream], [], [], min(rest, CONFIRM_S))
        return found

    def _decode(self, payload: bytes) -> list[Doorbell]:
        """Return the doorbells of a transaction that has ended, one of each table."""
        try:
            message = self._decoder.decode(payload)
            if isinstance(message, Change):
                self._keep_tables(message)
        except Exception as error:  # of that row, whatever it holds
            metrics.count("doorbells_dropped", source=self._where.name)
            self._where.log.warning("not_decoded", slot=self._slot, why=error)
            self._found[()] = Doorbell(catalog=self._catalog)  # it may have been any table
            return []
        if not isinstance(message, TransactionEnd) or not self._found:
            return []
        before, self._given = self._given, max(self._given, message.end)
        *others, last = self._found.values()
        self._found = {}
        # Another of the same transaction does not settle the last one.
        early, late = (self._life, before), (self._life, message.end)
        return [*(replace(one, position=early) for one in others),
                replace(last, position=late)]  # fmt: skip

    def _keep_tables(self, change: Change) -> None:
        if pointers := OF_RELATION.get(change.relation):
            for row in change.rows:
                if bell := pointers.find_table(row, self._catalog, self._only):
                    folder = "" if bell.name else folder_of(bell.metadata_location)
                    self._found[(*bell.namespace, bell.name, bell.uuid, folder)] = bell

    def _confirm(self) -> None:
        """Tell the server what it need not keep: also what is not about tables, while nothing
        waits for `settle`."""
        now = self._where.now()
        if now < self._next_confirm:
            return
        done = self._stream.wal_end if self._settled >= self._given else self._settled
        self._stream.send_feedback(flush_lsn=done, force=True)
        self._next_confirm = now + CONFIRM_S

    def _measure(self) -> None:
        if self._where.now() >= self._next_measure:
            self._next_measure = self._where.now() + MEASURE_S
            with closing(self._open_side()) as side:
                held = slots.read_held_bytes(side.cursor(), self._slot)
            metrics.gauge("source_wal_held_bytes", held, source=self._where.name)
