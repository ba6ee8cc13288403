"""Learn by which columns a table's readers filter, from what they report of their scans. Pure.

Counts that decay over a day: of an even rate they are the scans of one day. A report from the
future is one of now, a late one counts what is left of it (as in `reads`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.activity.reads import decay_share, share_read
from firnline_domain.records.events import TableLayout, TableScanned

TAU_MS = 24 * 3_600_000  # readers of the day and those of the night count alike
MAX_COLUMNS = 4  # columns; a table is sorted by one, and partitioned by one or two
MIN_SCANS = 0.1  # scans of a column: less is as good as none


class Use(Value):
    """Scans that filter by a column, and the same scans, each by the share of the table's files
    that it has read nevertheless."""

    column: str
    scans: float
    whole: float

    def scale(self, factor: float) -> Use:
        """Return the use with both counts multiplied by `factor`."""
        return Use(self.column, self.scans * factor, self.whole * factor)


class Filters(Value):
    """Filters of a table's readers, decayed to `as_of_ms`."""

    as_of_ms: int
    scans: float = 0.0  # all, with a filter or without
    uses: tuple[Use, ...] = ()  # the most used columns first
    layout: TableLayout = TableLayout()

    def decay_to(self, now_ms: int) -> Filters:
        """Return the filters with all their scans faded until `now_ms`, to 1/e in a day; unchanged
        if that is not after `as_of_ms`."""
        left = decay_share(now_ms - self.as_of_ms, TAU_MS)
        if left == 1.0:
            return self
        uses = tuple(use.scale(left) for use in self.uses)
        return replace(self, as_of_ms=now_ms, scans=self.scans * left, uses=uses)

    def with_scans(self, event: TableScanned, files: int, now_ms: int) -> Filters:
        """Return the filters with the scans of a report added, of a table that has `files` data
        files."""
        at_ms = min(event.to_ms, max(now_ms, self.as_of_ms))
        known = self.decay_to(max(at_ms, self.as_of_ms))
        left = decay_share(known.as_of_ms - at_ms, TAU_MS)
        came = (
            Use(
                column.column,
                column.scans,
                column.scans * share_read(column.scans, column.data_files, files),
            )
            for column in event.filtered
        )
        return replace(
            known,
            scans=known.scans + event.scans * left,
            uses=_most_used(known.uses, *(use.scale(left) for use in came)),
            layout=event.layout or self.layout,
        )

    def use_of(self, column: str) -> float:
        """Return the faded number of scans that filter by a column; 0 for an unknown one."""
        return next((use.scans for use in self.uses if use.column == column), 0.0)

    def fades_ms(self, least: float) -> int:
        """Return when no column has more than `least` scans any more if none is added, in ms since
        1970."""
        most = max((use.scans for use in self.uses), default=0.0)
        ages = math.log(most / least) if most > least else 0.0
        return self.as_of_ms + math.floor(TAU_MS * ages) + 1


def after_scan_report(
    filters: Filters | None, event: TableScanned, files: int, now_ms: int
) -> Filters | None:
    """Return a table's filters after a report; None = nothing worth keeping. Columns are nothing
    without the layout that they would be in."""
    if filters is None:
        if not event.filtered or event.layout is None:
            return None
        filters = Filters(min(event.to_ms, now_ms))
    after = filters.with_scans(event, files, now_ms)
    return after if after.uses else None


def _most_used(known: tuple[Use, ...], *came: Use) -> tuple[Use, ...]:
    """Return the most used columns. The scans of the rest are taken off the last one with a place:
    so a steadily used column gets in, and many that are used once do not."""
    sums = {use.column: use for use in known}
    for use in came:
        old = sums.get(use.column, Use(use.column, 0.0, 0.0))
        sums[use.column] = Use(use.column, old.scans + use.scans, old.whole + use.whole)
    ranked = sorted(_worth_keeping(sums.values()), key=attrgetter("scans"), reverse=True)
    kept, others = ranked[:MAX_COLUMNS], ranked[MAX_COLUMNS:]
    if others:
        taken = sum(use.scans for use in others) / kept[-1].scans
        kept[-1] = kept[-1].scale(max(0.0, 1.0 - taken))
    return tuple(_worth_keeping(kept))


def _worth_keeping(uses: Iterable[Use]) -> Iterable[Use]:
    return (use for use in uses if use.scans >= MIN_SCANS)
