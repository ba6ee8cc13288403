"""Which of several catalogs a call is for: by the first segment of its path."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp.web import BaseRequest, StreamResponse

from firnline_gateway.handlers import Gateway
from firnline_gateway.routes import mount_in


class Gateways:
    """The handler of every call. `/archive/v1/...` is for the catalog `archive`; what names none is
    for the first one, which clients from before there were several reach so."""

    def __init__(self, catalogs: Mapping[str, Gateway], mounted: bool) -> None:
        """`mounted`: False where a first segment is no name of a catalog's, but the catalog's own
        path."""
        self.catalogs = catalogs
        self.first = next(iter(catalogs.values()))
        self._names = frozenset(catalogs) if mounted else frozenset()

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one call."""
        name = mount_in(request.raw_path, self._names).strip("/")
        return await self.catalogs.get(name, self.first)(request)
