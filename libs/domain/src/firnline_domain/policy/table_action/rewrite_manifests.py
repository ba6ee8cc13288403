"""Decide when a table's manifests are rewritten into fewer ones."""

from __future__ import annotations

from math import ceil

from firnline_domain.counters.state.work import Table
from firnline_domain.policy.cost.dollars import Estimate, Gain
from firnline_domain.policy.cost.table_action_cost import (
    MANIFEST_REWRITE_S,
    add_cost,
    commit_price,
    opened_needlessly,
)
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction
from firnline_domain.settings.thresholds import Thresholds

TARGET_BYTES = 8 << 20  # commit.manifest.target-size-bytes, where a table does not say otherwise


class ManifestRewrite(TableAction):
    """Readers and committers open every manifest that they cannot leave out. Writers that append
    fast never merge theirs; others do at a hundred. The rewrite takes the small ones alone, so each
    entry is written once in as many commits as make it due, and the last file of each round."""

    name = "rewrite_manifests"

    def pause_ms(self, limits: Thresholds) -> int:
        return limits.manifest_interval_ms

    def check_due(self, table: Table, limits: Thresholds, now_ms: int) -> DueCheck:
        least = limits.min_manifests
        if not least or table.counters.manifests < least:
            return NOT_ASKED
        known = self.order_numbers(table, limits)
        if known["manifests"] - known["full_manifests"] < least:
            return NOT_ASKED
        return DueCheck(Reason.MANY_MANIFESTS, True, numbers=known)

    def estimate(self, table: Table, limits: Thresholds, now_ms: int) -> Estimate:
        """Estimate upper bounds: full manifests are not rewritten, nor does a filtered scan open
        all."""
        counters, full = table.counters, ceil(table.counters.manifest_bytes / TARGET_BYTES)
        size, needless = float(counters.manifest_bytes), float(max(counters.manifests - full, 0))
        price = add_cost(
            commit_price(limits),
            counters.manifests * MANIFEST_REWRITE_S,
            limits,
            gets=counters.manifests,
            puts=full,
            read_bytes=size,
            written_bytes=size,
        )
        return Estimate(price, Gain(opened_needlessly(needless), needless))

    def order_numbers(self, table: Table, limits: Thresholds) -> dict[str, float]:
        counters = table.counters
        return {
            "manifests": counters.manifests,
            "manifest_bytes": counters.manifest_bytes,
            "full_manifests": ceil(counters.manifest_bytes / TARGET_BYTES),
            "min_manifests": limits.min_manifests,
        }
