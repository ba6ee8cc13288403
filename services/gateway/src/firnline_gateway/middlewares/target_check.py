"""Refuse calls that the catalog could understand in another way than the gateway does."""

from __future__ import annotations

from firnline_gateway.middlewares.middleware import Middleware
from firnline_gateway.proxy.bodies import Refused
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.rest.routes import OutsideCatalog, check_target

# Frameworks behind a catalog may take a method from these, and read a GET as a commit.
OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})


class TargetCheck(Middleware):
    """Refuses targets outside the catalog, and methods in headers."""

    async def before(self, exchange: Exchange) -> None:
        try:
            check_target(exchange.target)
        except OutsideCatalog as error:
            raise Refused(400, f"{error}; nothing was sent to the catalog") from None
        if not OVERRIDES.isdisjoint(map(str.lower, exchange.request.headers)):
            raise Refused(400, "a call's method is the one in its first line; nothing was sent")
