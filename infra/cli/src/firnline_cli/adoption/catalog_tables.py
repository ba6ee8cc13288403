"""Tables of a catalog for an adoption: by name, by their newest summary, by manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from firnline_domain.base.values import replace
from firnline_domain.errors import AccessDenied, LoginRefused, RetryLater, TaskRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE, refusal_reason
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_domain.settings.thresholds import ExpiryMode, Thresholds, resolve_thresholds
from firnline_iceberg.expiry.snapshot_selection import (
    expiring_snapshots,
    keep_for_streams,
    preview_expiry,
)
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.catalog_client import Tables, Unlisted
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone

from firnline_cli.adoption.newcomers import (
    FirstExpiry,
    Newcomer,
    by_manifests,
    by_summary,
    summary_of,
)

Name = tuple[str, ...]
T = TypeVar("T")
TRIES = 4  # over 7 s: a catalog that is started anew is back by then
PAUSE_S = 1.0  # doubles


class Unreadable(Exception):
    """A table cannot be read, and no retry helped; the message says why."""


class Outage(Unreadable):
    """Catalog or storage did not answer: it is perhaps not the table's fault."""


class Gone(Exception):
    """The catalog has no such table."""


class AdoptionCatalog(Protocol):
    """A catalog with tables to adopt."""

    @property
    def catalog_path(self) -> str:
        """Return `TableName.catalog_path` of its tables. Raises RetryLater."""

    def table_names(self, below: Name, unlisted: Unlisted) -> Iterator[Name]:
        """Yield namespace levels and name of every table of a namespace and of those below it; of
        all for (). `unlisted` gets the namespaces that cannot be listed. Raises RetryLater, and
        TaskRefused if there is no such namespace."""

    def weigh_by_summary(self, name: Name) -> Newcomer:
        """Weigh a table by its newest snapshot's summary. Raises Gone, Unreadable."""

    def weigh_by_manifests(self, newcomer: Newcomer) -> Newcomer:
        """Weigh the table exactly, by its manifests. Raises Gone, Unreadable."""

    def first_expiry(self, table: TableName) -> FirstExpiry:
        """Return what an expiry would delete of the table, by all of its snapshots. Raises Gone if
        the name belongs to no table now or to another one, Unreadable."""


@dataclass
class CatalogLake:
    """A `AdoptionCatalog` over one catalog. `tables` should load no more snapshots than refs need:
    a table may have thousands, and its newest one is enough to weigh it. `whole` loads all, for
    tables that are adopted."""

    tables: Tables
    whole: Tables
    fleet: Thresholds
    sleep: Callable[[float], None]
    now: Callable[[], float]
    policies: TablePolicies = NO_POLICIES
    _namespaces: dict[Name, dict[str, str]] = field(default_factory=dict)

    @property
    def catalog_path(self) -> str:
        return self.tables.catalog_path

    def table_names(self, below: Name, unlisted: Unlisted) -> Iterator[Name]:
        return self.tables.table_names(below, unlisted)

    def weigh_by_summary(self, name: Name) -> Newcomer:
        table = self._retry(lambda: self.tables.load_named(name[:-1], name[-1]))
        limits = self._thresholds_of(table)
        head = table.head_id(MAIN)
        if head is None:
            return Newcomer(table.identity, 0, 0, 0, 0, 0.0)
        said = table.snapshot(head).summary
        weighed = by_summary(
            table.identity,
            summary_of(said.additional_properties if said else {}),
            limits,
            partitioned=any(spec.fields for spec in table.metadata.partition_specs),
            format_version=table.format_version,
        )
        return replace(weighed, head_snapshot_id=head)

    def weigh_by_manifests(self, newcomer: Newcomer) -> Newcomer:
        table = self._retry(lambda: self.tables.load(newcomer.table))
        limits, head = self._thresholds_of(table), table.head_id(MAIN)
        if head is None:
            return Newcomer(table.identity, 0, 0, 0, 0, 0.0)
        held = self._retry(
            lambda: partition_changes(
                live_entries(table, head, Detail.COUNTS), target_bytes_of(self._settings_of(table))
            )
        )
        return by_manifests(table.identity, held, limits)

    def first_expiry(self, table: TableName) -> FirstExpiry:
        whole, now_ms = self._retry(lambda: self.whole.load(table)), int(self.now() * 1000)
        count, limits = len(whole.snapshots), self._thresholds_of(whole)
        order = ExpireSnapshots(
            "", table, EXPIRE, "", 0, 1, now_ms, now_ms,
            older_than_ms=0, retain_last=1, protected_snapshot_ids=(), begins_at_ms=now_ms,
        )  # fmt: skip
        if why := refusal_reason(order, self._settings_of(whole), now_ms):
            return FirstExpiry(count, reason=why)
        grace_ms = limits.expire_grace_ms if limits.expire is ExpiryMode.CAREFUL else 0
        begins_ms = now_ms + grace_ms
        older_than_ms = keep_for_streams(
            whole, self._settings_of(whole), begins_ms - limits.retention_ms
        )
        gone = expiring_snapshots(whole, older_than_ms, limits.min_snapshots, begins_ms)
        return FirstExpiry(count, preview_expiry(whole, gone), grace_ms)

    def properties(self, name: Name) -> Mapping[str, str]:
        """Return the table's own properties. Raises Gone, Unreadable."""
        return self._retry(lambda: self.tables.load_named(name[:-1], name[-1])).properties

    def _thresholds_of(self, table: LoadedTable) -> Thresholds:
        return resolve_thresholds(self._settings_of(table), self.fleet)

    def _settings_of(self, table: LoadedTable) -> Mapping[str, str]:
        namespace = table.identity.namespace
        if namespace not in self._namespaces:
            self._namespaces[namespace] = self._retry(
                lambda: self.tables.namespace_properties(table.identity)
            )
        found = with_namespace(table.properties, self._namespaces[namespace])
        return self.policies.with_policies(table.identity, found)

    def _retry(self, read: Callable[[], T]) -> T:
        for left in reversed(range(TRIES)):
            try:
                return read()
            except TableGone as error:
                raise Gone(str(error)) from None
            except LoginRefused as error:
                raise Outage(str(error)) from None
            except AccessDenied as error:  # an answer, and no other is to be expected
                raise Unreadable(str(error)) from None
            except RetryLater as error:
                if not left:
                    raise Outage(str(error)) from None
                self.sleep(PAUSE_S * 2 ** (TRIES - 1 - left))
            except (TaskRefused, MetadataFileGone) as error:
                raise Unreadable(str(error)) from None
            except Exception as error:  # what is odd about one table is said of it alone
                raise Unreadable(f"{type(error).__name__}: {error}"[:500]) from error
        raise AssertionError
