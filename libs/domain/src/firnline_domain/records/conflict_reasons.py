"""Why a result was not committed."""

from __future__ import annotations

from firnline_domain.reason_code import ReasonCode


class ConflictReason(ReasonCode):
    """Why the committer refused a result (docs/contribute/commit-hazards.md)."""

    FORMAT_VERSION_4 = (
        "format_version_4",
        "the table was upgraded to format version 4 meanwhile, which Firnline does not read",
        "the table is of format version 4 now, which Firnline does not read",
    )
    INPUTS_GONE = (
        "inputs_gone",
        "another commit replaced the files that were rewritten",
        "a file that it replaces has gone meanwhile",
    )
    APPLIED_DELETE_GONE = (
        "applied_delete_gone",
        "a rollback removed an equality delete that the result applied",
        "a delete that it applied was rolled back",
    )
    APPLIED_POSITION_DELETE_GONE = (
        "applied_position_delete_gone",
        "a rollback removed a position delete that the result applied",
        "a position delete that it applied is not there any more",
    )
    NEW_POSITION_DELETES = (
        "new_position_deletes",
        "new position deletes that cannot be carried over",
        "a writer deleted rows in a file that it replaces",
    )
    NEW_DELETION_VECTORS = (
        "new_deletion_vectors",
        "new deletion vectors that cannot be carried over",
        "a writer deleted rows in a file that it replaces",
    )
    OLD_EQUALITY_DELETE = (
        "old_equality_delete",
        "an equality delete that was not applied and would not reach the new files",
        "an equality delete appeared that it has not applied",
    )
    HAZARD_10312 = (
        "hazard_10312",
        "the sequence number of the result would bring deleted rows back (rule 2.4 a), and no "
        "safe form of commit is left",
        "concurrent deletes would have been lost",
    )
    SPEC_CHANGED = (
        "spec_changed",
        "the partition spec changed (rule 2.4 b)",
        "the partition spec changed",
    )
    SCHEMA_CHANGED = (
        "schema_changed",
        "the schema or the name mapping changed",
        "the schema, or the name mapping, changed",
    )
    FORMAT_CHANGED = (
        "format_changed",
        "the table's format version changed, or it is encrypted now",
        "the table's format version changed",
    )
    DUPLICATE_FILES = (
        "duplicate_files",
        "the table lists a file twice",
        "a data or delete file is in the table twice",
    )
    START_NOT_ANCESTOR = (
        "start_not_ancestor",
        "the snapshot that the task read is not in the branch's history",
        "the table was rolled back past its start",
    )
    TABLE_GONE = (
        "table_gone",
        "the table does not exist any more",
        "the table is gone",
    )
    REF_GONE = (
        "ref_gone",
        "the branch does not exist any more",
        "the branch is gone",
    )
    PIN_LOST = (
        "pin_lost",
        "other commits came first at every try",
        "writers were faster at every try",
    )
    TOO_OLD = (
        "too_old",
        "the task began too long ago: its outputs may be swept",
        "it waited too long for its commit; its files may be swept",
    )
    UNREACHABLE = (
        "unreachable",
        "catalog or storage did not answer for 10 minutes",
        "catalog or storage was not reachable",
    )
    COMMITTER_OUT_OF_MEMORY = (
        "committer_out_of_memory",
        "the committer's JVM ran out of memory at this result alone; raise its "
        "`FIRNLINE_HEAP_BYTES`",
        "the committer's memory does not suffice for it (FIRNLINE_HEAP_BYTES)",
    )
    OUTPUTS_GONE = (
        "outputs_gone",
        "another committer refused the result and removed its files",
        "its own output files have gone",
    )
    PROOF_FAILED = (
        "proof_failed",
        "rows in minus rows masked is not rows out, in number or by keys",
        "rows in and rows out did not add up",
    )
    INVALID_OUTPUTS = (
        "invalid_outputs",
        "files that are not the task's own, or not as it says",
        "the result named files that are not its task's",
    )
    REJECTED = (
        "rejected",
        "the catalog or Iceberg refused the commit",
        "the catalog refused the commit",
    )
