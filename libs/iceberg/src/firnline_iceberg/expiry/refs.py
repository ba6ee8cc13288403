"""A table's tags and branches that its owner's rules let go, and the commit that takes them out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from firnline_domain.base.values import Value
from firnline_domain.settings.ref_rules import NamedRef, expired_refs
from py4j.protocol import Py4JJavaError
from pyiceberg.table.refs import SnapshotRefType

from firnline_iceberg.table.loaded_table import LoadedTable

_MOVED = "org.apache.iceberg.exceptions.CommitFailedException"
_LEAST_MS = 1  # an age limit that no ref has had before


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
    """All that there are."""
    return _refs_of_kind(table, SnapshotRefType.TAG)


def _refs_of_kind(table: LoadedTable, kind: SnapshotRefType) -> list[NamedRef]:
    return [
        NamedRef(name, table.snapshot(ref.snapshot_id).timestamp_ms)
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type is kind and table.retains(ref.snapshot_id)
    ]


def remove_refs(jvm: Any, operations: Any, seen: LoadedTable, names: Collection[str]) -> bool:
    """Remove refs in one commit that is tried once; False where one of them has moved since it was
    `seen`.

    Taking a ref out asks a catalog for nothing (Iceberg 1.12, `UpdateRequirements`), so a commit to
    the branch in this moment would be lost. Setting a ref asks for the head that it had: so each is
    given an age limit in the same commit, before it goes. Raises Py4JJavaError."""
    base = operations.current()
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    make = jvm.org.apache.iceberg.SnapshotRef.builderFrom
    for name in names:
        ref = base.ref(name)
        if ref is None or ref.snapshotId() != seen.metadata.refs[name].snapshot_id:
            return False
        limit_ms = _LEAST_MS if ref.maxRefAgeMs() != _LEAST_MS else _LEAST_MS + 1
        builder.setRef(name, make(ref).maxRefAgeMs(limit_ms).build()).removeRef(name)
    try:
        operations.commit(base, builder.build())
    except Py4JJavaError as error:
        if jvm.java.lang.Class.forName(_MOVED).isInstance(error.java_exception):
            return False
        raise
    return True
