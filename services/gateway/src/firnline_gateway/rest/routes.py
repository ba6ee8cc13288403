"""Request targets: which are passed on at all, which calls change a table, and what they name.

Paths stay as the client wrote them: percent-encoding is never undone and redone, because a
namespace separator may itself be an escaped sign (`%1F` in the spec, `%2E` in the Iceberg 1.11
fixture). Names are decoded only for people and for bodies that carry names and no path.

Two readers of one path (a proxy in front of the catalog, its server, its framework) may undo
escapes a different number of times, drop parameters, or take dot segments away. What they could
read differently and no client of a catalog sends is refused; the rest is compared in one spelling.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes

from firnline_domain.base.values import Value
from firnline_domain.identity import canonical_prefix

SPEC_SEPARATOR = "%1F"  # REST spec: the default of `namespace-separator`
DECODINGS = 4  # an escape within an escape ...; whoever nests them deeper hides something
_DOTS = frozenset({".", ".."})
_NO_SIGN = re.compile("[\x00-\x20\x7f\ud800-\udfff]")
_SEPARATORS = re.compile(r"[/\\]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_SLASH = re.compile("%2f", re.IGNORECASE)


class OutsideCatalog(ValueError):
    """The target does not certainly stay below the catalog's base URI; nothing was sent."""


def check_target(target: str) -> None:
    """Return for a target that stays below the base it is appended to, and that all servers read
    alike. Raises OutsideCatalog with the reason. `target`: as in the request's first line; bytes
    that are not UTF-8 as surrogates."""
    if not target.startswith("/"):
        raise OutsideCatalog("the request's target is not a path")
    if _NO_SIGN.search(target):
        raise OutsideCatalog("the target has a space, a control character or bytes of no UTF-8")
    if "#" in target:
        raise OutsideCatalog("the request's target contains a `#`; escape the sign in a name")
    path = target.partition("?")[0]
    if "\\" in path or ";" in path:
        raise OutsideCatalog("the path has a \\ or ; in it; escape the sign in a name")
    if "%" in path:
        _check_escapes(path)
    if not _DOTS.isdisjoint(path.split("/")):
        raise OutsideCatalog("the path has . or .. for a segment")


def _check_escapes(path: str) -> None:
    if _BAD_ESCAPE.search(path):
        raise OutsideCatalog("the path has a % that escapes nothing; a % in a name is %25")
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise OutsideCatalog("the path escapes bytes that are not UTF-8") from None
    for _ in range(DECODINGS):
        inner = unquote(path)
        if "\0" in inner:
            raise OutsideCatalog("the path has an escaped NUL in it")
        # Parameters may be cut off after an escape was undone: `..%3B`.
        pieces = {piece.partition(";")[0] for piece in _SEPARATORS.split(inner)}
        if not _DOTS.isdisjoint(pieces):
            raise OutsideCatalog("the path has an escaped . or .. for a segment")
        if inner == path:
            return
        path = inner
    raise OutsideCatalog(f"the path has escapes within escapes, more than {DECODINGS} deep")


def mount_in(target: str, names: Collection[str]) -> str:
    """Return the beginning of a target, as it stands, that names one of several catalogs: `/lake`;
    "" if it names none of these."""
    path = target.partition("?")[0]
    start = len(path) - len(path.lstrip("/"))
    end = path.find("/", start)
    end = len(path) if end < 0 else end
    return target[:end] if start < end and path[start:end] in names else ""


class Segment(Value):
    """One segment of a path: `raw` as it was spelt, `word` as it compares with a word of the REST
    spec (the reference catalog takes `Tables` and `V1`, others `%74ables`)."""

    raw: str
    word: str


def split_path(path: str, slashes_too: bool = False) -> tuple[Segment, ...]:
    """Return a path's segments without the empty ones: servers fold `//` and drop a `/` at the end,
    or refuse the call. `slashes_too`: an escaped slash ends a segment as well."""
    bare = path.partition("?")[0]
    if slashes_too:
        bare = _ESCAPED_SLASH.sub("/", bare)
    return tuple(Segment(raw, _decode_word(raw)) for raw in bare.split("/") if raw)


def _decode_word(raw: str) -> str:
    for _ in range(DECODINGS):
        if "%" not in raw:
            break
        raw = unquote(raw)
    return raw.lower()


class CallKind(StrEnum):
    """The calls that can change a table."""

    COMMIT = "commit"
    CREATE = "create"
    REGISTER = "register"
    DROP = "drop"
    UNREGISTER = "unregister"
    RENAME = "rename"
    TRANSACTION = "transaction"
    OTHER = "other"


class CatalogRoute(Value):
    """A table-changing call's path, in raw segments.

    `root` is all that stands before `/namespaces`, `/tables/rename` or `/transactions`: `/v1`
    and the catalog's prefix, which may have several segments.
    """

    kind: CallKind
    root: str
    namespace: str | None = None
    table: str | None = None

    @property
    def path(self) -> str:
        """Return the path to load the call's table, in the spelling of the REST spec; "" if the
        call names none."""
        if self.namespace is None or self.table is None:
            return ""
        return TableRoute(self.root, self.namespace, self.table).path


class TableRoute(Value):
    """The path of a call about a table, in raw segments."""

    root: str
    namespace: str
    table: str

    @property
    def path(self) -> str:
        """Return the path to load the table."""
        return f"{self.root}/namespaces/{self.namespace}/tables/{self.table}"


_TABLE = ("namespaces", None, "tables", None)  # None: any segment, of which the text is a name
_ROUTES = (
    ("POST", _TABLE, CallKind.COMMIT),
    ("DELETE", _TABLE, CallKind.DROP),
    ("POST", (*_TABLE, "unregister"), CallKind.UNREGISTER),
    ("POST", ("namespaces", None, "tables"), CallKind.CREATE),
    ("POST", ("namespaces", None, "register"), CallKind.REGISTER),
    ("POST", ("tables", "rename"), CallKind.RENAME),
    ("POST", ("transactions", "commit"), CallKind.TRANSACTION),
)
# Calls that change something, but no table (REST spec of Iceberg 1.12).
_OF_NO_TABLE = (
    ("POST", (*_TABLE, "metrics")),
    ("POST", (*_TABLE, "plan")),
    ("DELETE", (*_TABLE, "plan", None)),
    ("POST", (*_TABLE, "tasks")),
    ("POST", (*_TABLE, "sign")),
    ("DELETE", ("namespaces", None)),
    ("POST", ("namespaces", None, "properties")),
    ("POST", ("namespaces", None, "views")),
    ("POST", ("namespaces", None, "views", None)),
    ("DELETE", ("namespaces", None, "views", None)),
    ("POST", ("namespaces", None, "register-view")),
)
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
Pattern = tuple[str | None, ...]


def route_of(method: str, path: str) -> CatalogRoute | None:
    """Return the route of a call that may change a table, in any spelling of its path; None for
    every other call.

    A call that may change something below a namespace in an unknown way is of kind OTHER: its
    effect is read from the tables."""
    if method in SAFE:
        return None
    of_no_table = False
    for slashes_too in (False, True) if "%2f" in path.lower() else (False,):
        found = split_path(path, slashes_too)
        for wanted, pattern, kind in _ROUTES:
            if method == wanted and (names := _below_v1(found, pattern)) is not None:
                return CatalogRoute(kind, _root_path(found, len(pattern)), *names)
        of_no_table |= any(method == m and _below_v1(found, p) is not None for m, p in _OF_NO_TABLE)
    return None if of_no_table else _other_route(split_path(path, slashes_too=True))


def _below_v1(segments: tuple[Segment, ...], pattern: Pattern) -> tuple[str, ...] | None:
    """Return the names in a path that ends with the pattern; None if it does not."""
    start = len(segments) - len(pattern)
    tail = segments[max(0, start) :]
    if start < 1 or any(
        wanted not in (None, one.word) for wanted, one in zip(pattern, tail, strict=True)
    ):
        return None
    if not any(segment.word == "v1" for segment in segments[:start]):
        return None
    return tuple(one.raw for wanted, one in zip(pattern, tail, strict=True) if wanted is None)


def _root_path(segments: tuple[Segment, ...], of_pattern: int) -> str:
    before = segments[: len(segments) - of_pattern]
    return "".join(f"/{'v1' if one.word == 'v1' else one.raw}" for one in before)


def _other_route(segments: tuple[Segment, ...]) -> CatalogRoute | None:
    words = [segment.word for segment in segments]
    if "namespaces" in words[:-1]:
        at = words.index("namespaces")
        names = [segment.raw for segment in segments[at + 1 :]]
        table = names[2] if len(names) > 2 and words[at + 2] == "tables" else None
        return CatalogRoute(
            CallKind.OTHER, _root_path(segments, len(segments) - at), names[0], table
        )
    for word in ("transactions", "tables"):
        if word in words:
            return CatalogRoute(
                CallKind.OTHER, _root_path(segments, len(segments) - words.index(word))
            )
    return None


def table_loaded(method: str, path: str) -> TableRoute | None:
    """Return the table that a call loads; None for other calls."""
    return _table_route(path, _TABLE) if method == "GET" else None


def reported_table(method: str, path: str) -> TableRoute | None:
    """Return the table that a client's report is about; None for other calls."""
    return _table_route(path, (*_TABLE, "metrics")) if method == "POST" else None


def _table_route(path: str, pattern: Pattern) -> TableRoute | None:
    found = split_path(path)
    names = _below_v1(found, pattern)
    return None if names is None else TableRoute(_root_path(found, len(pattern)), *names)


def config_base(method: str, path: str) -> str | None:
    """Return the part of the client's base URI before `/v1/config`; None for another call."""
    found = split_path(path) if method == "GET" else ()
    if [one.word for one in found[-2:]] != ["v1", "config"]:
        return None
    return "".join(f"/{one.raw}" for one in found[:-2])


def prefix_in(root: str) -> str:
    """Return the prefix of a catalog's paths, in the spelling of `TableName.prefix`: what a root
    has after its `/v1`."""
    return canonical_prefix(root.partition("/v1/")[2])


def table_names(root: str, namespace: str, table: str, separator: str) -> tuple[str, ...]:
    """Return a table's raw segments as names that compare; the first one is the prefix."""
    return (prefix_in(root), *levels_of(namespace, separator), unquote_plus(table))


def levels_of(segment: str, separator: str) -> tuple[str, ...]:
    """Split a raw namespace segment into the names of its levels.

    Clients differ: Java puts the separator in escaped (`a%2Eb`), PyIceberg 0.12 as a plain sign
    (`a.b`), and every server also takes the spec's `%1F`."""
    for mark in (SPEC_SEPARATOR, separator):
        parts = re.split(re.escape(mark), segment, flags=re.IGNORECASE)
        if len(parts) > 1:
            return tuple(map(unquote_plus, parts))
    return tuple(map(unquote_plus, segment.split(unquote(separator))))


def table_path(root: str, levels: tuple[str, ...], name: str, separator: str) -> str:
    """Return the raw path of a table that a body named."""
    namespace = separator.join(quote(level, safe="") for level in levels)
    return f"{root}/namespaces/{namespace}/tables/{quote(name, safe='')}"
