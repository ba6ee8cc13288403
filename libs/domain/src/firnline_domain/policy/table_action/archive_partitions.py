"""Files whose rows are all too old move to the table's archive (`firnline.archive.after-hours`)."""

from __future__ import annotations

from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.cost_model import FIRNLINE
from firnline_domain.policy.cost.dollars import Gain, Weighed
from firnline_domain.policy.cost.table_action_cost import look_price, plus
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.aged_partitions import GOING, OldPartitions
from firnline_domain.settings.thresholds import Thresholds


class PartitionArchiving(OldPartitions):
    """Their bytes are copied; the rest is metadata of two tables (`commits.archives`)."""

    name = "archive_partitions"
    age_name = "archive_h"
    found = (GOING, ("files_archived", "bytes_archived"))
    announces = Reason.ARCHIVE_ANNOUNCED
    waits = Reason.ARCHIVE_GRACE
    is_due = Reason.ARCHIVE_DUE

    def age_h(self, limits: Thresholds) -> float:
        return limits.archive_after_h

    def weighed(self, table: Table, limits: Thresholds, now_ms: int) -> Weighed:
        """What was announced is read, written and read back, and leaves the table's storage when
        its snapshots expire. It is not decoded: to read it as a rewrite does is the most that it
        can take."""
        size = float(table.work.actions.get(self.name, ActionWork()).found_bytes)
        read_s, moved = size * FIRNLINE.read_s, {"read_bytes": 2 * size, "written_bytes": size}
        price = plus(look_price(table, limits), read_s, limits, **moved)
        return Weighed(price, Gain(freed_bytes=size))
