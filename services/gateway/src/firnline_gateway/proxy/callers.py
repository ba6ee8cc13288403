"""Whom a gateway serves that signs what it passes on: those alone that have a token of ours.

The catalog sees one identity then, the gateway's, so nobody but the gateway can tell callers apart.
"""

from __future__ import annotations

import hashlib

from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.properties import CALLERS

from firnline_gateway.proxy.principals import MAX_PRINCIPAL, MAX_TOKEN

MIN_TOKEN = 20  # characters; `openssl rand -hex 32` writes 64


class Callers:
    """Names by the digests of their tokens: how long a look takes says nothing of a token."""

    def __init__(self, text: str) -> None:
        """A line for each caller: a name, a blank, a token. `#` begins a comment. A name may have
        two tokens, while one is replaced by the other. Raises Misconfigured."""
        self._names: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if why := self._find_problem(words):
                raise Misconfigured(f"{CALLERS}, line {number}: {why}")
            self._names[_token_digest(words[1])] = words[0]
        if not self._names:
            raise Misconfigured(f"{CALLERS}: the list is empty, so every call would be refused")

    def name_of(self, authorization: str | None) -> str | None:
        """Return the name of the caller with this `Authorization`; None if it is unknown."""
        scheme, _, token = (authorization or "").partition(" ")
        return self._names.get(_token_digest(token.strip())) if scheme.lower() == "bearer" else None

    def _find_problem(self, words: list[str]) -> str | None:
        """Return what is wrong with an entry, without its token; None if nothing is."""
        if len(words) != 2:
            return "write a name, a blank and a token"
        name, token = words
        if not name.isprintable() or len(name) > MAX_PRINCIPAL:
            return f"a name has {MAX_PRINCIPAL} printable characters at most"
        if not MIN_TOKEN <= len(token) < MAX_TOKEN or not token.isascii():
            return (
                f"the token of {name} is too short or not ASCII: `openssl rand -hex 32` makes one"
            )
        if _token_digest(token) in self._names:
            return f"the token of {name} is also that of {self._names[_token_digest(token)]}"
        return None


def _token_digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
