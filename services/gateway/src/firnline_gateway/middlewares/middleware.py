"""A step that every call passes, and what steps are made from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import Any, TypeVar

from firnline_adapters.observability.logs import Log
from firnline_domain.ports import Publisher

from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.settings import GatewaySettings

T = TypeVar("T")


class ProcessStack(AsyncExitStack):
    """What runs until the end of the process, for all catalogs."""

    def __init__(self) -> None:
        super().__init__()
        self._entered: dict[object, Any] = {}

    async def enter_once(
        self, make: Callable[[Parts], AbstractAsyncContextManager[T]], parts: Parts
    ) -> T:
        """Return what the context yields, which the first call enters."""
        if make not in self._entered:
            self._entered[make] = await self.enter_async_context(make(parts))
        found: T = self._entered[make]
        return found


@dataclass(frozen=True)
class Parts:
    """What the chain before one catalog is made from; only `upstream` is of that catalog.
    `statistics`: a publisher for what may be lost."""

    settings: GatewaySettings
    journal: OutboxJournal
    statistics: Publisher
    log: Log
    now_ms: Callable[[], int]
    stack: ProcessStack
    upstream: Upstream


class Middleware:
    """One step. A method that it leaves out does nothing. What it remembers of a call is forgotten
    in `finish`."""

    @classmethod
    def open(cls, parts: Parts) -> AbstractAsyncContextManager[Middleware | None]:  # noqa: ARG003
        """Return a context with the step; None if the settings switch it off."""
        return nullcontext(cls())

    async def before(self, exchange: Exchange) -> None:
        """Prepare a call; nothing of it was sent. Raises Refused or ClientGone if nothing should
        be."""

    async def after(self, exchange: Exchange) -> None:
        """Handle the catalog's answer or its absence; the client has seen nothing of it."""

    def finish(self, exchange: Exchange) -> None:
        """End a call: the client has its answer, or never will. Follows each `before`, also one
        that raised."""


@asynccontextmanager
async def background_tasks(*chores: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines in the background while the block runs, and end them with it."""
    tasks = {asyncio.create_task(chore) for chore in chores}
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
