"""Forecasts each table of a catalog, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import click
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_domain.settings.table_rules import TableRule, asked_names
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.commit.partition_last_change import LastChanges
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.catalog_client import Tables, Unlisted
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.rule_facts import rule_facts

from firnline_cli.forecast.forecast import Forecast, SeenTable, forecast
from firnline_cli.shared.fleet import name_levels, table_of

Name = tuple[str, ...]


@dataclass(frozen=True)
class Unread:
    """A table that could not be read, or a namespace that could not be listed, and why."""

    name: str
    why: str


@dataclass
class Forecasts:
    """A reader of tables that has them judged. `more`: properties as if the tables had set them.
    `unlisted`: namespaces whose tables are missing."""

    tables: Tables
    fleet: Thresholds
    more: Mapping[str, str]
    policies: TablePolicies = NO_POLICIES
    unlisted: Unlisted = field(default_factory=dict)
    _namespaces: dict[Name, dict[str, str]] = field(default_factory=dict)

    def table_names(self, table: str | None, namespace: str | None) -> Iterator[Name]:
        """Yield one table, those of a namespace and of those below it, or all. Raises
        ClickException."""
        if table is not None:
            yield self._name_in_catalog(table)
            return
        within = name_levels(namespace) if namespace else ()
        try:
            for name in self.tables.table_names((), self.unlisted):
                if name[:-1][: len(within)] == within:
                    yield name
        except RetryLater as error:
            raise click.ClickException(str(error)) from None

    def _name_in_catalog(self, dotted: str) -> Name:
        """Return the name as the catalog has it; as it is typed if the catalog has no such table,
        or does not answer."""
        try:
            found = table_of(self.tables, dotted)
        except (RetryLater, TaskRefused):
            found = None
        if found is None:
            return name_levels(dotted)
        return (*found.identity.namespace, found.identity.name)

    def forecast_table(self, name: Name, now_ms: int) -> Forecast | Unread:
        """Return the tasks that would be ordered for a table."""
        try:
            return forecast(
                self._read_seen(self.tables.load_named(name[:-1], name[-1])), self.fleet, now_ms
            )
        except (RetryLater, TaskRefused, MetadataFileGone) as error:
            return Unread(".".join(name), str(error))
        except Exception as error:  # what is odd about one table is said of it alone
            return Unread(".".join(name), f"{type(error).__name__}: {error}"[:500])

    def _read_seen(self, table: LoadedTable) -> SeenTable:
        head = table.head_id(MAIN)
        own = {**table.properties, **self.more}
        layered = with_namespace(own, self._namespace_properties(table.identity.namespace))
        settings = self.policies.with_policies(table.identity, layered)
        changes = LastChanges(table)
        entries = () if head is None else live_entries(table, head, Detail.COUNTS)
        manifests = () if head is None else table.manifests_of(table.snapshot(head))
        size = sum(one.length for one in manifests)
        partitions = partition_changes(changes.note_entries(entries), target_bytes_of(settings))
        rules = self.policies.rules_of(table.identity)
        seen = seen_of(table, settings, partitions, len(manifests), size, rules)
        return replace(
            seen, changed_ms={one.scope: changes.changed_ms(one.scope) for one in partitions}
        )

    def _namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Return all properties of a namespace; the catalog is asked once. Raises RetryLater."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = self.tables.namespace_properties(
                TableName("", namespace, "")
            )
        return self._namespaces[namespace]


def seen_of(
    table: LoadedTable,
    settings: Mapping[str, str],
    partitions: tuple[PartitionChange, ...],
    manifests: int,
    manifest_bytes: int,
    rules: tuple[TableRule, ...] = (),
) -> SeenTable:
    """Return a table's newest snapshot, with its manifests counted."""
    head, times = table.head_id(MAIN), [one.timestamp_ms for one in table.snapshots]
    return SeenTable(
        table=table.identity,
        settings=settings,
        format_version=table.format_version,
        snapshot_id=head,
        snapshot_ms=0 if head is None else table.snapshot(head).timestamp_ms,
        snapshot_count=len(times),
        oldest_snapshot_ms=min(times, default=None),
        partitions=partitions,
        manifests=manifests,
        manifest_bytes=manifest_bytes,
        rules=rules,
        facts=rule_facts(table, asked_names(rules)),
    )
