"""Every action on a table as a whole; `firnline_worker.bootstrap` names who carries it out."""

from __future__ import annotations

from firnline_domain.policy.dangling_deletes import DanglingDeletes
from firnline_domain.policy.format_upgrade import FormatUpgrade
from firnline_domain.policy.manifest_rewrite import ManifestRewrite
from firnline_domain.policy.orphan_removal import OrphanRemoval
from firnline_domain.policy.partition_archiving import PartitionArchiving
from firnline_domain.policy.partition_expiry import PartitionExpiry
from firnline_domain.policy.snapshot_expiry import SnapshotExpiry
from firnline_domain.policy.statistics import Statistics
from firnline_domain.policy.table_action import TableAction
from firnline_domain.policy.tag_creation import TagCreation

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
