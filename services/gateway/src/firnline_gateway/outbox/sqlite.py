"""The durable outbox: one SQLite file, written ahead and synced at every transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firnline_gateway.outbox.outbox import Outgoing, QueuedRecord
from firnline_gateway.rest.call import Call

_CALL_FIELDS = Call.__struct_fields__
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS calls (doubtful INTEGER NOT NULL, {", ".join(_CALL_FIELDS)},
    PRIMARY KEY (call_id));
CREATE TABLE IF NOT EXISTS records (position INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, accepted_ms INTEGER NOT NULL,
    trace TEXT NOT NULL);
UPDATE calls SET doubtful = 1;
"""
_PUT = (
    f"INSERT OR REPLACE INTO calls (doubtful, {', '.join(_CALL_FIELDS)}) "
    f"VALUES ({', '.join('?' * (len(_CALL_FIELDS) + 1))})"
)


class SqliteOutbox:
    """SQLite form of `firnline_gateway.outbox.outbox.Outbox`. The first transaction opens the file,
    in the thread that runs it, and again after each failure: a disk that works again is used
    again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the calls of the block in one transaction: one write, one fsync."""
        connection = self._connection or self._connect()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException:
            self.close()  # rolls back
            raise

    def _connect(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)  # bodies of calls name what people call their data
        connection = sqlite3.connect(self._file, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        """Close the file; an unfinished transaction is lost."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._connection is not None, "only inside a transaction"
        return self._connection

    def open_call(self, call: Call) -> None:
        self._db.execute(_PUT, (0, *_call_row(call)))

    def holds(self, call_id: str) -> bool:
        found = self._db.execute("SELECT 1 FROM calls WHERE call_id = ?", (call_id,))
        return found.fetchone() is not None

    def settle_call(self, call_id: str, records: Sequence[Outgoing], now_ms: int) -> None:
        self._db.execute("DELETE FROM calls WHERE call_id = ?", (call_id,))
        self._db.executemany(
            "INSERT INTO records (topic, key, payload, accepted_ms, trace) VALUES (?, ?, ?, ?, ?)",
            [(one.topic, one.key, one.payload, now_ms, one.trace) for one in records],
        )

    def doubt_call(self, call: Call) -> None:
        self._db.execute(_PUT, (1, *_call_row(call)))

    def doubtful_calls(self) -> list[Call]:
        columns = ", ".join(_CALL_FIELDS)
        query = f"SELECT {columns} FROM calls WHERE doubtful = 1 ORDER BY received_ms"
        return [Call(*row) for row in self._db.execute(query)]

    def read_waiting(self, limit: int) -> list[QueuedRecord]:
        # As bytes, whatever they are: a text that is none would fail the whole query.
        query = (
            "SELECT position, topic, CAST(key AS BLOB), CAST(payload AS BLOB), accepted_ms, "
            "CAST(trace AS BLOB) FROM records ORDER BY position LIMIT ?"
        )
        return [
            QueuedRecord(
                position,
                Outgoing(_to_text(key), payload, topic, _to_text(trace)),
                accepted_ms,
            )
            for position, topic, key, payload, accepted_ms, trace in self._db.execute(
                query, (limit,)
            )
        ]

    def remove_sent(self, positions: Sequence[int]) -> None:
        rows = [(position,) for position in positions]
        self._db.executemany("DELETE FROM records WHERE position = ?", rows)

    def depth(self) -> tuple[int, int | None]:
        count, oldest = self._db.execute(
            "SELECT count(*), min(accepted_ms) FROM records"
        ).fetchone()
        return count, oldest


def _to_text(stored: bytes) -> str:
    return stored.decode(errors="replace")


def _call_row(call: Call) -> tuple[object, ...]:
    return tuple(getattr(call, name) for name in _CALL_FIELDS)
