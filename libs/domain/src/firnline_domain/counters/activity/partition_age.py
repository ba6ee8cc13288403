"""Learn which partitions the scans of a table reach, where they lie in time. Pure.

A scan of today's partition of 365 is no scan of the other 364. What is kept is bounded whatever
their number: a few ranges of ages, each with the scans that reach it. Ages are counted back from
now, in the unit that the table is partitioned by, since readers want the last hour or week and not
a certain one: a range moves on with the time, and its rate with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import attrgetter

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import LAST_MOMENT, Value, replace
from firnline_domain.identity import Scope
from firnline_domain.records.events import PartitionClock, ScannedRange

MAX_RANGES = 8  # a dashboard or two, the nightly job, and what analysts ask
EPOCH = date(1970, 1, 1).toordinal()
FIRST_MS = (1 - EPOCH) * DAY_MS  # of the year 1, with which Python's dates begin


class HotRange(Value):
    """Scans that reach the partitions of these ages. `youngest`: None = and all that are to come;
    `step`: the rate in force, as in `reads.Reads`."""

    youngest: int | None
    oldest: int
    level: float = 0.0
    step: int | None = None

    @property
    def width(self) -> int:
        """Return the number of units of time in the range, from the present on; at least 1."""
        return max(self.oldest - max(self.youngest or 0, 0) + 1, 1)

    def reaches_age(self, age: int) -> bool:
        """Return True if a partition of that age is read."""
        return age <= self.oldest and (self.youngest is None or age >= self.youngest)

    def share_at(self, age: int | None, span: int) -> float:
        """Return the share, 0 to 1, of its scans that reach a partition. `age`: units of
        time since its own, None = unknown; `span`: units from oldest to newest partition."""
        if age is None:
            return min(self.width / span, 1.0)
        return 1.0 if self.reaches_age(age) else 0.0

    def contains(self, other: HotRange) -> bool:
        """Return True if every partition of the other is in it, too."""
        begins = self.youngest is None or (
            other.youngest is not None and other.youngest >= self.youngest
        )
        return begins and other.oldest <= self.oldest


def time_index(unit: str, at_ms: int) -> int:
    """Return which hour, day, month or year of all since 1970 (UTC) that is; of what is beyond the
    calendar's ends, their month or year."""
    if unit == "hour":
        return at_ms // HOUR_MS
    if unit == "day":
        return at_ms // DAY_MS
    then = datetime.fromtimestamp(min(max(at_ms, FIRST_MS), LAST_MOMENT) // 1000, UTC)
    years = then.year - 1970
    return years if unit == "year" else 12 * years + then.month - 1


def age_of(scope: Scope, clock: PartitionClock | None, now_ms: int) -> int | None:
    """Return how many units have begun since that of the partition; None if its values have no
    time."""
    if clock is None or scope.spec_id != clock.spec_id:
        return None
    index = _index_in(scope.partition, clock.position, clock.unit)
    return None if index is None else time_index(clock.unit, now_ms) - index


@lru_cache(maxsize=16_384)  # asked with every decision
def _index_in(partition: str, position: int, unit: str) -> int | None:
    """Return the hours, days, months or years since 1970 of one field of a partition; None if it is
    none."""
    try:
        value = json.loads(partition)[position]
        if isinstance(value, str) and unit in ("hour", "day"):
            days = date.fromisoformat(value[:10]).toordinal() - EPOCH
            return days if unit == "day" else 24 * days + int(value[11:13] or 0)
    except (ValueError, TypeError, IndexError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def reached_by(scanned: ScannedRange, files: int, partitions: int, span: int) -> HotRange:
    """Return the partitions that some scans have reached, and how many of the scans reach each.

    If the filter has no lower bound, the number of files read is taken for the newest ones, which
    are requested most. If a unit has several partitions, a scan may have left some out: it has read
    no more partitions than files."""
    known = max(span or partitions, 1)
    begins = max(scanned.youngest or 0, 0)
    oldest = scanned.oldest
    if oldest is None:
        wanted = scanned.scans * files
        share = min(scanned.data_files / wanted, 1.0) if wanted > 0 else 1.0
        oldest = begins + max(math.ceil(share * known), 1) - 1
    found = HotRange(scanned.youngest, oldest)
    held = min(found.width, known) * max(partitions / known, 1.0)  # partitions in the range
    read = scanned.data_files / scanned.scans if scanned.scans else 0.0
    weight = min(max(read, 1.0) / held, 1.0) if partitions > known else 1.0
    return replace(found, level=scanned.scans * weight)


def with_ranges(
    known: tuple[HotRange, ...], came: Iterable[HotRange], span: int
) -> tuple[tuple[HotRange, ...], float]:
    """Return the ranges with most scans, at most `MAX_RANGES`, and the scans without a range by
    their share of all partitions. The coldest range is merged into the narrowest that contains
    it."""
    sums = {(one.youngest, one.oldest): one for one in known}
    for one in came:
        place = one.youngest, one.oldest
        old = sums.get(place, HotRange(*place))
        sums[place] = replace(old, level=old.level + one.level)
    spread, kept = 0.0, sorted(sums.values(), key=attrgetter("level"), reverse=True)
    while len(kept) > MAX_RANGES:
        coldest = kept.pop()
        around = [one for one in kept if one.contains(coldest)]
        if not around:
            spread += coldest.level * min(coldest.width / max(span, 1), 1.0)
            continue
        narrowest = min(around, key=attrgetter("width"))
        more = coldest.level * coldest.width / narrowest.width
        kept[kept.index(narrowest)] = replace(narrowest, level=narrowest.level + more)
    return tuple(kept), spread
