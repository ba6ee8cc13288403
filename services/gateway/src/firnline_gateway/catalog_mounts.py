"""Choose the catalog of a call by the first segment of its path, and reject callers that are not
allowed where the gateway signs the calls."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp.web import BaseRequest, StreamResponse
from firnline_adapters.observability import metrics

from firnline_gateway.handlers import Gateway
from firnline_gateway.proxy.bodies import BodyTooLong, NoRoom
from firnline_gateway.proxy.callers import Callers
from firnline_gateway.proxy.relay import authorization_of, refusal_response
from firnline_gateway.rest.routes import mount_in

UNKNOWN_CALLER = (
    "this catalog is called in the gateway's name, so the gateway serves those alone whom it knows:"
    " send `Authorization: Bearer` with a token of its firnline.callers"
)


class Gateways:
    """The handler of every call. `/archive/v1/...` is for the catalog `archive`; what names none is
    for the first one, which clients from before there were several reach so."""

    def __init__(
        self, catalogs: Mapping[str, Gateway], mounted: bool, callers: Mapping[str, Callers]
    ) -> None:
        """`mounted`: False where a first segment is no name of a catalog's, but the catalog's own
        path. `callers`: those of each catalog to which calls are signed."""
        self.catalogs = catalogs
        self._callers = callers
        self._first = next(iter(catalogs))
        self._names = frozenset(catalogs) if mounted else frozenset()

    @property
    def root_gateway(self) -> Gateway:
        """Return the gateway that is also mounted at the root."""
        return self.catalogs[self._first]

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one call."""
        named = mount_in(request.raw_path, self._names).strip("/")
        name = named if named in self.catalogs else self._first
        callers = self._callers.get(name)
        if callers is not None and callers.name_of(authorization_of(request)) is None:
            metrics.count("gateway_calls", status="401")
            return refusal_response(401, UNKNOWN_CALLER)
        try:
            return await self.catalogs[name](request)
        except BodyTooLong as error:
            return _refuse(413, error)
        except NoRoom as error:
            return _refuse(503, error)


def _refuse(status: int, error: Exception) -> StreamResponse:
    metrics.count("gateway_calls", status=str(status))
    return refusal_response(status, f"{error}; nothing was sent to the catalog")
