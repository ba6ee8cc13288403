"""Commits of writers that the catalog refused because another commit came first (409), by table
and client since they were sent last. Most clients try again, so a refusal is no failure yet."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from aiohttp import hdrs
from aiohttp.web import BaseRequest
from firnline_domain.identity import TableName
from firnline_domain.records.events import CommitsRefused, RefusedClient

from firnline_gateway.proxy.principals import MAX_TOKEN, principal_of
from firnline_gateway.proxy.relay import header

MAX_TABLES = 10_000  # 10 MB of them
MAX_CLIENTS = 8  # of a table that are named; the refusals of others are counted without a name
MAX_NAME = 64  # characters of a client's name


def client_name(request: BaseRequest) -> str:
    """Whom people would recognize: the principal of the token, or the user agent."""
    token = header(request.raw_headers, hdrs.AUTHORIZATION, MAX_TOKEN)
    agent = header(request.raw_headers, hdrs.USER_AGENT, MAX_NAME)
    return (principal_of(token) or agent or "unnamed")[:MAX_NAME]


@dataclass
class _Refused:
    table: TableName
    commits: int = 0
    by_client: Counter[str] = field(default_factory=Counter)

    def add(self, client: str) -> None:
        self.commits += 1
        if client in self.by_client or len(self.by_client) < MAX_CLIENTS:
            self.by_client[client] += 1


class RefusedCommits:
    """Of at most `most` tables: refusals of others are not counted until these are sent."""

    def __init__(self, now_ms: int, most: int = MAX_TABLES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._from_ms = now_ms
        self._refused: dict[str, _Refused] = {}  # by the table's key

    def add(self, table: TableName, client: str) -> bool:
        """Count a refusal; False where there is no room for the table."""
        with self._lock:
            known = self._refused.get(table.key)
            if known is None:
                if len(self._refused) >= self._most:
                    return False
                known = self._refused[table.key] = _Refused(table)
            known.table = table  # it may have been renamed
            known.add(client)
            return True

    def take(self, most: int, now_ms: int) -> list[CommitsRefused]:
        """Those of so many tables, which are not counted any more; none = all are taken."""
        with self._lock:
            from_ms, self._from_ms = min(self._from_ms, now_ms), now_ms
            taken = [self._refused.pop(key) for key in list(islice(self._refused, most))]
        return [
            CommitsRefused(
                table=one.table,
                from_ms=from_ms,
                to_ms=now_ms,
                commits=one.commits,
                clients=tuple(RefusedClient(*each) for each in one.by_client.most_common()),
            )
            for one in taken
        ]
