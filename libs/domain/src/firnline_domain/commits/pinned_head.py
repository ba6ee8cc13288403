"""Describe what is live in a table at one pinned snapshot, and which delete applies to which data
file.

The protocols are met by the manifest entries of `firnline_iceberg.metadata.entries`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from firnline_domain.base.values import Value
from firnline_domain.commits.schemas import Fields
from firnline_domain.identity import Scope
from firnline_domain.records.results import DeleteKind, TableForm


class LiveFile(Protocol):
    """A live data or delete file; `normal_path` is its normal path, `sequence_number` the data
    one."""

    @property
    def path(self) -> str: ...
    @property
    def normal_path(self) -> str: ...
    @property
    def sequence_number(self) -> int: ...
    @property
    def scope(self) -> Scope: ...


class LiveData(LiveFile, Protocol):
    """A live data file."""

    @property
    def records(self) -> int: ...


class LiveDelete(LiveFile, Protocol):
    """A live delete file; `referenced_data_file` is a normal path, None = the whole partition."""

    @property
    def kind(self) -> DeleteKind: ...
    @property
    def records(self) -> int: ...
    @property
    def is_global(self) -> bool: ...
    @property
    def referenced_data_file(self) -> str | None: ...


class Rest(Value):
    """Live data files that are not named one by one: of them the lowest data sequence number counts
    alone. None: there are none.

    `lowest` is never above the true one, in `by_scope` for those scopes that were asked for;
    `as_listed` is never below what Iceberg goes by, the manifests' own word for it.
    """

    lowest: int | None = None
    as_listed: int | None = None
    by_scope: Mapping[Scope, int] = {}


NO_REST = Rest()


class Head(Value, dict=True, gc=True):
    """A ref's head: everything that the commit of a rewrite depends on.

    `last_sequence_number` is the table's, over all branches. `ancestors` are the retained
    snapshots on the way from the head to its root, the head included; `reaches_root` says that
    none of them was expired. `data` is by normal path, with at least those files that were asked
    for; `rest` are the others. `deletes` are at least those that may be about a scope or a file
    that was asked for. `repeated`: normal paths of files that are
    live more than once. `schemas`: of the table, by id; `schema_checksums` of the
    same. `traced`: snapshots that the head has
    something of, and those behind them (`ancestry`): ancestors, also where none is retained.
    """

    snapshot_id: int
    last_sequence_number: int
    data: Mapping[str, LiveData]
    deletes: tuple[LiveDelete, ...]
    ancestors: frozenset[int]
    retained: frozenset[int]
    reaches_root: bool
    form: TableForm
    schemas: Mapping[int, Fields]
    repeated: frozenset[str] = frozenset()
    rest: Rest = NO_REST
    traced: frozenset[int] = frozenset()
    schema_checksums: Mapping[int, str] = {}

    @cached_property
    def live_deletes(self) -> frozenset[tuple[str, int]]:
        """Normal path and data sequence number of every live delete file."""
        return frozenset((delete.normal_path, delete.sequence_number) for delete in self.deletes)

    @cached_property
    def paths_with_vector(self) -> frozenset[str]:
        """Return the normal paths of the data files that have a deletion vector."""
        vectors = (delete for delete in self.deletes if delete.kind is DeleteKind.DELETION_VECTOR)
        return frozenset(delete.referenced_data_file or "" for delete in vectors)


def reaches_scope(delete: LiveDelete, scope: Scope) -> bool:
    """Return True if an equality delete is about a scope at all (iceberg-rules 4.1)."""
    return delete.is_global or delete.scope == scope


def applies_to(delete: LiveDelete, scope: Scope, sequence_number: int) -> bool:
    """Return True if an equality delete applies to files of `scope` with that number."""
    of_equality = delete.kind is DeleteKind.EQUALITY
    return of_equality and reaches_scope(delete, scope) and delete.sequence_number > sequence_number
