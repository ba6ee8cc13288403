"""Every action on a table as a whole; `firnline_worker.bootstrap` names who carries it out."""

from __future__ import annotations

from firnline_domain.policy.table_action.aged_partitions import PartitionArchiving, PartitionExpiry
from firnline_domain.policy.table_action.base import TableAction
from firnline_domain.policy.table_action.compute_statistics import Statistics
from firnline_domain.policy.table_action.create_tags import TagCreation
from firnline_domain.policy.table_action.expire_snapshots import SnapshotExpiry
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.policy.table_action.upgrade_format import FormatUpgrade

ACTIONS: tuple[TableAction, ...] = (
    SnapshotExpiry(),
    DanglingDeletes(),
    ManifestRewrite(),
    OrphanRemoval(),
    PartitionExpiry(),
    PartitionArchiving(),
    FormatUpgrade(),
    Statistics(),
    TagCreation(),
)
TABLE_ACTIONS = {one.name: one for one in ACTIONS}
ORDER_REASONS = tuple(code for one in ACTIONS for code in one.order_reasons)
WAIT_REASONS = tuple(code for one in ACTIONS for code in one.wait_reasons)
