"""A table's tags and branches that its owner's rules let go, and the commit that takes them out."""

from __future__ import annotations

from collections.abc import Collection

from firnline_domain.base.values import Value
from firnline_domain.settings.ref_rules import NamedRef, expired_refs
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable


class OldRefs(Value):
    """Their names."""

    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    @property
    def ref_names(self) -> tuple[str, ...]:
        return (*self.tags, *self.branches)


NO_REFS = OldRefs()


def find_old_refs(table: LoadedTable, rules: tuple[str, str], now_ms: int) -> OldRefs:
    """Find old refs by the rules for tags, and those for branches. Raises UnreadableRule."""
    tags, branches = rules
    return OldRefs(
        expired_refs(tags_of(table), tags, now_ms),
        expired_refs(_refs_of_kind(table, SnapshotRefType.BRANCH), branches, now_ms),
    )


def tags_of(table: LoadedTable) -> list[NamedRef]:
    """Return all tags, each with the time of its snapshot."""
    return _refs_of_kind(table, SnapshotRefType.TAG)


def _refs_of_kind(table: LoadedTable, kind: SnapshotRefType) -> list[NamedRef]:
    return [
        NamedRef(name, table.snapshot(ref.snapshot_id).timestamp_ms)
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type is kind and table.retains(ref.snapshot_id)
    ]


def remove_refs(tables: Tables, seen: LoadedTable, names: Collection[str]) -> bool:
    """Remove refs in one commit that is sent once. Return False if one of them has moved since it
    was `seen`: Iceberg's own commit requires nothing of a ref that it removes (1.12,
    `UpdateRequirements`), so a commit to the branch at this moment would be lost. Raises TableGone,
    RetryLater."""
    heads = {name: seen.metadata.refs[name].snapshot_id for name in names}
    updates = tuple(RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in names)
    return tables.commit_changes(seen.identity, updates, heads)
