"""Decide when a table's location is looked through for files that the table does not name."""

from __future__ import annotations

from math import ceil

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.policy.cost.dollars import (
    OBJECT_S,
    OBJECTS_LISTED,
    Estimate,
    Gain,
    add_cost,
    look_price,
)
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction

MIN_AGE_H = 24.0  # whatever an owner says: a writer's longest transaction, and clocks


class OrphanReason(ReasonCode):
    """Reasons why a location is searched for orphans."""

    ORPHAN_INTERVAL = (
        "orphan_interval",
        "`firnline.orphans.enabled` is set, and a week has passed.",
        "weekly: unreferenced files older than {min_age_h} h are moved to the quarantine and "
        "deleted {quarantine_h} h later",
    )


class OrphanRemoval(TableAction):
    """No event tells of a file that was never committed, and a look lists the whole location. So it
    is a matter of time alone, and of an owner who has agreed: it deletes files."""

    name = "remove_orphans"
    order_reasons = (OrphanReason.ORPHAN_INTERVAL,)
    interval_ms = 7 * DAY_MS
    found = (("files_quarantined", "bytes_quarantined"),)

    def check_due(self, given: TableInput) -> DueCheck:
        if not given.settings.remove_orphans or not given.settings.gc_enabled:
            return NOT_ASKED
        return DueCheck(OrphanReason.ORPHAN_INTERVAL, True, numbers=self.order_numbers(given))

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate that as much is found as a week before. A file of the table is one object; so
        are a manifest, and the list and the metadata file of each snapshot."""
        counters, work = given.table.counters, self.work_of(given.table)
        holds, snapshots = counters.totals.holds, counters.snapshot_count or 1
        objects = holds.data_files + holds.delete_files + counters.manifests + 2 * snapshots
        found = work.found_files or 0.0
        price = add_cost(
            look_price(given.table),
            objects * OBJECT_S,
            puts=ceil(objects / OBJECTS_LISTED) + 2 * found,  # each is copied, and removed
        )
        return Estimate(price, Gain(freed_bytes=work.found_bytes))

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        age_h = max(given.settings.orphan_age_ms / HOUR_MS, MIN_AGE_H)
        return {"min_age_h": age_h, "quarantine_h": given.settings.quarantine_ms / HOUR_MS}
