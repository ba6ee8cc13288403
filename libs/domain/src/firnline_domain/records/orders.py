"""Orders, in the imperative. An order names table, ref, scope and reason, never files (rule 6)."""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.base.values import Amount, Finite, Identifier, Moment, Signed, Value, field
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.parts.slices import Slice


class RewriteFiles(Value):
    """Rewrite one partition: apply its deletes, merge its fragments.

    `min_dead_ratio`: larger files are rewritten from that share of dead rows on. 0: each that has
    one; 1: none that has a living one. What becomes of the others' deletes says the action.
    """

    task_id: str
    table: TableName
    ref: str
    scope: Scope
    action: str  # compact | convert | merge
    reason: str  # a ReasonCode of `policy`
    trigger_snapshot_id: Identifier
    attempt: Amount
    ordered_at_ms: Moment
    deadline_ms: Moment  # nobody begins it later: the planner has taken the partition back
    numbers: dict[str, Finite] = field(default_factory=dict)  # behind the decision
    batch_size: Amount = 1  # orders of the table made in this moment; their results share a commit
    min_dead_ratio: Finite = 0.0
    max_bytes: Amount = 0  # that the worker takes, of data files; 0 = all. See `policy.slices`
    after: Slice | None = None  # the slice before this one; None = the first, or the only one
    run_ms: Amount = 0  # how long it may run, once begun
    policies: dict[str, str] = field(default_factory=dict)  # settings that they have set


class TableOrder(Value):
    """Do something to a table as a whole. An action that needs more than numbers has a record of
    its own, which is one of these."""

    task_id: str
    table: TableName
    action: str  # one of `policy.table_action.registry`
    reason: str
    trigger_snapshot_id: Identifier
    attempt: Amount
    ordered_at_ms: Moment
    deadline_ms: Moment  # after which the planner takes it for lost
    numbers: dict[str, Finite] = field(default_factory=dict)  # behind the decision
    policies: dict[str, str] = field(default_factory=dict)  # settings that they have set

    @property
    def ref(self) -> str:
        """Return the ref under which the planner keeps the facts of the whole table."""
        return MAIN

    @property
    def scope(self) -> Scope | None:
        """Return None: all partitions."""
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the numbers to show."""
        return self.numbers


class ExpireSnapshots(TableOrder, kw_only=True):
    """Expire a table's snapshots older than a moment; or, with `begins_at_ms`, only find out what
    would go then, so that it can be announced.

    `agreed`: somebody who may has said firnline.expire.enabled=true. Else it was announced, and the
    grace period is over; whoever carries it out looks at table and namespace again.
    """

    older_than_ms: Moment
    retain_last: Amount
    protected_snapshot_ids: tuple[Identifier, ...]  # running tasks may have started from these
    begins_at_ms: Moment | None = None
    agreed: bool = False
    announced_at_ms: Moment | None = None
    grace_ms: Amount = 0

    @property
    def figures(self) -> Mapping[str, float]:
        moment = {"older_than_ms": self.older_than_ms, "retain_last": self.retain_last}
        return {**moment, **self.numbers}


class CompareRows(Value):
    """Read back what a task's commit took out of a partition and what it put in."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope
    snapshot_ids: tuple[Identifier, ...]  # of the commit, in order
    attempt: Amount  # of those that came from one place
    requested_by: str  # committer | a person
    ordered_at_ms: Moment


TaskOrder = RewriteFiles | TableOrder | CompareRows
"""What a worker is given: it answers each with a result of the same task id."""


class ResyncTable(Value):
    """Send the changes between two snapshots of a ref again, or absolute counters.

    `known_snapshot_id` is the head up to which the planner has folded; None = nothing.
    """

    table: TableName
    ref: str
    known_snapshot_id: Identifier | None
    wanted_snapshot_id: Identifier | None  # None = whatever the head is by then
    reason: str
    requested_at_ms: Moment


class UnparkTable(Value):
    """Free what failures have parked, or a person has held: it may be ordered at once.

    `partition`: its canonical text, in whatever spec; None = all. Repeated, it does no more.
    """

    table: TableName
    ref: str
    partition: str | None
    requested_by: str
    requested_at_ms: Moment


class RunAction(Value):
    """Do one action on a table now: `action` is one of `policy.operator_requests.ACTIONS`.

    Of a rewrite the partitions that the policy would rewrite, if neither `partition` (its canonical
    text, in whatever spec) nor `every_partition` says otherwise. Repeated, it is done again.
    """

    table: TableName
    ref: str
    action: str
    partition: str | None
    every_partition: bool
    requested_by: str
    requested_at_ms: Moment


class HoldPartitions(Value):
    """Order nothing for these partitions before a moment; an order that is out goes on."""

    table: TableName
    ref: str
    scopes: tuple[Scope, ...]
    reason: str  # a `policy.Reason` of a pause: undone
    until_ms: Moment
    requested_by: str
    requested_at_ms: Moment


class PauseMaintenance(Value):
    """Order nothing more, and commit nothing of what is out, until ResumeMaintenance.

    `table` None = of the whole fleet, tables that come later included; such an order is in every
    partition of its topic. Repeated, the later one's words hold.
    """

    table: TableName | None
    reason: str  # in a person's words; may be empty
    requested_by: str
    requested_at_ms: Moment


class ResumeMaintenance(Value):
    """Take back the PauseMaintenance of the same table, or of the fleet; others stay."""

    table: TableName | None
    requested_by: str
    requested_at_ms: Moment


class SizeWorkers(Value):
    """Give a lane's workers so many steps of memory beyond what they were set up with; this is one
    bucket's wish, and the most of all holds (`worker_memory`). `heap` is the JVM's, `overhead` all
    other. A step is 2 GB or a fifth, whichever is more.
    """

    lane: str
    bucket: Signed
    heap_steps: Amount
    overhead_steps: Amount
    reason: str  # out_of_memory | recovered | repeated
    numbers: dict[str, Finite]
    at_ms: Moment  # holds for three days
    group: str = ""  # whose workers; '' = the default group's


class MoveTable(Value):
    """Keep a table in that bucket from now on; None = at home (`assignments`). Repeated, it does
    no more."""

    table: TableName
    bucket: Signed | None
    requested_by: str
    requested_at_ms: Moment
    reason: str = ""


class RecallTable(Value):
    """Give a table back to its home, with all that is kept of it (`assignments`)."""

    table_key: str
    epoch: Amount  # under which it was given away
