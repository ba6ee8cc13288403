"""Reasons why a result was not committed."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode


class ConflictReason(ReasonCode):
    """Reasons why the committer refused a result (docs/conflicts.md)."""

    FORMAT_VERSION_4 = (
        "format_version_4",
        "The table was upgraded to format version 4, which Firnline does not support.",
        "the table was upgraded to format version 4, which is not supported",
    )
    INPUTS_GONE = (
        "inputs_gone",
        "Another commit replaced or removed a file that the task rewrote.",
        "another commit removed a file that it replaces",
    )
    APPLIED_DELETE_GONE = (
        "applied_delete_gone",
        "A rollback removed an equality delete that the task applied.",
        "an applied delete was rolled back",
    )
    APPLIED_POSITION_DELETE_GONE = (
        "applied_position_delete_gone",
        "A rollback removed a position delete that the task applied.",
        "an applied position delete was rolled back",
    )
    NEW_POSITION_DELETES = (
        "new_position_deletes",
        "A writer deleted rows of the replaced files, and these deletes cannot be carried over "
        "to the new files.",
        "a writer deleted rows in a file that it replaces",
    )
    NEW_DELETION_VECTORS = (
        "new_deletion_vectors",
        "A writer added deletion vectors to the replaced files, and these cannot be carried "
        "over to the new files.",
        "a writer deleted rows in a file that it replaces",
    )
    OLD_EQUALITY_DELETE = (
        "old_equality_delete",
        "The table has an equality delete that the task did not apply and that would not apply "
        "to the new files.",
        "a new equality delete was not applied",
    )
    HAZARD_10312 = (
        "hazard_10312",
        "The result's sequence number would make deleted rows visible again, and no safe form "
        "of the commit exists.",
        "concurrent deletes would have been lost",
    )
    SPEC_CHANGED = (
        "spec_changed",
        "The partition spec changed.",
        "the partition spec changed",
    )
    SCHEMA_CHANGED = (
        "schema_changed",
        "The schema or the name mapping changed.",
        "the schema, or the name mapping, changed",
    )
    FORMAT_CHANGED = (
        "format_changed",
        "The table's format version changed, or the table was encrypted.",
        "the table's format version changed",
    )
    DUPLICATE_FILES = (
        "duplicate_files",
        "A data or delete file is in the table twice. Delete it and append it once, or roll "
        "back, then run `firnline unpark TABLE`.",
        "a data or delete file is in the table twice",
    )
    START_NOT_ANCESTOR = (
        "start_not_ancestor",
        "The snapshot that the task read is not in the branch's history, for example after a "
        "rollback.",
        "the table was rolled back",
    )
    TABLE_GONE = (
        "table_gone",
        "The table does not exist any more.",
        "the table is gone",
    )
    REF_GONE = (
        "ref_gone",
        "The branch does not exist any more.",
        "the branch is gone",
    )
    PIN_LOST = (
        "pin_lost",
        "Other commits came first at every attempt.",
        "other commits came first at every attempt",
    )
    TOO_OLD = (
        "too_old",
        "The task started too long ago: its output files may have been removed.",
        "it waited too long for its commit; its files may have been removed",
    )
    UNREACHABLE = (
        "unreachable",
        "The catalog or storage did not respond for 10 minutes.",
        "the catalog or storage did not respond",
    )
    COMMITTER_OUT_OF_MEMORY = (
        "committer_out_of_memory",
        "The committer's JVM ran out of memory for this result. Raise the committer's "
        "`FIRNLINE_HEAP_BYTES`.",
        "the committer has too little memory for it (FIRNLINE_HEAP_BYTES)",
    )
    STREAMING_READERS = (
        "streaming_readers",
        "The snapshot of a conversion would stop streaming readers (`firnline.streaming-readers`). "
        "The files are rewritten when that pays off.",
        "a conversion would stop streaming readers (firnline.streaming-readers); its files are "
        "rewritten when that pays off",
    )
    OUTPUTS_GONE = (
        "outputs_gone",
        "The result's files do not exist: another committer refused it and removed them.",
        "its output files were removed",
    )
    PROOF_FAILED = (
        "proof_failed",
        "Row count or key checksum of inputs, deleted rows and outputs do not match.",
        "row count or key checksum does not match",
    )
    INVALID_OUTPUTS = (
        "invalid_outputs",
        "The result names files that are not the task's, or that differ from its description.",
        "the result names files of another task",
    )
    REJECTED = (
        "rejected",
        "The catalog or Iceberg's library rejected the commit. The message contains its reason.",
        "the catalog refused the commit",
    )
