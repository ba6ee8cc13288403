"""When files whose rows are all too old leave a table: by its owner's word alone
(`firnline.partitions.ttl-hours`), and after an announcement.

How old rows are is in no counter. A worker looks, every six hours by default; the first time that
it finds something, or where a shorter age was set since, it says so, and nothing goes before the
grace period is over.
"""

from __future__ import annotations

from firnline_domain.counters.work import ActionWork, Table
from firnline_domain.policy.decisions import Reason
from firnline_domain.policy.prices import Gain, Weighed
from firnline_domain.policy.table_action import NOT_ASKED, Asked, TableAction
from firnline_domain.policy.table_prices import look_price
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import HOUR_MS
from firnline_domain.values import replace

EXPIRE_PARTITIONS = "expire_partitions"


class PartitionExpiry(TableAction):
    """Metadata alone: files stay on the storage until the snapshots that have them expire."""

    name = EXPIRE_PARTITIONS
    is_promised = True
    found = (("going_files", "going_bytes"), ("files_removed", "bytes_removed"))

    def asks(self, table: Table, limits: Thresholds, now_ms: int) -> Asked:
        if limits.partition_ttl_h <= 0:
            return NOT_ASKED
        numbers = self.numbers(table, limits)
        work = table.work.actions.get(self.name, ActionWork())
        if not _is_announced(work, limits, now_ms):
            return Asked(Reason.PARTITIONS_ANNOUNCED, True, numbers={**numbers, "announces": 1.0})
        begins_ms = (work.announced_ms or 0) + limits.partition_grace_ms
        if now_ms < begins_ms:
            return Asked(Reason.PARTITIONS_GRACE, until_ms=begins_ms)
        return Asked(
            Reason.OLD_PARTITIONS, True, numbers={**numbers, "announced_ms": work.announced_ms or 0}
        )

    def pause_ms(self, limits: Thresholds) -> int:
        """See `TableAction.pause_ms`."""
        return limits.partition_interval_ms

    def weighed(self, table: Table, limits: Thresholds, now_ms: int) -> Weighed:
        """What was announced leaves the storage when its snapshots expire."""
        work = table.work.actions.get(self.name, ActionWork())
        return Weighed(look_price(table, limits), Gain(freed_bytes=work.found_bytes))

    def numbers(self, table: Table, limits: Thresholds) -> dict[str, float]:
        grace_h = limits.partition_grace_ms / HOUR_MS
        return {"ttl_h": limits.partition_ttl_h, "grace_h": grace_h}

    def ended(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        """What an announcement has found is known from now on; the next order waits for no
        interval beside the grace period. One that found nothing announces nothing."""
        before = table.work.actions.get(self.name, ActionWork())
        after, word = super().ended(table, result, now_ms)
        is_ours = before.task_id == result.task_id and not result.refused_reason
        if is_ours and result.numbers.get("files_removed"):
            work = after.work.actions[self.name]
            return self._with(after, replace(work, done_ms=now_ms)), word
        if not is_ours or not result.numbers.get("going_files"):
            return after, word
        work = replace(
            after.work.actions[self.name],
            announced_ms=now_ms,
            announced_h=result.numbers.get("ttl_h", 0.0),
            finished_ms=None,
        )
        return self._with(after, work), "announced"


def _is_announced(work: ActionWork, limits: Thresholds, now_ms: int) -> bool:
    """For this age, or a longer one; and not by a clock that was set back since."""
    if work.announced_ms is None or work.announced_ms > now_ms:
        return False
    return work.announced_h <= limits.partition_ttl_h
