"""Handing a table over to Iceberg's own `rewriteDataFiles`, guarded (H15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firnline_domain.commands import RewriteFiles
from firnline_domain.identity import MAIN, Scope
from firnline_domain.summaries import TASK_ID
from firnline_iceberg.tables import LoadedTable, Tables
from pyiceberg.types import BinaryType, FixedType

from firnline_worker.java import JavaTables

OPTIONS = {
    # The stock default stamps the start's number and so runs the unguarded #10312 commit: a
    # concurrent equality delete is then dropped and rows come back. False = such a commit fails.
    "use-starting-sequence-number": "false",
    "partial-progress.enabled": "false",  # one snapshot, one task id
    "remove-dangling-deletes": "true",
    "delete-file-threshold": "1",  # equality deletes count by no other option
    "min-input-files": "2",
}

_BYTES = (BinaryType, FixedType)

Guard = Callable[[str], Any]
"""table uuid -> context manager that holds the table's lease."""


@dataclass(frozen=True)
class Handover:
    """Runs the stock action on a whole table, one at a time per table."""

    java: JavaTables
    tables: Tables
    guard: Guard

    def rewrite(self, order: RewriteFiles, table: LoadedTable, reason: str) -> int | None:
        """Id of the snapshot that the action committed; None where it found nothing to do."""
        with self.guard(order.table.uuid):
            java = self.java.load(order.table).java
            action = self._action(java, order, reason)
            if condition := condition_of(self.java.iceberg, table, order.scope):
                action = action.filter(condition)
            action.execute()
        return self._committed(order)

    def _action(self, java: Any, order: RewriteFiles, reason: str) -> Any:
        action = self.java.iceberg.spark.actions.SparkActions.get(
            self.java.session
        ).rewriteDataFiles(java)
        for name, value in OPTIONS.items():
            action = action.option(name, value)
        action = action.snapshotProperty(TASK_ID, order.task_id)
        action = action.snapshotProperty("firnline.handover-reason", reason)
        return action if order.ref == MAIN else action.toBranch(order.ref)

    def _committed(self, order: RewriteFiles) -> int | None:
        table = self.tables.load(order.table)
        for snapshot in table.ancestors(table.head_id(order.ref)):
            summary = snapshot.summary
            if summary and summary.additional_properties.get(TASK_ID) == order.task_id:
                return snapshot.snapshot_id
        return None


def condition_of(iceberg: Any, table: LoadedTable, scope: Scope) -> Any:
    """The partition as a filter where every transform is identity over a column of today, and its
    text is one that Java takes for a literal; None leaves the action to plan the whole table."""
    fields = table.spec(scope.spec_id).fields
    values = json.loads(scope.partition)
    known = all(str(field.transform) == "identity" for field in fields)
    names = [_column(table, field.source_id) for field in fields]
    if not values or not known or any(isinstance(value, float) for value in values):
        return None
    make = iceberg.expressions.Expressions
    terms = [
        make.isNull(name) if value is None else make.equal(name, value)
        for name, value in zip(names, values, strict=True)
        if name is not None
    ]
    if len(terms) < len(fields):
        return None
    condition = terms[0]
    for term in terms[1:]:
        condition = getattr(make, "and")(condition, term)
    return condition


def _column(table: LoadedTable, source_id: int) -> str | None:
    """Its name; None where it was dropped, or holds bytes, which no literal can be made of."""
    name = table.schema.find_column_name(source_id)
    bytes_ = name is not None and isinstance(table.schema.find_type(source_id), _BYTES)
    return None if bytes_ else name
