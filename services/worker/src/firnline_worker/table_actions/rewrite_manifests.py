"""Rewrites a table's small manifests, data and delete ones, through Iceberg's own action: sorted by
partition, so that a reader of few partitions opens few manifests. No row and no data file changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from firnline_domain.base.numbers import whole_range
from firnline_domain.errors import CatalogUnreachable
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult, table_result
from firnline_iceberg.commit.rewrite import of_task
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import ManifestFile
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from py4j.protocol import Py4JJavaError

from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out

TARGET_BYTES = "commit.manifest.target-size-bytes"
TARGET_RANGE, DEFAULT_TARGET_BYTES = whole_range(1_000, 1 << 30), 8 << 20
FULL_SHARE = 0.75  # of the target, from which on a manifest is left alone
TRIES = 3  # a writer that merges manifests takes some away from under us


@dataclass(frozen=True)
class ManifestRewriter:
    """The rewrite of a table's small manifests."""

    tables: Tables
    java: JavaTables
    worker: str
    now_ms: Callable[[], int]

    def rewrite(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""
        before = _head_manifests(self.tables.load(order.table))
        for attempt in range(TRIES):
            try:
                chosen = small_manifests(self.tables.load(order.table))
                if all(self._rewrite_small(order, small) for small in chosen):
                    break
            except (Py4JJavaError, MetadataFileGone) as error:
                if attempt == TRIES - 1:
                    raise CatalogUnreachable(f"rewrite_manifests: {_error_text(error)}") from error
        after = _head_manifests(self.tables.load(order.table))
        stayed = {one.path for one in after}
        rewritten = [one for one in before if one.path not in stayed]
        numbers = {
            "manifests_before": float(len(before)),
            "manifests_after": float(len(after)),
            "manifests_rewritten": float(len(rewritten)),
            "manifest_bytes_rewritten": float(sum(one.length for one in rewritten)),
        }
        return table_result(order, self.worker, self.now_ms(), numbers)

    def _rewrite_small(self, order: TableOrder, small: Sequence[ManifestFile]) -> bool:
        """Commit one manifest or few in place of these. False if a writer has taken them away."""
        actions = self.java.iceberg.spark.actions.SparkActions.get(self.java.session)
        action = actions.rewriteManifests(self.java.load(order.table).java)
        action = action.specId(small[0].spec_id).rewriteIf(_Among(small))
        for name, value in of_task(order.task_id, order.table.uuid).items():
            action = action.snapshotProperty(name, value)
        return bool(action.execute().rewrittenManifests().iterator().hasNext())


@carries_out(ManifestRewrite.name)
def build_manifest_rewriter(tools: ActionTools) -> CarryOut:
    return ManifestRewriter(tools.tables, tools.java, tools.worker, tools.now_ms).rewrite


def small_manifests(table: LoadedTable) -> Iterator[list[ManifestFile]]:
    """Yield those manifests of each spec that fill fewer manifests together; nothing of a spec
    without such."""
    target = TARGET_RANGE.parse(table.properties.get(TARGET_BYTES, "")) or DEFAULT_TARGET_BYTES
    small: dict[int, dict[bool, list[ManifestFile]]] = defaultdict(lambda: defaultdict(list))
    for one in _head_manifests(table):
        if one.length < FULL_SHARE * target:
            small[one.spec_id][one.holds_deletes].append(one)
    for of_spec in small.values():
        chosen = [
            one
            for manifests in of_spec.values()
            if len(manifests) > 1 + sum(one.length for one in manifests) // target
            for one in manifests
        ]
        if chosen:
            yield chosen


def _head_manifests(table: LoadedTable) -> Sequence[ManifestFile]:
    return table.manifests_of(table.head(MAIN))


def _error_text(error: BaseException) -> str:
    cause = error.java_exception if isinstance(error, Py4JJavaError) else error
    return str(cause)[:1000]


class _Among:
    """A Java predicate: one of these manifests."""

    def __init__(self, manifests: Sequence[ManifestFile]) -> None:
        self._paths = {one.path for one in manifests}

    def test(self, manifest: Any) -> bool:
        return manifest.path() in self._paths

    class Java:
        implements = ("java.util.function.Predicate",)
