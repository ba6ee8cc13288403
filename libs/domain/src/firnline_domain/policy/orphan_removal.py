"""When a table's location is looked through for files that the table does not name."""

from __future__ import annotations

from firnline_domain.counters.work import Table
from firnline_domain.policy.decisions import Reason
from firnline_domain.policy.table_action import NOT_ASKED, Asked, TableAction
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import DAY_MS, HOUR_MS

MIN_AGE_H = 24.0  # whatever an owner says: a writer's longest transaction, and clocks


class OrphanRemoval(TableAction):
    """No event tells of a file that was never committed, and a look lists the whole location. So it
    is a matter of time alone, and of an owner who has agreed: it deletes files."""

    name = "remove_orphans"
    interval_ms = 7 * DAY_MS

    def asks(self, table: Table, limits: Thresholds, now_ms: int) -> Asked:
        if not limits.remove_orphans or not limits.gc_enabled:
            return NOT_ASKED
        return Asked(Reason.ORPHAN_INTERVAL, True, numbers=self.numbers(table, limits))

    def numbers(self, table: Table, limits: Thresholds) -> dict[str, float]:
        age_h = max(limits.orphan_age_ms / HOUR_MS, MIN_AGE_H)
        return {"min_age_h": age_h, "quarantine_h": limits.quarantine_ms / HOUR_MS}
