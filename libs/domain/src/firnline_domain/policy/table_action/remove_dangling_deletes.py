"""Decide when to look for delete files that apply to nothing any more."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import (
    DELETE_FILE_S,
    ENTRY_S,
    Estimate,
    Gain,
    add_cost,
    look_price,
)
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.aged_partitions import EXPIRE_PARTITIONS
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction
from firnline_domain.policy.triggers.v2_deletes import VECTORS

# Below that a reader's plan hardly grows: a delete file is an entry of 0.2 kB in a manifest. And a
# writer that commits every minute has so many waiting for their rewrite only after a working day.
MIN_DELETE_FILES = 500
MIN_SHARE = 0.5  # of the data files
FIRST_SHARE = 0.5  # of the delete files: taken to dangle before anybody has looked


class DanglingReason(ReasonCode):
    """Reasons why a search for dangling deletes is due."""

    DANGLING_DELETES = (
        "dangling_deletes",
        "There are so many delete files for the data files that some probably apply to no file.",
        "{delete_files} delete files for {data_files} data files: some probably apply to no file",
    )


class DanglingDeletes(TableAction):
    """Removal of dangling deletes. No counter has which delete file reaches which data file. So
    where delete files are many beside the data files, a worker reads the manifests, at most once a
    day."""

    name = "remove_dangling_deletes"
    order_reasons = (DanglingReason.DANGLING_DELETES,)
    found = (("removed_delete_files", "removed_bytes"),)

    def check_due(self, given: TableInput) -> DueCheck:
        holds = given.table.counters.totals.holds
        deletes, data = holds.delete_files, holds.data_files
        has_expired = deletes > 0 and has_expired_files(given.table, self.name)
        are_many = deletes >= max(MIN_DELETE_FILES, MIN_SHARE * data)
        if not (are_many or has_expired or has_v2_deletes(given)):
            return NOT_ASKED
        return DueCheck(DanglingReason.DANGLING_DELETES, True, numbers=self.order_numbers(given))

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate that as many dangle as the last look has found."""
        holds, work = given.table.counters.totals.holds, self.work_of(given.table)
        deletes = holds.delete_files
        found = FIRST_SHARE * deletes if work.found_files is None else work.found_files
        dangling = min(found, deletes)
        size = holds.equality_deletes.bytes + holds.position_deletes.bytes
        freed = size / max(deletes, 1) * dangling
        price = add_cost(look_price(given.table), deletes * DELETE_FILE_S)
        return Estimate(price, Gain(dangling * ENTRY_S, freed_bytes=freed))

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        holds = given.table.counters.totals.holds
        return {"delete_files": holds.delete_files, "data_files": holds.data_files}


def has_expired_files(table: Table, name: str) -> bool:
    """Return True if files were expired from the table since the last look: their deletes stay, in
    partitions that may have no other file."""
    actions = table.work.actions
    dropped_ms = actions.get(EXPIRE_PARTITIONS, ActionWork()).done_ms
    looked_ms = actions.get(name, ActionWork()).finished_ms
    return dropped_ms is not None and (looked_ms is None or looked_ms < dropped_ms)


def has_v2_deletes(given: TableInput) -> bool:
    """Return True if position-delete files are left in a table that was moved to v3 (`v2_deletes`):
    with each conversion fewer of them are about anything, and a few may not be about one that is
    converted."""
    counters = given.table.counters
    is_v3 = min(given.settings.format_version, counters.format_version) >= VECTORS
    return is_v3 and counters.totals.holds.position_deletes.files > 0
