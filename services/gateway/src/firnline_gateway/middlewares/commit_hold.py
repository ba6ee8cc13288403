"""Commits of other clients wait where Firnline's has lost several races (docs/decisions/0011)."""

from __future__ import annotations

from firnline_domain.commits.hold_header import HOLD_COMMITS

from firnline_gateway.middlewares.call_hold import CallHold
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.rest.routes import CallKind


class CommitHold(CallHold):
    """Delays of commits: a quarter of the time at the most."""

    kind = "commit"
    word = HOLD_COMMITS
    share = 0.15
    rests = 3

    async def before(self, exchange: Exchange) -> None:
        change = exchange.change
        if change and change.kind is CallKind.COMMIT and not exchange.is_by_committer:
            await self.wait_for_release(exchange.table)
