"""Decide when a table's manifests are rewritten into fewer ones."""

from __future__ import annotations

from math import ceil

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.policy.cost.dollars import (
    COMMIT_PRICE,
    MANIFEST_REWRITE_S,
    Estimate,
    Gain,
    add_cost,
    opened_needlessly,
)
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction
from firnline_domain.settings.thresholds import Thresholds

TARGET_BYTES = 8 << 20  # commit.manifest.target-size-bytes, where a table does not say otherwise


class ManifestReason(ReasonCode):
    """Reasons why manifests are rewritten."""

    MANY_MANIFESTS = (
        "many_manifests",
        "The table has `firnline.manifests.min-count` manifests more than full ones would need.",
        "{manifests} manifests instead of {full_manifests} full ones, {min_manifests} more "
        "trigger a rewrite",
    )


class ManifestRewrite(TableAction):
    """Readers and committers open every manifest that they cannot leave out. Writers that append
    fast never merge theirs; others do at a hundred. The rewrite takes the small ones alone, so each
    entry is written once in as many commits as make it due, and the last file of each round."""

    name = "rewrite_manifests"
    order_reasons = (ManifestReason.MANY_MANIFESTS,)

    def pause_ms(self, settings: Thresholds) -> int:
        return settings.manifest_interval_ms

    def check_due(self, given: TableInput) -> DueCheck:
        least = given.settings.min_manifests
        if not least or given.table.counters.manifests < least:
            return NOT_ASKED
        known = self.order_numbers(given)
        if known["manifests"] - known["full_manifests"] < least:
            return NOT_ASKED
        return DueCheck(ManifestReason.MANY_MANIFESTS, True, numbers=known)

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate upper bounds: full manifests are not rewritten, nor does a filtered scan open
        all."""
        counters = given.table.counters
        full = ceil(counters.manifest_bytes / TARGET_BYTES)
        size, needless = float(counters.manifest_bytes), float(max(counters.manifests - full, 0))
        price = add_cost(
            COMMIT_PRICE,
            counters.manifests * MANIFEST_REWRITE_S,
            gets=counters.manifests,
            puts=full,
            read_bytes=size,
            written_bytes=size,
        )
        return Estimate(price, Gain(opened_needlessly(needless), needless))

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        counters = given.table.counters
        return {
            "manifests": counters.manifests,
            "manifest_bytes": counters.manifest_bytes,
            "full_manifests": ceil(counters.manifest_bytes / TARGET_BYTES),
            "min_manifests": given.settings.min_manifests,
        }
