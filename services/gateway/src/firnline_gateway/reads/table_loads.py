"""Decide which loads of tables are reads: those of clients that neither write the table nor report
their scans (PyIceberg, DuckDB and most others that are not Iceberg's Java library)."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiohttp import hdrs
from aiohttp.web import BaseRequest
from cachetools import FIFOCache

from firnline_gateway.reads.scan_counts import ScannedTable
from firnline_gateway.rest.call import Names

# A load waits so long for a commit or a report of the same client, which make it another's than a
# reader's. A statement that works longer before it commits counts as one read.
HOLD_MS = 10 * 60_000
# Some clients load a table more than once for a query: to resolve it, to plan it.
ONE_READ_MS = 10_000
# Iceberg's Java library reports its scans. What it loads without a report is mostly looked at and
# not read: Flink's sources poll each minute, Trino and Spark refresh what they keep.
ONE_READ_OF_JAVA_MS = 5 * 60_000
REPORTER_MS = 24 * 3_600_000  # a client that has reported is believed to report all it scans
CLIENT_VERSION = "X-Client-Version"
JAVA = "apache iceberg"  # what Java's client begins its version with
MAX_CLIENTS = 50_000  # clients and tables that are remembered, and loads that wait: 30 MB
MAX_REPORTERS = 10_000
MAX_PATH = 1_024  # signs; a load by a longer one is not counted
_KEY = os.urandom(32)  # of digests: no credential could be found out from one

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Client:
    """A client. `digest` is of its address, its user agent, its version and its credential, none of
    which is kept."""

    digest: bytes
    is_java: bool = False


def client_of(request: BaseRequest) -> Client:
    """Return the client of a call."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    address = str(peer[0]) if isinstance(peer, tuple) else ""
    version = request.headers.get(CLIENT_VERSION, "")
    others = (hdrs.X_FORWARDED_FOR, hdrs.USER_AGENT, hdrs.AUTHORIZATION)
    said = (address, version, *(request.headers.get(name, "") for name in others))
    text = "\0".join(said).encode(errors="surrogateescape")
    digest = hashlib.blake2b(text, digest_size=16, key=_KEY).digest()
    return Client(digest, is_java_client(request))


def is_java_client(request: BaseRequest) -> bool:
    """Return whether Iceberg's Java library has sent a call."""
    return request.headers.get(CLIENT_VERSION, "").lower().startswith(JAVA)


class Recent(Generic[T]):
    """The newest `most` keys, each with when it was seen last."""

    def __init__(self, most: int) -> None:
        self._seen = FIFOCache[T, int](most)

    def __len__(self) -> int:
        return len(self._seen)

    def note_key(self, key: T, at_ms: int) -> None:
        self._seen[key] = at_ms

    def was_seen_within(self, key: T, at_ms: int, age_ms: int) -> bool:
        """Return whether the key was seen within that time before, or since."""
        seen_ms = self._seen.get(key)
        return seen_ms is not None and at_ms - seen_ms < age_ms


@dataclass
class Load:
    """A load that may be a read. `identity`: of the table, as soon as it is known."""

    at_ms: int
    client: bytes
    place: bytes  # digest of client and table
    identity: ScannedTable | None = None


class TableLoads:
    """Remembers loads for as long as a commit or a report may still explain them."""

    def __init__(self, now_ms: Callable[[], int], most: int = MAX_CLIENTS) -> None:
        self._now_ms = now_ms
        self._most = most
        self._waiting: deque[Load] = deque()
        self._reads: Recent[bytes] = Recent(most)  # begun, by client and table
        self._commits: Recent[bytes] = Recent(most)  # by client and table; by client alone
        self._reporters: Recent[bytes] = Recent(MAX_REPORTERS)

    def __len__(self) -> int:
        """Return the number of entries kept."""
        others = len(self._reads) + len(self._commits) + len(self._reporters)
        return len(self._waiting) + others

    def note_load(self, client: Client, names: Names) -> Load | None:
        """Return a load that may be a read. Return None if it belongs to an earlier one, its client
        writes the table or reports its scans, or there is no room."""
        at_ms, place = self._now_ms(), _client_table_digest(client, names)
        one_read_ms = ONE_READ_OF_JAVA_MS if client.is_java else ONE_READ_MS
        if (
            self._reads.was_seen_within(place, at_ms, one_read_ms)
            or len(self._waiting) >= self._most
        ):
            return None
        load = Load(at_ms, client.digest, place)
        if self._is_anothers(load, at_ms):
            return None
        self._reads.note_key(place, at_ms)
        self._waiting.append(load)
        return load

    def note_commit(self, client: Client, names: Names | None) -> None:
        """Note that a client has written a table; None = several, in one transaction."""
        place = client.digest if names is None else _client_table_digest(client, names)
        self._commits.note_key(place, self._now_ms())

    def note_report(self, client: Client) -> None:
        """Note that a client has reported a scan."""
        self._reporters.note_key(client.digest, self._now_ms())

    def take_reads(self) -> Iterator[ScannedTable | None]:
        """Yield the tables of the loads whose time has passed and that were reads; None = the table
        could not be identified."""
        until_ms = self._now_ms() - HOLD_MS
        while self._waiting and self._waiting[0].at_ms <= until_ms:
            load = self._waiting.popleft()
            if not self._is_anothers(load, load.at_ms):
                yield load.identity

    def _is_anothers(self, load: Load, at_ms: int) -> bool:
        """Return True for a load by a writer, or by a client whose reports are counted instead."""
        wrote = (load.place, load.client)
        return self._reporters.was_seen_within(load.client, at_ms, REPORTER_MS) or any(
            self._commits.was_seen_within(one, at_ms, HOLD_MS) for one in wrote
        )


def _client_table_digest(client: Client, names: Names) -> bytes:
    text = "\0".join(names).encode(errors="surrogateescape")
    return hashlib.blake2b(client.digest + text, digest_size=16).digest()
