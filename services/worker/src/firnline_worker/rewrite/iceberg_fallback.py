"""Hands a table over to Iceberg's own `rewriteDataFiles`, guarded (handover hazard, H15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.summaries import BY_VERSION, TASK_ID, number_in
from firnline_domain.records.results import DUPLICATE_FILES
from firnline_domain.version import VERSION
from firnline_iceberg.commit.rewrite import signed_here, task_ids
from firnline_iceberg.java import errors as java_errors
from firnline_iceberg.java.errors import LOST_RACE
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from py4j.protocol import Py4JJavaError
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import BinaryType, FixedType
from pyspark.errors.exceptions.captured import CapturedException

from firnline_worker.spark.java_api import JavaTables

OPTIONS = {
    # With the default, outputs get the start's sequence number by the unguarded #10312 commit: a
    # concurrent equality delete is then dropped and rows come back. False = such a commit fails.
    "use-starting-sequence-number": "false",
    "partial-progress.enabled": "false",  # one snapshot, one task id
    # It would commit without our task id: see `_remove_dangling_deletes`.
    "remove-dangling-deletes": "false",
    "delete-file-threshold": "1",  # equality deletes count by no other option
    "min-input-files": "2",
}

TWICE = "deleted-duplicate-files"  # of a snapshot's summary
_BYTES = (BinaryType, FixedType)

Guard = Callable[[str], Any]
"""table key -> context manager that holds the table's lease."""


@dataclass(frozen=True)
class Handover:
    """A hand-over that runs the stock action on a whole table, one at a time per table."""

    java: JavaTables
    tables: Tables
    guard: Guard

    def rewrite_data_files(
        self, order: RewriteFiles, table: LoadedTable, reason: str
    ) -> int | None:
        """Return the id of the snapshot that the action committed, the newer of two; None if it
        found nothing to do. Raises TaskRefused if it has lost rows."""
        with self.guard(order.table.key):
            action = self._actions.rewriteDataFiles(self.java.load(order.table).java)
            for name, value in OPTIONS.items():
                action = action.option(name, value)
            if order.action == Action.FULL:
                action = action.option("rewrite-all", "true")
            if condition := condition_of(self.java.iceberg, table, order.scope):
                action = action.filter(condition)
            self._configure(action, order, reason).execute()
            if (rewritten := self._find_commit(order)) is None:
                return None
            refuse_lost_rows(rewritten, order)
            self._remove_dangling_deletes(order, reason)
        newest = self._find_commit(order) or rewritten
        return newest.snapshot_id

    def _remove_dangling_deletes(self, order: RewriteFiles, reason: str) -> None:
        """Remove the delete files that apply to nothing any more, in a commit of its own, as the
        action's option does. But that option gives its commit no property of ours: it would count
        as another maintainer's, to whom the table is left for an hour (decision 0029), and stop an
        undo. If it fails they stay until the next time."""
        action = self._actions.removeDanglingDeleteFiles(self.java.load(order.table).java)
        with suppress(Py4JJavaError, CapturedException):
            self._configure(action, order, reason).execute()

    @property
    def _actions(self) -> Any:
        return self.java.iceberg.spark.actions.SparkActions.get(self.java.session)

    @staticmethod
    def _configure(action: Any, order: RewriteFiles, reason: str) -> Any:
        """Set the order's branch and its task id on an action."""
        said = {TASK_ID: order.task_id, BY_VERSION: VERSION, "firnline.handover-reason": reason}
        for name, value in signed_here(said, order.table.uuid).items():
            action = action.snapshotProperty(name, value)
        return action if order.ref == MAIN else action.toBranch(order.ref)

    def _find_commit(self, order: RewriteFiles) -> Snapshot | None:
        table = self.tables.load(order.table)
        history = table.ancestors(table.head_id(order.ref))
        uuid = order.table.uuid
        return next((one for one in history if order.task_id in task_ids(one.summary, uuid)), None)


def as_java_error(error: Exception) -> Exception:
    """Return Java's own error if PySpark has wrapped it in a class of its own, as it does with
    some; any other error unchanged."""
    origin = error._origin if isinstance(error, CapturedException) else None
    return error if origin is None else Py4JJavaError(str(error), origin)


def refusal_after(reason: str, why: str, error: Exception) -> Exception:
    """Return the outcome of a hand-over that failed. First comes the reason of the hand-over;
    Java's own message follows, in one line."""
    error = as_java_error(error)
    failure = java_errors.failure_of(error) if hasattr(error, "java_exception") else None
    if not isinstance(failure, TaskRefused):
        return failure or error
    text = f"{why.rstrip('.')}; so Iceberg's own action was asked, which failed: {failure}"
    is_race = failure.reason == LOST_RACE
    return TaskRefused(LOST_RACE if is_race else reason, text, failure.retryable)


def refuse_lost_rows(committed: Snapshot, order: RewriteFiles) -> None:
    """Raise TaskRefused `duplicate_files` if a file was added once more while the action ran: it
    has removed that entry, too, and counts it."""
    found = number_in(committed.summary.additional_properties if committed.summary else {}, TWICE)
    if found:
        text = f"{found} entries of files that were added again meanwhile are gone with snapshot "
        remedy = f"{committed.snapshot_id}: `firnline undo {order.task_id}`"
        raise TaskRefused(DUPLICATE_FILES, text + remedy)


def condition_of(iceberg: Any, table: LoadedTable, scope: Scope) -> Any:
    """Return the partition as a filter if every transform is identity over a current column, and
    its text is one that Java takes for a literal; None leaves the action to plan the whole
    table."""
    fields = table.spec(scope.spec_id).fields
    values = json.loads(scope.partition)
    known = all(str(field.transform) == "identity" for field in fields)
    names = [_column_name(table, field.source_id) for field in fields]
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


def _column_name(table: LoadedTable, source_id: int) -> str | None:
    """Return a column's name; None if it was dropped, or contains bytes, for which there is no
    literal."""
    name = table.schema.find_column_name(source_id)
    bytes_ = name is not None and isinstance(table.schema.find_type(source_id), _BYTES)
    return None if bytes_ else name
