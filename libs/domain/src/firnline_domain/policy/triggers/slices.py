"""Limit how much one order takes of a partition: what fits into a set time, by the learned price.

A partition of a terabyte takes hours on one worker. In one order it would outlive its deadline,
hold a place of the worker all that time, and be lost whole with any conflict. So an order takes a
slice, and the next one goes out when it is committed, until the pass is over (decision 0005)."""

from __future__ import annotations

import math

from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.full_rewrites import CLOSED
from firnline_domain.records.parts.slices import Slice
from firnline_domain.settings.thresholds import Thresholds

FULL_INTERVAL = "full_interval"
DEADLINE_SHARE = 2  # a slice is planned for half of the deadline at the most: prices are estimates


def slice_cpu_s(settings: Thresholds) -> float:
    """Return the CPU seconds that one order may take, at the learned price."""
    if settings.slice_ms <= 0:
        return math.inf
    return min(settings.slice_ms, settings.deadline_ms / DEADLINE_SHARE) / 1000 * FIRNLINE.cores


def slice_max_bytes(given: PolicyInput, action: str) -> int:
    """Return the bytes of data files that one order reads; 0 = all. Each byte is written again, but
    for those of the keys that a conversion reads: the worker takes a file for `KEY_SHARE` of its
    bytes, and the table's conversions may have read more of them, or less."""
    if given.settings.slice_ms <= 0:
        return 0
    costs = given.costs
    if action == Action.CONVERT:
        byte_s = FIRNLINE.read_s * costs.factors.conversions * costs.key_share / KEY_SHARE
    else:
        byte_s = (FIRNLINE.read_s + FIRNLINE.write_s) * costs.factors.rewrites
    return max(int(slice_cpu_s(given.settings) / byte_s), 1)


def share_of_price(price_s: float, settings: Thresholds) -> float:
    """Return the share of a rewrite's price in CPU seconds that one order costs."""
    return min(slice_cpu_s(settings) / price_s, 1.0) if price_s > 0 else 1.0


def unfinished_of(given: PolicyInput) -> Slice | None:
    """Return the slice after which its pass continues; None without one, or if the pass is no
    longer enabled."""
    after, settings = given.partition.work.unfinished, given.settings
    if after is None or given.holds.data_files <= 0:
        return None
    if after.action == Action.CONVERT and not settings.may_convert:
        return None
    if after.action == Action.SORT and not settings.sort and after.reason != Reason.REQUESTED:
        return None
    switches = {CLOSED: settings.freeze_after_h, FULL_INTERVAL: settings.full_interval_ms}
    is_unwanted = after.action == Action.FULL and switches.get(after.reason, 1) <= 0
    return None if is_unwanted else after
