"""Files whose rows are all too old leave a table for good (`firnline.partitions.ttl-hours`)."""

from __future__ import annotations

from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import Gain, Weighed
from firnline_domain.policy.cost.table_action_cost import look_price
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.aged_partitions import GOING, OldPartitions
from firnline_domain.settings.thresholds import Thresholds

EXPIRE_PARTITIONS = "expire_partitions"


class PartitionExpiry(OldPartitions):
    """Metadata alone: files stay on the storage until the snapshots that have them expire."""

    name = EXPIRE_PARTITIONS
    is_promised = True
    age_name = "ttl_h"
    found = (GOING, ("files_removed", "bytes_removed"))
    announces = Reason.PARTITIONS_ANNOUNCED
    waits = Reason.PARTITIONS_GRACE
    is_due = Reason.OLD_PARTITIONS

    def age_h(self, limits: Thresholds) -> float:
        """Never of a table that has an archive: what was to go there, and has not yet, would be
        lost."""
        return 0.0 if limits.archive_after_h > 0 else limits.partition_ttl_h

    def weighed(self, table: Table, limits: Thresholds, now_ms: int) -> Weighed:
        """What was announced leaves the storage when its snapshots expire."""
        work = table.work.actions.get(self.name, ActionWork())
        return Weighed(look_price(table, limits), Gain(freed_bytes=work.found_bytes))
