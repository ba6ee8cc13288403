"""State that the planner publishes of a table: its counters and its last decisions
(`table-states`)."""

from __future__ import annotations

from firnline_domain.base.values import Amount, Finite, Identifier, Moment, Value, field
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.pauses import TableHold

TABLE_STATUSES = (  # that people see of a table: one of them
    *("not_counted", "resync", "stuck", "off", "paused", "held"),
    *("working", "failing", "cooling", "waiting", "healthy"),
)


class TriggerForecast(Value):
    """When a trigger of a rewrite fires by the counters of now, if no earlier one does.

    `at_ms`: time alone does it then. `waits_for`: it has reached its threshold, and this reason
    keeps it back. None and '': it is `due`, or only a commit can make it fire."""

    reason: str
    due: bool
    at_ms: Moment | None = None
    waits_for: str = ""


class PartitionState(Value):
    """One partition: what it holds and why it was, or was not, chosen."""

    scope: Scope
    holds: FileTally
    status: str  # idle | in_flight | cooling | backing_off | parked
    reason: str  # reason code of the last decision
    numbers: dict[str, Finite] = field(default_factory=dict)
    task_id: str | None = None
    until_ms: Moment | None = None
    failures: Amount = 0
    debt_files: Amount = 0  # how many fewer a compaction would leave
    # Of the deepest few: the triggers that apply, in the order in which they are asked.
    triggers: tuple[TriggerForecast, ...] = ()


class TableAdvice(Value):
    """Improvement that the owner of a table could make, by one rule; the newest state of it
    (`advice`).

    `numbers` are what the rule was judged by, `limits` what they passed, by the same names."""

    table: TableName
    ref: str
    rule: str  # a rule of `advice.RULES`
    withdrawn: bool
    finding: str
    remedy: str
    numbers: dict[str, Finite]
    limits: dict[str, Finite]
    since_ms: Moment
    at_ms: Moment


class TableReads(Value):
    """Rate at which a partition of the table is read, as its readers report."""

    reported: Finite  # scans in an hour
    since_ms: Moment  # when the first report came
    in_force: Finite  # scans in an hour that debt is weighed by (firnline.reads-from)


class ExpiryPlan(Value):
    """Snapshots that are to go, as it was announced; numbers by their summaries."""

    begins_ms: Moment
    snapshots: Amount
    files: Amount
    bytes: Amount


class SettingInForce(Value):
    """One setting as it holds for a table.

    `name` is Firnline's (or Iceberg's) property and `value` its text, '' = unset. `problem`:
    a value that is not in force, and why. `policy`: the pattern of the policy that sets it.
    """

    name: str
    value: str
    origin: str  # an Origin
    problem: str = ""
    policy: str = ""


class TableState(Value):
    """A table's state after a fold; the record of the compacted topic `table-states`."""

    table: TableName
    ref: str
    head_snapshot_id: Identifier | None
    sequence_number: Identifier
    epoch: Amount
    ordinal: Amount
    format_version: Amount
    holds: FileTally
    partition_count: Amount
    partitions: tuple[PartitionState, ...]  # at most 100, the deepest in debt first
    snapshot_count: Amount | None  # None = unknown
    oldest_snapshot_ms: Moment | None
    waiting_for_resync: bool
    settings: dict[str, str]
    expiry_reason: str
    removed: bool
    updated_at_ms: Moment
    hold: TableHold | None = None  # what keeps all its orders back
    # Settings that are not the default, or have a problem; None: left out (`shrinking`).
    in_force: tuple[SettingInForce, ...] | None = None
    advised: tuple[str, ...] = ()  # rules of the advice that holds
    reads: TableReads | None = None  # None: nobody has reported a scan
    statuses: dict[str, Amount] = field(default_factory=dict)  # of all partitions
    expiry_plan: ExpiryPlan | None = None  # None: nothing is announced, or it has begun
    debt_files: Amount = 0  # the same, of all partitions
    actions: dict[str, str] = field(default_factory=dict)  # on the whole table: name -> reason
    action_numbers: dict[str, dict[str, Finite]] = field(default_factory=dict)  # behind it
    # That hold delete files of v2, of a table that is to be v3 (`v2_deletes`) and is; else None.
    v2_partitions: Amount | None = None
    metadata_bytes: Amount | None = None  # of the table's metadata as JSON; None = unknown
