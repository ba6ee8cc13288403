"""Sign what is passed on to a catalog that wants it (AWS Signature Version 4).

A signature is of the host's name and of the body, so a caller's own would be worth nothing at the
catalog: it is taken off, and the gateway's put on (decision 0033). The catalog then sees one
identity, so the gateway itself must know its callers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.auth import CatalogIdentity
from firnline_iceberg.connection.properties import CALLERS
from multidict import CIMultiDict

from firnline_gateway.middlewares.middleware import Middleware, Parts
from firnline_gateway.proxy.bodies import Refused
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.proxy.principals import MAX_PRINCIPAL, MAX_TOKEN
from firnline_gateway.proxy.relay import authorization_of

MIN_TOKEN = 20  # characters; `openssl rand -hex 32` writes 64
UNKNOWN_CALLER = (
    "this catalog is called in the gateway's name, so the gateway serves those alone whom it knows:"
    " send `Authorization: Bearer` with a token of its firnline.callers"
)


class Callers:
    """Names by the digests of their tokens: how long a look takes says nothing of a token."""

    def __init__(self, text: str) -> None:
        """Parse a line for each caller: a name, a blank, a token. `#` begins a comment. A name may
        have two tokens, while one is replaced by the other. Raises Misconfigured."""
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


class UpstreamSigner(Middleware):
    """Refuses unknown callers, and signs as one identity."""

    def __init__(self, callers: Callers, identity: CatalogIdentity) -> None:
        self._callers = callers
        self._identity = identity

    @classmethod
    def open(cls, parts: Parts) -> AbstractAsyncContextManager[UpstreamSigner | None]:
        """Return a context with None if the catalog judges its callers itself. Raises
        Misconfigured if the list of callers is wrong."""
        upstream = parts.upstream
        connection = parts.settings.named_catalogs.get(upstream.name)
        if connection is None or not connection.signs_upstream:
            return nullcontext(None)
        signer = cls(Callers(connection.properties[CALLERS]), upstream.identity)
        upstream.sign_headers = signer.sign_headers
        return nullcontext(signer)

    async def before(self, exchange: Exchange) -> None:
        exchange.caller = self._callers.name_of(authorization_of(exchange.request))
        if exchange.caller is None:
            raise Refused(401, UNKNOWN_CALLER)
        exchange.is_signed = True

    async def sign_headers(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> CIMultiDict[str]:
        """Return the headers to send. Signs in a thread: the keys of a pod may have to be fetched.
        Raises CatalogRefused if there are none."""
        found = CIMultiDict((n, one) for n, one in headers.items() if not _is_signature(n))
        found.update(await asyncio.to_thread(self._identity.auth_headers, method, url, body))
        return found


def _is_signature(name: str) -> bool:
    return name.lower() == "authorization" or name.lower().startswith("x-amz-")


def _token_digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
