"""Estimate what actions on a whole table cost and spare: from counters alone, by what was measured.

CPU of the worker as in `bench/results/actions.json` (one JVM, local files); `weighed_here` has what
the action has taken here against it. Readers pay for a file of metadata what they pay for any other
(`read_cost`)."""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Table
from firnline_domain.policy.cost.dollars import Price
from firnline_domain.policy.cost.read_cost import READ_COST
from firnline_domain.policy.cost_model import FIRNLINE, learned_factor

# Of 5,000 commits, unmerged: 35.3 s. It is Iceberg's own action, a Spark job.
MANIFEST_REWRITE_S = 35.3 / 5_000
# 90,000 delete files were examined, and 81,000 of them removed, in 24.1 s.
DELETE_FILE_S = 24.1 / 90_000
# 10,000 snapshots of up to 1,670 manifests: 86.0 s, of which eight million rows of manifest lists
# took 4 us each, twice. 3,000 of up to 501 come to 13.5 by the same sum, and took 12.7.
SNAPSHOT_S, LIST_ROW_S = 0.002, 8e-6
OBJECT_S = 17.9 / 1_000_000  # of a location that is listed
OBJECTS_LISTED = 1_000  # a request
# A plan of 5,000 files in one manifest takes 16 ms.
ENTRY_S = 0.016 / 5_000
# The least of any: metadata and manifest list are read; those two and a manifest are written.
COMMIT_PRICE = Price(FIRNLINE.fixed_s, gets=2, puts=3)
PACE = "price_pace"  # of an order's numbers: what its CPU seconds were multiplied by
MANIFEST_LIST_OF = 2  # half of today's manifests stood in the list of a snapshot, on average


def pace_after(pace: float, expected_s: float, worked_ms: int) -> float:
    """Return the pace, a factor of the estimated time, after one more task, which changes it by 15
    % at most. `expected_s`: the seconds at a pace of 1."""
    return learned_factor(pace, pace * expected_s, worked_ms / 1000)


def expected_s(numbers: Mapping[str, float]) -> float | None:
    """Return the expected CPU seconds of an order: its price at a pace of 1; None = not
    estimated."""
    pace = numbers.get(PACE, 0.0)
    return numbers.get("price_cpu_s", 0.0) / pace if pace > 0 else None


def look_price(table: Table) -> Price:
    """Return the price of an action that reads all manifests of the head, and commits metadata."""
    counters = table.counters
    opened_s = counters.manifests * FIRNLINE.open_s + counters.manifest_bytes * FIRNLINE.read_s
    read_bytes = float(counters.manifest_bytes)
    return add_cost(COMMIT_PRICE, opened_s, gets=counters.manifests, read_bytes=read_bytes)


def add_cost(price: Price, cpu_s: float, **more: float) -> Price:
    """Add so many more CPU seconds, as measured, and so much of other fields."""
    sums = {name: getattr(price, name) + value for name, value in more.items()}
    return replace(price, cpu_s=price.cpu_s + cpu_s, **sums)


def opened_needlessly(manifests: float) -> float:
    """Return a scan's CPU seconds for superfluous manifests."""
    return manifests * READ_COST.open_s
