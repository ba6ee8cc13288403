"""Rewrites committed through Iceberg's Java API, all of one commit in one transaction.

Pinned: Java applies them only onto the snapshot that was examined. It looks again after every
refresh (`validateWith`, Iceberg 1.11), and the catalog after that (`assert-ref-snapshot-id`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from cachetools import FIFOCache
from firnline_domain.commits.hold_header import HEADER, PASS
from firnline_domain.errors import AccessDenied as RuledOut
from firnline_domain.errors import HeapTooSmall, StorageRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.summaries import BY_VERSION, TASK_ID
from firnline_domain.records.results import TableForm
from firnline_domain.version import VERSION
from py4j.protocol import Py4JJavaError

from firnline_iceberg.commit.rewrite import (
    CommitRejected,
    Committed,
    CommitUnknown,
    HeadMoved,
    ManifestBase,
    Outcome,
    Rewrite,
    signed_here,
)
from firnline_iceberg.commit.single_send import (
    HeadPin,
    MaySend,
    SentOperations,
    SingleSend,
    WrittenMetadata,
    accept_any,
    always_send,
    as_it_is,
    written_metadata,
)
from firnline_iceberg.connection.call_metrics import count_call
from firnline_iceberg.connection.connection import Catalog, connection_of
from firnline_iceberg.java import errors as java_errors
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import Jvm
from firnline_iceberg.java.loops import JavaLoops
from firnline_iceberg.table.write_format import form_of_java

PATIENCE_S = 60
KNOWN_S = 20.0  # a catalog's credentials for a table's files last longer
MOST_KNOWN = 16  # tables; more than are committed to at once
_EXCEPTIONS = "org.apache.iceberg.exceptions"
_UNMERGED = {"commit.manifest-merge.enabled": "false"}
_MOVED = f"{_EXCEPTIONS}.CommitFailedException"
_GONE = f"{_EXCEPTIONS}.NoSuchTableException"
_REASONS = {
    "Missing required files to delete": ConflictReason.INPUTS_GONE,
    "found new position delete": ConflictReason.NEW_POSITION_DELETES,
    "found new delete": ConflictReason.NEW_POSITION_DELETES,
    "Cannot determine history": ConflictReason.START_NOT_ANCESTOR,
}


@dataclass(frozen=True)
class _Files:
    """A rewrite's files as Java lists."""

    removed: Any
    added: Any
    added_deletes: Any


@dataclass
class _Prepared:
    """A Java transaction whose manifests are written. Told to commit again, it applies its changes
    to the head of that moment, and of its manifests writes anew only those that are not as they
    were: in the end the list, and the table's metadata."""

    transaction: Any
    send: SingleSend
    ref: str
    rewrites: tuple[Rewrite, ...]
    merges: bool
    manifest_base: ManifestBase | None = None

    def matches(
        self,
        ref: str,
        rewrites: tuple[Rewrite, ...],
        manifest_base: ManifestBase | None,
        merges: bool,
    ) -> bool:
        """Return True if the prepared transaction is of the same ref and rewrites, and its
        manifests can be committed onto the head `manifest_base`."""
        if (
            self.manifest_base is None
            or manifest_base is None
            or not self.manifest_base.can_serve(manifest_base)
        ):
            return False
        return (self.ref, self.rewrites, self.merges) == (ref, rewrites, merges)

    def written_metadata(self) -> WrittenMetadata:
        """Return the metadata files that the transaction has written."""
        made = self.transaction
        return written_metadata(made.startMetadata(), made.currentMetadata(), self.ref)


@dataclass
class _CachedTable:
    """A table as its last try had it."""

    java: Any
    since_s: float
    prepared: _Prepared | None = None


class TableCommits(Protocol):
    """Finds the client that commits to a table: `JavaCommits`, `catalogs.CatalogCommits`."""

    def for_table(self, table: TableName) -> JavaCommits:
        """Return the client of the catalog that a table is in."""


class JavaCommits:
    """Commits to the tables of one REST catalog. Many threads, but for one table one at a time."""

    def __init__(self, iceberg: Jvm, catalog: Catalog, patience_s: int = PATIENCE_S) -> None:
        """Open the Java catalog. `patience_s`: for one answer of the catalog."""
        self._iceberg = iceberg
        self._jvm = iceberg.jvm
        settings = {
            "rest.client.socket-timeout-ms": str(patience_s * 1000),
            "io.manifest.cache-enabled": "true",  # a next try reads most of them again
            f"header.{HEADER}": PASS,  # a gateway lets go of the table when this is answered
        }
        self._name = connection_of(catalog).name
        self._make = partial(rest_catalog, self._jvm, catalog, **settings)
        self._catalog = self._make()
        self._transactions = self._jvm.org.apache.iceberg.Transactions
        self._loops = JavaLoops(self._jvm)
        self._known = FIFOCache[TableName, _CachedTable](MOST_KNOWN)
        self._lock = threading.Lock()

    def for_table(self, table: TableName) -> JavaCommits:
        """Return this client: all tables are in its catalog."""
        return self

    def commit(
        self,
        table: TableName,
        ref: str,
        pinned: int,
        rewrites: tuple[Rewrite, ...],
        may_send: MaySend = always_send,
        form: TableForm | None = None,
        manifest_base: ManifestBase | None = None,
        merges: bool = True,
    ) -> Outcome:
        """Make the rewrites, in order, children of snapshot `pinned`, the head of `ref`.

        `may_send` is asked as the last thing before the request goes out; no means Moved, and so
        does a table that is not of `form` any more: its head is the pinned one all the same.
        `manifest_base`: of the pinned head; where the last try had the same rewrites and its own
        base serves this one, its manifests are used again (docs/decisions/0011). `merges`:
        small manifests, as the table's properties want it; all are then written at every try.
        Blocks for one catalog round trip per try. Raises RetryLater if the table cannot be
        loaded; nothing was sent then. Raises JvmEnded: perhaps something was.
        """
        with self._iceberg.watch():
            holds = accept_any if form is None else lambda base: form_of_java(base) == form

            def attempt_commit(known: _CachedTable) -> Outcome:
                prepared, known.prepared = known.prepared, None
                if prepared is not None and prepared.matches(ref, rewrites, manifest_base, merges):
                    prepared.send.try_again(pinned, may_send, holds)
                else:
                    pin = HeadPin(pinned, ref)
                    known, changes = self._with_files(table, known, rewrites)
                    seen = as_it_is if merges else self._without_merging
                    send = SingleSend(
                        known.java.operations(), pin, may_send, holds, seen, self._count_commit
                    )
                    begun = self._prepare(table, ref, rewrites, changes, send, merges)
                    if not isinstance(begun, _Prepared):
                        self._keep_table(table, known)
                        return begun
                    prepared = begun
                outcome = self._commit_prepared(prepared)
                if manifest_base is not None and isinstance(outcome, HeadMoved):
                    prepared.manifest_base, known.prepared = manifest_base, prepared
                self._keep_table(table, known)
                return outcome

            try:
                return attempt_commit(self._take_cached(table))
            except StorageRefused:  # nothing was sent; its keys may be those of a moment ago
                return attempt_commit(self._read_table(table))

    def abandon(self, table: TableName) -> None:
        """Drop a table's last try: nothing that was written for it is used again, and may be
        removed."""
        with self._lock:
            if (known := self._known.get(table)) is not None:
                known.prepared = None

    def _prepare(
        self,
        table: TableName,
        ref: str,
        rewrites: tuple[Rewrite, ...],
        changes: list[_Files],
        send: SingleSend,
        merges: bool,
    ) -> _Prepared | Outcome:
        """Apply all changes to the head, without sending. Raises RetryLater."""
        try:
            # from here on, which is from the table's last refresh, every millisecond counts
            operations = SentOperations(send)
            transaction = self._transactions.newTransaction(table.dotted_name, operations)
        except Py4JJavaError as error:
            if send.unsent:
                return HeadMoved(send.unsent)
            raise java_errors.catalog_unreachable(error, self._name) from error
        try:
            for number, (rewrite, files) in enumerate(zip(rewrites, changes, strict=True)):
                pin = send.pin if number == 0 else None
                self._add_rewrite(transaction, rewrite, files, ref, table.uuid, pin)
        except Py4JJavaError as error:
            return self._outcome_of_unsent(error, send.pin)
        return _Prepared(transaction, send, ref, rewrites, merges)

    def _without_merging(self, metadata: Any) -> Any:
        """Return the same table for a commit that leaves small manifests alone. Of this property
        nothing reaches the catalog: a commit is the changes that were made to what is shown
        here."""
        builder = self._jvm.org.apache.iceberg.TableMetadata.buildFrom(metadata)
        builder = builder.setProperties(_UNMERGED).discardChanges()
        return builder.withMetadataLocation(metadata.metadataFileLocation()).build()

    def _commit_prepared(self, prepared: _Prepared) -> Outcome:
        """Send the prepared transaction once, and return the outcome. Raises the errors of
        `_outcome_of_unsent`."""
        send = prepared.send
        try:
            prepared.transaction.commitTransaction()
        except Py4JJavaError as error:
            if send.unsent:
                return HeadMoved(send.unsent, send.written or prepared.written_metadata())
            if send.error is None:
                return self._outcome_of_unsent(error, send.pin)
            return self._outcome_of_error(send.error, send.written)
        return Committed(send.written)

    def _with_files(
        self, table: TableName, known: _CachedTable, rewrites: tuple[Rewrite, ...]
    ) -> tuple[_CachedTable, list[_Files]]:
        """Build the Java files of the rewrites; load the table again if the cached one lacks their
        spec. Raises RetryLater."""
        try:
            return known, self._make_all_files(known, rewrites)
        except Exception:  # as it was a moment ago, it had no such spec; Spark has names of its own
            known = self._read_table(table)
        try:
            return known, self._make_all_files(known, rewrites)
        except Py4JJavaError as error:
            raise java_errors.catalog_unreachable(error, self._name) from error

    def _take_cached(self, table: TableName) -> _CachedTable:
        """Return the table as the last try had it, if that was a moment ago: a transaction
        refreshes it anyway."""
        with self._lock:
            known = self._known.pop(table, None)  # until nothing has gone wrong
        if known is None or time.monotonic() - known.since_s > KNOWN_S:
            return self._read_table(table)
        return known

    def _read_table(self, table: TableName) -> _CachedTable:
        """Load the table in Java, once more with a new token if the catalog refuses this one.
        Raises RetryLater."""
        since_s = time.monotonic()
        try:
            return _CachedTable(self._load_java(table), since_s)
        except Py4JJavaError as error:
            if java_errors.is_unauthorized(error):
                return self._read_anew(table, since_s)
            raise java_errors.catalog_unreachable(error, self._name) from error

    def _read_anew(self, table: TableName, since_s: float) -> _CachedTable:
        """Load the table by a new Java catalog: the old one keeps a token that the catalog has
        revoked until it expires. Raises RetryLater."""
        try:
            self._catalog = self._make()
            return _CachedTable(self._load_java(table), since_s)
        except Py4JJavaError as error:
            raise java_errors.catalog_unreachable(error, self._name) from error

    def _keep_table(self, table: TableName, known: _CachedTable) -> None:
        with self._lock:
            self._known[table] = known

    def _load_java(self, table: TableName) -> Any:
        return load_table(self._jvm, self._catalog, table)

    def _make_all_files(self, known: _CachedTable, rewrites: tuple[Rewrite, ...]) -> list[_Files]:
        """Make the Java files of all rewrites: removed ones, added ones and added deletes."""
        specs = known.java.specs()

        def make_files(texts: Sequence[str]) -> Any:
            return self._loops.content_files(specs, texts)

        return [
            _Files(
                make_files(one.removed),
                make_files(one.added),
                make_files([text for text, _ in one.added_deletes]),
            )
            for one in rewrites
        ]

    def _add_rewrite(
        self,
        transaction: Any,
        rewrite: Rewrite,
        files: _Files,
        ref: str,
        uuid: str,
        pin: HeadPin | None,
    ) -> None:
        change = self._operation_of(rewrite)(transaction, rewrite, files)
        if ref != MAIN:
            change.toBranch(ref)
        if not rewrite.drops and not rewrite.appends:
            change.validateFromSnapshot(rewrite.start_snapshot_id)
        tasks = {TASK_ID: ",".join(rewrite.task_ids), BY_VERSION: VERSION}
        for name, value in signed_here({**tasks, **rewrite.notes}, uuid).items():
            change.set(name, value)
        if pin is not None:
            change.validateWith(pin)
        change.commit()
        if rewrite.properties:
            wanted = transaction.updateProperties()
            for name, value in rewrite.properties.items():
                wanted.set(name, value)
            wanted.commit()

    def _operation_of(self, rewrite: Rewrite) -> Callable[[Any, Rewrite, _Files], Any]:
        if rewrite.kept:
            return self._row_delta
        if rewrite.appends:
            return self._new_append
        return self._new_deletion if rewrite.drops else self._new_rewrite

    def _row_delta(self, transaction: Any, rewrite: Rewrite, files: _Files) -> Any:
        change = transaction.newRowDelta()
        self._loops.call_for_each(change, "RowDelta", "removeDeletes", files.removed, "DeleteFile")
        self._loops.call_for_each(
            change, "RowDelta", "addDeletes", files.added_deletes, "DeleteFile"
        )
        kept = self._jvm.java.util.ArrayList(len(rewrite.kept))
        for path in rewrite.kept:
            kept.add(path)
        change.validateDataFilesExist(kept)
        change.validateDeletedFiles()
        return change

    def _new_deletion(self, transaction: Any, _: Rewrite, files: _Files) -> Any:
        change = transaction.newDelete()
        self._loops.call_for_each(change, "DeleteFiles", "deleteFile", files.removed, "DataFile")
        return change.validateFilesExist()

    def _new_append(self, transaction: Any, _: Rewrite, files: _Files) -> Any:
        change = transaction.newAppend()
        self._loops.call_for_each(change, "AppendFiles", "appendFile", files.added, "DataFile")
        return change

    def _new_rewrite(self, transaction: Any, rewrite: Rewrite, files: _Files) -> Any:
        change = transaction.newRewrite()
        for kind in ("DataFile", "DeleteFile"):
            self._loops.call_for_each(change, "RewriteFiles", "deleteFile", files.removed, kind)
        self._loops.call_for_each(change, "RewriteFiles", "addFile", files.added, "DataFile")
        for file, (_, number) in zip(files.added_deletes, rewrite.added_deletes, strict=True):
            change.addFile(file) if number is None else change.addFile(file, number)
        change.dataSequenceNumber(rewrite.data_sequence_number)
        return change

    def _count_commit(self, seconds: float, error: Py4JJavaError | None) -> None:
        """Count a commit by its HTTP status, derived from the class of the Java exception; None if
        the exception is no answer of the catalog."""
        status: int | None = 200
        if error is not None:
            known = {_MOVED: 409, _GONE: 404, java_errors.UNAUTHORIZED: 401,
                     java_errors.FORBIDDEN: 403, java_errors.CLEANABLE: 400}  # fmt: skip
            status = next(
                (code for name, code in known.items() if self._is_instance(error, name)), None
            )
        count_call(self._name, "POST", seconds, status)

    def _outcome_of_unsent(self, error: Py4JJavaError, pin: HeadPin) -> Outcome:
        """Return the outcome of a commit that Iceberg's client has refused before it was sent:
        HeadMoved, or rejected if its own checks failed. Raises RuledOut, HeapTooSmall."""
        if pin.lost:
            return HeadMoved(_error_text(error))
        if self._is_instance(error, f"{_EXCEPTIONS}.ValidationException") or self._is_instance(
            error, "java.lang.IllegalArgumentException"
        ):
            return _commit_rejected(error)
        found = java_errors.catalog_unreachable(error, self._name)
        if isinstance(found, RuledOut | HeapTooSmall):
            raise found from error  # nothing has moved, and trying at once again changes nothing
        return HeadMoved(_error_text(error))  # a manifest gone with its snapshot

    def _outcome_of_error(self, error: Py4JJavaError, written: WrittenMetadata | None) -> Outcome:
        if self._is_instance(error, _MOVED) or self._is_instance(error, _GONE):
            return HeadMoved(_error_text(error), written)
        if self._is_instance(error, java_errors.CLEANABLE):
            return replace(_commit_rejected(error), written=written)
        return CommitUnknown(_error_text(error), written)

    def begin(self, table: TableName) -> None:
        """Give a table that has never had a snapshot an empty one: a commit is pinned to a head.
        Raises RetryLater, JvmEnded."""
        with self._iceberg.watch():
            try:
                found = self._load_java(table)
                if found.currentSnapshot() is None:
                    found.newFastAppend().set(BY_VERSION, VERSION).commit()
            except Py4JJavaError as error:
                raise java_errors.catalog_unreachable(error, self._name) from error

    def undo(self, table: TableName, ref: str, ours: int, parent: int) -> bool:
        """Set `ref` back from `ours` to `parent`; False if another commit has landed since.

        One try, and no API that tries again: a repeated one would undo the other commit.
        Raises RetryLater if the outcome is unknown, JvmEnded.
        """
        with self._iceberg.watch():
            return self._reset_branch(table, ref, ours, parent)

    def _reset_branch(self, table: TableName, ref: str, ours: int, parent: int) -> bool:
        """Set the branch to `parent` if its head is still the snapshot `ours`. Return False if it
        is not. Raises RetryLater."""
        try:
            operations = self._load_java(table).operations()
            base = operations.current()
            head = base.ref(ref)
            if head is None or head.snapshotId() != ours:
                return False
            metadata = self._jvm.org.apache.iceberg.TableMetadata
            back = metadata.buildFrom(base).setBranchSnapshot(parent, ref).build()
            operations.commit(base, back)
        except Py4JJavaError as error:
            if self._is_instance(error, _MOVED):
                return False
            raise java_errors.catalog_unreachable(error, self._name) from error
        return True

    def _is_instance(self, error: Py4JJavaError, name: str) -> bool:
        return bool(self._jvm.java.lang.Class.forName(name).isInstance(error.java_exception))


def _commit_rejected(error: Py4JJavaError) -> CommitRejected:
    text = _error_text(error)
    found = (reason for sign, reason in _REASONS.items() if sign in text)
    return CommitRejected(next(found, ConflictReason.REJECTED), text)


def _error_text(error: Py4JJavaError) -> str:
    return str(error.java_exception)[:1000]
