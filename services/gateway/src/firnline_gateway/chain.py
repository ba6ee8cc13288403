"""The chain of middlewares before each catalog. An optional feature leaves with its row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from firnline_gateway.middlewares.commit_capture import CommitCapture
from firnline_gateway.middlewares.commit_hold import CommitHold
from firnline_gateway.middlewares.config_rewriter import ConfigRewriter
from firnline_gateway.middlewares.middleware import Middleware, Parts
from firnline_gateway.middlewares.read_hold import ReadHold
from firnline_gateway.middlewares.scan_counter import ScanCounter
from firnline_gateway.middlewares.target_check import TargetCheck
from firnline_gateway.middlewares.upstream_signer import UpstreamSigner

CHAIN: tuple[type[Middleware], ...] = (
    UpstreamSigner,  # optional; first, so that unknown callers learn nothing
    TargetCheck,
    ConfigRewriter,
    CommitHold,  # optional; before the body is read, so that a call that waits takes no memory
    ReadHold,  # optional
    ScanCounter,  # optional
    CommitCapture,
)


@asynccontextmanager
async def open_chain(parts: Parts) -> AsyncIterator[list[Middleware]]:
    """Yield the middlewares that the settings switch on, in the order of the chain."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(one.open(parts)) for one in CHAIN]
        yield [middleware for middleware in opened if middleware is not None]
