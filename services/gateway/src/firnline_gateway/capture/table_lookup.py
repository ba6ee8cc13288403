"""Search the tables below a namespace for the one that a call changed without naming it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from firnline_iceberg.table.metadata_json import Metadata

from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.rest.outcomes import TablePlace
from firnline_gateway.rest.routes import table_path

MAX_LEVELS = 32  # of nested namespaces
MAX_PAGES = 10_000  # of one listing: ten million names


class TableSearch:
    """Reads what a catalog lists, page by page, with Firnline's own credential."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def find_below(
        self, root: str, levels: tuple[str, ...] | None, separator: str
    ) -> AsyncIterator[tuple[TablePlace, Metadata]]:
        """Yield every table of that namespace and of those within it, of all namespaces for None.
        Raises RetryLater if the catalog does not list them."""
        async for namespace in self._walk_namespaces(root, levels or (), separator):
            spelt = _encode_levels(namespace, separator)
            path = f"{root}/namespaces/{spelt}/tables"
            async for one in self._read_pages(path, "identifiers"):
                name = str(one["name"])
                place = TablePlace(table_path(root, namespace, name, separator), namespace, name)
                table = await self._upstream.read_metadata(place.path, refs_only=True)
                if table is not None:
                    yield place, table

    async def _walk_namespaces(
        self, root: str, levels: tuple[str, ...], separator: str
    ) -> AsyncIterator[tuple[str, ...]]:
        """Yield the namespace itself and all within it."""
        if levels:
            yield levels
        if len(levels) >= MAX_LEVELS:
            return
        parent = f"?parent={_encode_levels(levels, separator)}" if levels else ""
        async for found in self._read_pages(f"{root}/namespaces{parent}", "namespaces"):
            child = tuple(map(str, found))
            if len(child) == len(levels) + 1 and child[:-1] == levels:
                async for one in self._walk_namespaces(root, child, separator):
                    yield one

    async def _read_pages(self, path: str, what: str) -> AsyncIterator[Any]:
        token = ""
        for _ in range(MAX_PAGES):
            page, following = await self._upstream.read_page(path, what, token)
            for one in page:
                yield one
            if following in ("", token):
                return
            token = following


def _encode_levels(levels: tuple[str, ...], separator: str) -> str:
    return separator.join(quote(level, safe="") for level in levels)
