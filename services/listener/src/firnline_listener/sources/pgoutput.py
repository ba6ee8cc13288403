"""Decode `pgoutput`, protocol version 1: the messages that PostgreSQL's own logical decoding sends.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

Row = dict[str, str | None]
"""Column -> text. Columns whose value the server did not send (TOAST, unchanged) are missing."""


class NotDecoded(ValueError):
    """A message is not of this protocol, or names a relation that was never described."""


@dataclass(frozen=True)
class Change:
    """A changed row of one relation. `rows`: the row as it is now, and the key that it had."""

    relation: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class TransactionEnd:
    """The end of a transaction, and the position behind it."""

    end: int


@dataclass
class Decoder:
    """The messages of one connection, in their order: a relation is described once on each."""

    _relations: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def decode(self, message: bytes) -> Change | TransactionEnd | None:
        """Return a change or a commit; None for other messages. Raises NotDecoded."""
        try:
            return self._decode_fields(message[:1], _Fields(message))
        except (struct.error, LookupError, ValueError) as error:
            raise NotDecoded(f"message {message[:1]!r}: {error!r}") from None

    def _decode_fields(self, kind: bytes, fields: _Fields) -> Change | TransactionEnd | None:
        if kind == b"C":
            _flags, _start, end = fields.unpack("!Bqq")
            return TransactionEnd(end)
        if kind == b"R":
            (number,) = fields.unpack("!I")
            _schema, name = fields.text(), fields.text()
            _identity, columns = fields.unpack("!BH")
            self._relations[number] = name, tuple(fields.column() for _ in range(columns))
        elif kind in (b"I", b"U", b"D"):
            name, known = self._relations[fields.unpack("!I")[0]]
            return Change(name, tuple(fields.rows(known)))
        return None


@dataclass
class _Fields:
    """The fields of one message, read from the left."""

    message: bytes
    at: int = 1

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self.message, self.at)
        self.at += struct.calcsize(form)
        return found

    def text(self) -> str:
        end = self.message.index(b"\0", self.at)
        found, self.at = self.message[self.at : end].decode(), end + 1
        return found

    def column(self) -> str:
        self.unpack("!B")
        name = self.text()
        self.unpack("!Ii")
        return name

    def rows(self, columns: tuple[str, ...]) -> Iterator[Row]:
        """Yield the tuples: a key or an old row (`K`, `O`) before the new one (`N`)."""
        while self.at < len(self.message):
            self.unpack("!B")
            yield self._row(columns)

    def _row(self, columns: tuple[str, ...]) -> Row:
        row = Row()
        (count,) = self.unpack("!H")
        for name in columns[:count]:
            kind = chr(self.unpack("!B")[0])
            if kind == "n":
                row[name] = None
            elif kind == "t":
                (size,) = self.unpack("!I")
                row[name] = self.message[self.at : self.at + size].decode()
                self.at += size
            elif kind != "u":
                raise KeyError(kind)
        return row
