"""Request targets: which are passed on at all, and what their segments say.

Two readers of one path (a proxy in front of the catalog, its server, its framework) may undo
escapes a different number of times, drop parameters, or take dot segments away. What they could
read differently and no client of a catalog sends is refused; the rest is compared in one spelling.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_to_bytes

from firnline_domain.values import Value

DECODINGS = 4  # an escape within an escape ...; whoever nests them deeper hides something
_DOTS = frozenset({".", ".."})
_NO_SIGN = re.compile("[\x00-\x20\x7f\ud800-\udfff]")
_SEPARATORS = re.compile(r"[/\\]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_SLASH = re.compile("%2f", re.IGNORECASE)


class OutsideCatalog(ValueError):
    """The target does not certainly stay below the catalog's base URI; nothing was sent."""


def check(target: str) -> None:
    """Return for a target that stays below whatever base it is put behind, and that all readers
    read alike. Raises OutsideCatalog with the reason.

    `target`: as it stands in the request's first line; bytes that are not UTF-8 as surrogates.
    """
    if not target.startswith("/"):
        raise OutsideCatalog("the request's target is not a path")
    if _NO_SIGN.search(target):
        raise OutsideCatalog("the target has a space, a control character or bytes of no UTF-8")
    if "#" in target:
        raise OutsideCatalog("the request's target has a fragment (#); escape the sign in a name")
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


class Segment(Value):
    """One segment of a path: `raw` as it was spelt, `word` as it compares with a word of the REST
    spec (the reference catalog takes `Tables` and `V1`, others `%74ables`)."""

    raw: str
    word: str


def segments(path: str, slashes_too: bool = False) -> tuple[Segment, ...]:
    """A path's segments without the empty ones: servers fold `//` and drop a `/` at the end, or
    refuse the call. `slashes_too`: an escaped slash ends a segment as well."""
    bare = path.partition("?")[0]
    if slashes_too:
        bare = _ESCAPED_SLASH.sub("/", bare)
    return tuple(Segment(raw, _word(raw)) for raw in bare.split("/") if raw)


def _word(raw: str) -> str:
    for _ in range(DECODINGS):
        if "%" not in raw:
            break
        raw = unquote(raw)
    return raw.lower()
