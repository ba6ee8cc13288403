"""One currency for all that maintenance does: dollars, by a price list (`firnline.price.*`).

CPU seconds, requests and bytes at rest are estimated from counters, of rewrites and of actions on
whole tables alike. What they cost stands against what they spare in an hour: scans open fewer files
and do less work, and the storage holds less.

CPU of actions on whole tables as in `bench/results/actions.json` (one JVM, local files);
`weighed_here` has what the action has taken here against it. Readers pay for a file of metadata
what they pay for any other (`READ_COST`)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from firnline_domain.base.times import DAY_MS, HOUR_MS, HOUR_S
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import Table
from firnline_domain.policy.cost.cost_benefit import READ_COST, CostBenefit
from firnline_domain.policy.cost_model import FIRNLINE, CostModel, learned_factor

MILLION = 1_000_000
GB = 1 << 30
MONTH_H = 30 * 24
DAY_H = DAY_MS / HOUR_MS

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
PACE = "price_pace"  # of an order's numbers: what its CPU seconds were multiplied by
MANIFEST_LIST_OF = 2  # half of today's manifests stood in the list of a snapshot, on average


class Price(Value):
    """Cost of one order. `gets`: requests that read, `puts`: those that write, list or delete
    nothing but a page."""

    cpu_s: float
    gets: float = 0.0
    puts: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0

    def in_dollars(self, costs: CostModel) -> float:
        """Return the cost in dollars."""
        requests = self.gets * costs.million_gets + self.puts * costs.million_puts
        return self.cpu_s / HOUR_S * costs.cpu_hour + requests / MILLION


class Gain(Value):
    """Savings of an order: every scan from then on, and bytes at rest that the storage is rid of
    when the snapshots that have them are gone."""

    scan_s: float = 0.0
    scan_gets: float = 0.0
    freed_bytes: float = 0.0

    def dollars_an_hour(self, costs: CostModel, reads_per_hour: float) -> float:
        """Return the savings by the same list, at so many scans an hour."""
        scan = Price(self.scan_s, gets=self.scan_gets).in_dollars(costs)
        return scan * reads_per_hour + self.freed_bytes / GB * (costs.gb_month / MONTH_H)


class Estimate(Value):
    """An order's price and gain."""

    price: Price
    gain: Gain = Gain()

    def gb_hours(self) -> float:
        """Return the memory that the order holds, in GB-hours: a budget counts these."""
        return FIRNLINE.held_gb_hours(self.price.cpu_s)

    def to_numbers(self, costs: CostModel, reads_per_hour: float) -> dict[str, float]:
        """Return the numbers to show: of an order, and of a day."""
        price, gain = self.price, self.gain
        scans = reads_per_hour * DAY_H
        return {
            "price_cpu_s": round(price.cpu_s, 3),
            "price_gb_hours": round(self.gb_hours(), 6),
            "price_requests": round(price.gets + price.puts),
            "price_read_bytes": round(price.read_bytes),
            "price_written_bytes": round(price.written_bytes),
            "price_dollars": round_significant(price.in_dollars(costs)),
            "gain_cpu_s_a_day": round(gain.scan_s * scans, 3),
            "gain_requests_a_day": round(gain.scan_gets * scans),
            "gain_bytes": round(gain.freed_bytes),
            "gain_dollars_a_day": round_significant(
                gain.dollars_an_hour(costs, reads_per_hour) * DAY_H
            ),
        }


def of_rewrite(weighed: CostBenefit, target_bytes: int) -> Estimate:
    """Estimate price and gain of a partition's rewrite. Dropped rows stay in the files of older
    snapshots, and new files replace them: it frees no known storage."""
    work = weighed.work
    opened = work.files + work.converted
    written = work.bytes_written / max(target_bytes, 1) + work.converted + 1
    price = Price(weighed.price_s, opened, written, work.bytes_read, work.bytes_written)
    return Estimate(price, Gain(weighed.spared_s, weighed.spared_opens))


def round_significant(number: float) -> float:
    """Round to three significant digits: a price is mostly far below a cent."""
    return float(f"{number:.3g}")


def in_dollars(amount: float) -> str:
    """Format an amount in cents, below a dollar by two digits that count: most prices are far
    below a cent."""
    return f"${amount:,.2f}" if amount >= 1 else f"${Decimal(f'{amount:.2g}'):f}"


# The least of any: metadata and manifest list are read; those two and a manifest are written.
COMMIT_PRICE = Price(FIRNLINE.fixed_s, gets=2, puts=3)


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
