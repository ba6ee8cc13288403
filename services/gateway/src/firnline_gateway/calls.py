"""Which HTTP calls change a table, and what their paths name (REST spec, paths under `/v1`).

Paths stay as the client wrote them: percent-encoding is never undone and redone, because a
namespace separator may itself be an escaped sign (`%1F` in the spec, `%2E` in the Iceberg 1.11
fixture). Names are decoded only for people and for bodies that carry names and no path.
"""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import quote, unquote, unquote_plus

from firnline_domain.values import Value

SPEC_SEPARATOR = "%1F"  # REST spec: the default of `namespace-separator`


class CallKind(StrEnum):
    """The calls that can change a table."""

    COMMIT = "commit"
    CREATE = "create"
    REGISTER = "register"
    DROP = "drop"
    UNREGISTER = "unregister"
    RENAME = "rename"
    TRANSACTION = "transaction"


class Route(Value):
    """A table-changing call's path, in raw segments.

    `root` is all that stands before `/namespaces`, `/tables/rename` or `/transactions`: `/v1`
    and the catalog's prefix, which may have several segments.
    """

    kind: CallKind
    root: str
    namespace: str | None = None
    table: str | None = None


class TableRoute(Value):
    """The path of a call about a table, in raw segments."""

    root: str
    namespace: str
    table: str

    @property
    def path(self) -> str:
        """Where the table itself is read."""
        return f"{self.root}/namespaces/{self.namespace}/tables/{self.table}"

    def names(self, separator: str) -> tuple[str, ...]:
        """Root, levels and name of the table, whoever spelt them."""
        return table_names(self.root, self.namespace, self.table, separator)


class Call(Value):
    """A table-changing call as the gateway remembers it; never its headers' secrets.

    `body` is decoded (no content encoding). `known_uuid` is the table's uuid as it was read
    before a drop, which names none. `separator` is the catalog's at that moment, still escaped.
    """

    call_id: str
    method: str
    path: str
    body: bytes
    received_ms: int
    separator: str = SPEC_SEPARATOR
    user_agent: str | None = None
    idempotency_key: str | None = None
    known_uuid: str | None = None


_ROOT = r"(?P<root>.*?/v1(?:/.+?)?)"
_TABLE = r"/namespaces/(?P<namespace>[^/]+)/tables/(?P<table>[^/]+)"
_ROUTES = tuple(
    (method, re.compile(_ROOT + pattern), kind)
    for method, pattern, kind in (
        ("POST", _TABLE, CallKind.COMMIT),
        ("DELETE", _TABLE, CallKind.DROP),
        ("POST", _TABLE + "/unregister", CallKind.UNREGISTER),
        ("POST", r"/namespaces/(?P<namespace>[^/]+)/tables", CallKind.CREATE),
        ("POST", r"/namespaces/(?P<namespace>[^/]+)/register", CallKind.REGISTER),
        ("POST", "/tables/rename", CallKind.RENAME),
        ("POST", "/transactions/commit", CallKind.TRANSACTION),
    )
)
_READ = re.compile(_ROOT + _TABLE)
_REPORT = re.compile(_ROOT + _TABLE + "/metrics")
_CONFIG = re.compile(r"(?P<base>.*?)/v1/config")


def route_of(method: str, path: str) -> Route | None:
    """The route of a call that may change a table; None for every other call."""
    bare = path.partition("?")[0]
    for wanted, pattern, kind in _ROUTES:
        if method == wanted and (match := pattern.fullmatch(bare)):
            found = match.groupdict()
            return Route(kind, found["root"], found.get("namespace"), found.get("table"))
    return None


def table_read(method: str, path: str, separator: str) -> tuple[str, ...] | None:
    """Root, levels and name of the table that a call loads, whoever spelt them; None for others."""
    match = _READ.fullmatch(path.partition("?")[0])
    if method != "GET" or match is None:
        return None
    return table_names(match["root"], match["namespace"], match["table"], separator)


def reported_table(method: str, path: str) -> TableRoute | None:
    """The table about which a client reports what it did there; None for other calls."""
    match = _REPORT.fullmatch(path.partition("?")[0])
    return TableRoute(**match.groupdict()) if match and method == "POST" else None


def table_names(root: str, namespace: str, table: str, separator: str) -> tuple[str, ...]:
    """A table's raw segments as names that compare."""
    return (root, *levels_of(namespace, separator), unquote_plus(table))


def config_base(method: str, path: str) -> str | None:
    """What the client's base URI has before `/v1/config`; None if that is not what it calls."""
    match = _CONFIG.fullmatch(path.partition("?")[0])
    return match["base"] if match and method == "GET" else None


def levels_of(segment: str, separator: str) -> tuple[str, ...]:
    """Names of the levels in a raw namespace segment.

    Clients differ: Java puts the separator in escaped (`a%2Eb`), PyIceberg 0.12 as a plain sign
    (`a.b`), and every server also takes the spec's `%1F`.
    """
    for mark in (SPEC_SEPARATOR, separator):
        parts = re.split(re.escape(mark), segment, flags=re.IGNORECASE)
        if len(parts) > 1:
            return tuple(map(unquote_plus, parts))
    return tuple(map(unquote_plus, segment.split(unquote(separator))))


def table_path(root: str, levels: tuple[str, ...], name: str, separator: str) -> str:
    """The raw path of a table that a body named."""
    namespace = separator.join(quote(level, safe="") for level in levels)
    return f"{root}/namespaces/{namespace}/tables/{quote(name, safe='')}"
