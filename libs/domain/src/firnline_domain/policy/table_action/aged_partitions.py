"""Decide when files whose rows are all too old leave a table: by its owner's word alone, and after
an announcement.

How old rows are is in no counter. A worker looks, every six hours by default; the first time that
it finds something, or where a shorter age was set since, it says so, and nothing goes before the
grace period is over (`firnline.partitions.grace-ms`)."""

from __future__ import annotations

from abc import abstractmethod

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ActionWork
from firnline_domain.policy.cost.dollars import Estimate, Gain, add_cost, look_price
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, Ended, TableAction
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

EXPIRE_PARTITIONS = "expire_partitions"
GOING = ("going_files", "going_bytes")  # of an announcement's numbers


class AgeReason(ReasonCode):
    """Reasons why old files leave a table, or wait."""

    PARTITIONS_ANNOUNCED = (
        "partitions_announced",
        "A worker counts the files older than `firnline.partitions.ttl-hours`, for the "
        "announcement.",
        "counting files older than {ttl_h} h for the announcement",
    )
    OLD_PARTITIONS = (
        "old_partitions",
        "Files whose rows are all older than `firnline.partitions.ttl-hours` are removed from "
        "the table.",
        "removing files whose rows are all older than {ttl_h} h (firnline.partitions.ttl-hours)",
    )
    PARTITIONS_GRACE = (
        "partitions_grace_period",
        "The removal of old rows was announced and starts after "
        "`firnline.partitions.grace-ms`. `firnline.partitions.ttl-hours=0` stops it.",
        "removal of old rows was announced, starts after firnline.partitions.grace-ms "
        "(firnline.partitions.ttl-hours=0 stops it)",
    )
    ARCHIVE_ANNOUNCED = (
        "archive_announced",
        "A worker counts the files older than `firnline.archive.after-hours`, for the "
        "announcement.",
        "counting files older than {archive_h} h for the announcement",
    )
    ARCHIVE_DUE = (
        "archive_due",
        "Files whose rows are all older than `firnline.archive.after-hours` are moved to the "
        "archive.",
        "archiving files whose rows are all older than {archive_h} h "
        "(firnline.archive.after-hours)",
    )
    ARCHIVE_GRACE = (
        "archive_grace_period",
        "Archiving was announced and starts after `firnline.partitions.grace-ms`. "
        "`firnline.archive.after-hours=0` stops it.",
        "archiving was announced, starts after firnline.partitions.grace-ms "
        "(firnline.archive.after-hours=0 stops it)",
    )


class OldPartitions(TableAction):
    """`age_name`: of the age in hours, among the numbers of its orders and results. The last of
    `found` is what its results say that has gone. Ordered to announce, and when it is due."""

    age_name: str

    @abstractmethod
    def age_h(self, settings: Thresholds) -> float:
        """Return the age in hours at which rows are removed; 0 = never."""

    def check_due(self, given: TableInput) -> DueCheck:
        if (age_h := self.age_h(given.settings)) <= 0:
            return NOT_ASKED
        return self._check_announced(given, given.settings.partition_grace_ms, age_h)

    def pause_ms(self, settings: Thresholds) -> int:
        return settings.partition_interval_ms

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        grace_h = given.settings.partition_grace_ms / HOUR_MS
        return {self.age_name: self.age_h(given.settings), "grace_h": grace_h}

    def after_success(self, work: ActionWork, result: TableResult, now_ms: int) -> Ended:
        """Record what has gone, or was announced: then the next order waits for no interval beside
        the grace period. One that found nothing announces nothing."""
        if result.numbers.get(self.found[-1][0]):
            return replace(work, done_ms=now_ms), "done"
        if not result.numbers.get(GOING[0]):
            return work, "done"
        age_h = result.numbers.get(self.age_name, 0.0)
        work = replace(work, announced_ms=now_ms, announced_h=age_h, finished_ms=None)
        return work, "announced"


class PartitionExpiry(OldPartitions):
    """Metadata alone: files stay on the storage until the snapshots that have them expire."""

    name = EXPIRE_PARTITIONS
    is_promised = True
    age_name = "ttl_h"
    found = (GOING, ("files_removed", "bytes_removed"))
    order_reasons = (AgeReason.PARTITIONS_ANNOUNCED, AgeReason.OLD_PARTITIONS)
    wait_reasons = (AgeReason.PARTITIONS_GRACE,)

    def age_h(self, settings: Thresholds) -> float:
        """Return the age of expiry; 0 for a table with an archive, because rows that are not
        archived yet would be lost."""
        return 0.0 if settings.archive_after_h > 0 else settings.partition_ttl_h

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate that what was announced leaves the storage when its snapshots expire."""
        freed_bytes = self.work_of(given.table).found_bytes
        return Estimate(look_price(given.table), Gain(freed_bytes=freed_bytes))


class PartitionArchiving(OldPartitions):
    """Their bytes are copied; the rest is metadata of two tables (`commits.archive_rounds`)."""

    name = "archive_partitions"
    age_name = "archive_h"
    found = (GOING, ("files_archived", "bytes_archived"))
    order_reasons = (AgeReason.ARCHIVE_ANNOUNCED, AgeReason.ARCHIVE_DUE)
    wait_reasons = (AgeReason.ARCHIVE_GRACE,)

    def age_h(self, settings: Thresholds) -> float:
        return settings.archive_after_h

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate that what was announced is read, written and read back, and leaves the table's
        storage when its snapshots expire. It is not decoded: to read it as a rewrite does is the
        most that it can take."""
        size = float(self.work_of(given.table).found_bytes)
        read_s, moved = size * FIRNLINE.read_s, {"read_bytes": 2 * size, "written_bytes": size}
        price = add_cost(look_price(given.table), read_s, **moved)
        return Estimate(price, Gain(freed_bytes=size))
