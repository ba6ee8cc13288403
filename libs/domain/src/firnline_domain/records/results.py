"""Results that a worker reports of a task."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from firnline_domain.base.values import Amount, Finite, Identifier, Moment, Signed, Value, field
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.slices import Slice

# Reason codes that workers give and others act on.
ALREADY_COMMITTED = "already_committed"  # the order came again
DUPLICATE_FILES = "duplicate_files"  # the table has a file twice; the committer says it, too
OUT_OF_MEMORY = "out_of_memory"  # the task needs more room
GRACE_PERIOD = "grace_period"  # an expiry was announced, and has not begun yet
FORMAT_VERSION_4 = "format_version_4"  # no program of ours reads the table
METADATA_UNREADABLE = "metadata_unreadable"  # or what it reads is none
NEWEST_VERSION = 3  # of a table's format that is read

REWRITE, COMPARISON = "rewrite", "comparison"  # kinds of `TaskFailed` beside the actions on tables


class Mode(StrEnum):
    """Engine of the rewrite."""

    NATIVE = "native"
    HANDED_OVER = "handed_over"  # Iceberg's own action, which commits by itself


class TableForm(Value):
    """Form in which a table's files are read and written: a result depends on it beside the files
    it names.

    `last_column_id`: of all columns that it ever had. `name_mapping`: checksum of
    `schema.name-mapping.default`, "" if there is none."""

    format_version: Amount
    schema_id: Signed
    last_column_id: Signed
    name_mapping: str = ""
    encrypted: bool = False


class InputFile(Value):
    """A data file that a group replaces."""

    path: str
    sequence_number: Identifier  # data sequence number
    records: Amount
    bytes: Amount


class OutputFile(Value):
    """A data file that a group wrote; `content_file_json` is Iceberg's `ContentFileParser` form."""

    path: str
    records: Amount
    bytes: Amount
    content_file_json: str


class KeyChecksums(Value):
    """Checksums of rows by the columns with these field ids, whatever their order: the sum modulo
    2^64 of a hash per row.

    Rows of a row group that was left out without a look at its keys are in neither `rows_in` nor
    `rows_masked`."""

    field_ids: tuple[Signed, ...]
    rows_in: str
    rows_masked: str
    rows_out: str  # as they were given to the writer of the outputs


class RewriteGroup(Value):
    """Inputs replaced by outputs; rows_in - rows_masked = rows_out, in number and by the checksums
    of their keys, or it is not committed (`row_count_proof`).

    `converts`: the inputs stay. Their masked rows, those that equality deletes have named, become
    position deletes or deletion vectors, which the committer writes from the row map.
    """

    inputs: tuple[InputFile, ...]
    outputs: tuple[OutputFile, ...]
    rows_in: Amount
    rows_masked: Amount
    rows_out: Amount
    keys: KeyChecksums | None = None  # None: no keys are known
    converts: bool = False


class DeleteKind(StrEnum):
    """Kinds of delete files."""

    EQUALITY = "equality"
    POSITION = "position"
    DELETION_VECTOR = "deletion_vector"


class AppliedDelete(Value):
    """A delete file whose rows the task has masked in every input that it applies to."""

    path: str
    kind: DeleteKind
    sequence_number: Identifier
    scope: Scope  # the delete file's own spec and partition
    equality_ids: tuple[Signed, ...] = ()


class RewriteFinished(Value):
    """A rewrite's outputs are written and wait for the commit.

    `start_sequence_number` is the data sequence number of its outputs: every applicable delete up
    to it is applied, none above it (iceberg-rules 2.1).
    """

    task_id: str
    table: TableName
    ref: str
    scope: Scope
    attempt: Amount
    worker: str
    mode: Mode
    start_snapshot_id: Identifier
    start_sequence_number: Identifier
    schema_id: Signed
    groups: tuple[RewriteGroup, ...]
    applied_deletes: tuple[AppliedDelete, ...]
    output_list: str | None  # path of the write-ahead list of output names
    ordered_at_ms: Moment
    started_at_ms: Moment
    first_byte_at_ms: Moment | None
    finished_at_ms: Moment
    handover_reason: str | None = None
    committed_snapshot_id: Identifier | None = None  # set where HANDED_OVER and something was done
    measures: dict[str, Finite] = field(default_factory=dict)
    row_map: str | None = None  # path of the masked rows of all inputs, for a conflict's repair
    batch_size: Amount = 1  # as its order said: with so many it may share a commit
    format_version: Amount = 0  # of the table, when it was planned, and the next two as well
    last_column_id: Signed = 0
    name_mapping: str = ""
    sends_noted: bool = False  # a commit of it is noted beside its list before it is sent
    schema_checksum: str = ""  # of the columns of `schema_id`: ids, types and initial defaults
    slice: Slice | None = None  # None: of a pass that is whole in this one result
    bytes_read: Amount = 0  # of files that were rewritten, and of delete files
    key_bytes: Amount = 0  # of the key columns of converted files, as often as they were read
    delete_records: Amount = 0  # in the equality deletes that were applied
    dead_rows: tuple[DeadRows, ...] = ()  # that are left in larger files; () = not known

    @property
    def form(self) -> TableForm:
        """Return the table's form, when it was planned; encrypted ones are handed over."""
        return TableForm(
            self.format_version, self.schema_id, self.last_column_id, self.name_mapping
        )


class TaskFailed(Value):
    """A task came to an end without a result. `retryable` False = parking is better."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope | None
    kind: str  # rewrite | comparison | the action of a `TableOrder`
    attempt: Amount
    worker: str
    reason: str
    message: str
    retryable: bool
    failed_at_ms: Moment
    memory: str | None = None  # of `out_of_memory`: which one, a `worker_memory.MemoryKind`


class TaskRunning(Value):
    """A worker is at work on an order. Said a minute after it has begun it, and every minute after:
    most orders end before."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope
    attempt: Amount
    worker: str
    started_at_ms: Moment
    at_ms: Moment
    finished: bool = False  # its result is written and waits for the committer
    memory: str | None = None  # that is nearly exhausted, a `worker_memory.MemoryKind`


class RowSums(Value):
    """Sums of some rows, whatever their order: how many, the sum and the exclusive or of Spark's
    xxhash64 of all columns, as decimal texts; in v3 tables with the ids and numbers of the rows."""

    rows: Amount
    hash_sum: str
    hash_xor: str


class RowsCompared(Value):
    """A commit was read back through Iceberg's Spark reader: its old files at the parent of its
    first snapshot, its new ones at its last."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope
    snapshot_ids: tuple[Identifier, ...]
    outcome: str  # equal | differ | skipped
    reason: str | None  # of the latter two
    detail: str
    before: RowSums | None
    after: RowSums | None
    worker: str
    compared_at_ms: Moment


class TableResult(Value):
    """Result of a `TableOrder`; `refused_reason`: why nothing was done."""

    task_id: str
    table: TableName
    action: str
    refused_reason: str | None
    worker: str
    finished_at_ms: Moment
    numbers: dict[str, Finite] = field(default_factory=dict)  # of what was done
    worked_ms: Amount | None = None  # by the worker, from start to end
    expected_s: Finite | None = None  # the order's price in CPU, by what was measured once

    @property
    def refusal(self) -> str:
        """Return why nothing was done yet, or at all; '' = it was done."""
        return self.refused_reason or ""

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the numbers to show."""
        return self.numbers


def table_result(
    order: TableOrder,
    worker: str,
    finished_at_ms: Moment,
    numbers: Mapping[str, float],
    refused_reason: str | None = None,
) -> TableResult:
    """Build the result of an order that was carried out, or of which nothing was done
    (`refused_reason`)."""
    of = (order.task_id, order.table, order.action)
    return TableResult(*of, refused_reason, worker, finished_at_ms, dict(numbers))


class SnapshotsExpired(TableResult, kw_only=True):
    """An expiry ran, was refused (`refused_reason`), or is announced (`begins_at_ms`): then so much
    would go from that moment on, by the summaries of the snapshots, and nothing has gone yet."""

    expired: Amount
    remaining: Amount
    oldest_snapshot_ms: Moment | None
    deleted_files: Amount
    begins_at_ms: Moment | None = None
    going_snapshots: Amount = 0
    going_files: Amount = 0
    going_bytes: Amount = 0

    @property
    def refusal(self) -> str:
        announced = GRACE_PERIOD if self.begins_at_ms is not None else ""
        return self.refused_reason or announced

    @property
    def figures(self) -> Mapping[str, float]:
        if self.refusal == GRACE_PERIOD and not self.refused_reason:
            return {}
        return {
            "snapshots_expired": self.expired,
            "snapshots_remaining": self.remaining,
            "files_deleted": self.deleted_files,
            **self.numbers,
        }


class ExpiryPreview(Value):
    """Files and snapshots that an expiry will take away."""

    snapshots: Amount = 0
    files: Amount = 0
    bytes: Amount = 0
