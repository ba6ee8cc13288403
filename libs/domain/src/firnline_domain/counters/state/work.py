"""Record what is under way for a table and its partitions: tasks out, pauses, failures, floors."""

from __future__ import annotations

from math import ceil

from firnline_domain.base.values import Value, field, replace
from firnline_domain.counters.activity.commit_rate import CommitRate
from firnline_domain.counters.activity.filters import Filters
from firnline_domain.counters.activity.other_maintainers import OtherMaintainer
from firnline_domain.counters.activity.reads import Reads
from firnline_domain.counters.activity.writers import WriterActivity
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.identity import Scope
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.pauses import Pause
from firnline_domain.records.results import ExpiryPreview
from firnline_domain.settings.thresholds import Thresholds

SLOTS, SMALL_SLOTS = 8, 1  # that a rewrite takes of a table's; a small one is done in a second
SLOT_CPU_S = 8.0  # of work in one slot: with 64 CPU s a rewrite takes all that a place has
KEY_SHARE = 0.15  # of a data file's bytes: its key columns, until a conversion has read some
UNDONE = "undone"  # the pause after a person took a rewrite back
ROWS_DIFFER = "rows_differ"  # a commit was read back, and was not what it replaced


class PartitionWork(Value):
    """Maintenance done and planned in one partition.

    `floor` is what the last rewrite left behind: it could do nothing about that, so only what came
    since counts (the fixed point, untouched-file hazard, H10). `arrived` is what came since the
    order went out."""

    floor: Debt = NO_DEBT
    arrived: Debt = NO_DEBT
    debt_since_ms: int | None = None
    oldest_commit_ms: int | None = None  # of that debt; `debt_since_ms` is when it was counted
    arrived_commit_ms: int | None = None  # of what arrived since the order went out: the oldest
    pause: str = ""  # cooling | backing_off | parked | undone, until `until_ms`
    until_ms: int | None = None
    paused_ms: int | None = None  # when the pause began: by a clock that was ahead, it is void
    failures: int = 0  # in a row
    non_retryable: int = 0  # of these, not retryable
    failure: str = ""  # reason code of the last one
    last_task_id: str | None = None
    own_failures: int = 0  # of the failures, those that are not environmental
    earlier_attempts: int = 0  # attempts before `failures` were forgotten
    last_attempt: int = 0  # of the last task that succeeded
    touched_ms: int = (
        0  # when a writer last changed rows of files that it had read (`hot_partitions`)
    )
    hot_since_ms: int | None = None  # since when its debt has waited for it to cool
    out_of_memory: int = 0  # times, since it was last on the ordinary lane
    success_streak: int = 0  # rewrites in a row since the last time
    undersized_since_ms: int | None = None  # the others' debt ages by itself: `debt_since_ms`
    equality_since_ms: int | None = None  # commit of its oldest equality delete
    equality_arrived_ms: int | None = None  # of the oldest that came since the order went out
    positions_since_ms: int | None = None  # since when rows are dead by position, and still there
    chosen_ms: int = 0  # when files were last chosen by their dead rows
    dead_rows: tuple[DeadRows, ...] = ()  # as the last rewrite left them; () = not known
    positions_seen: int = 0  # dead rows by the counters, when that became known
    head_start: float = 0.0  # by which its waits are shorter, as a share of them (`size_spread`)
    unfinished: Slice | None = None  # the last one of a pass that has to go on
    full_ms: int | None = None  # that its interval of full rewrites counts from (`full_rewrites`)
    full_seen_ms: int = 0  # the last change that a full rewrite has left nothing to do about
    sorted_ms: int | None = None  # when it was sorted last, or needed it not (`sorting`)
    sorted_seen_ms: int = 0  # the last change that this has taken into account
    v2_left: int = 0  # delete files of v2 that a conversion has left as they were
    frozen_seen_ms: int = 0  # the last change that it was frozen after (`full_rewrites`)
    requested: str = ""  # the action that a person has asked for, until its order is out

    def with_pause(self, pause: str, until_ms: int, now_ms: int) -> PartitionWork:
        """Begin a pause now; one that an operator has ordered, or has to look at, is not cut short
        by another."""
        lasting = self.pause == UNDONE or self.failure == ROWS_DIFFER
        if lasting and self.until_ms is not None and self.until_ms > until_ms:
            return self
        return replace(self, pause=pause, until_ms=until_ms, paused_ms=now_ms)

    @property
    def attempt(self) -> int:
        """Return the attempt of the next order, or of the one that is out. The same trigger gives
        the same task id, and a worker must not take it for one that it has finished already."""
        return self.failures + self.earlier_attempts + 1


class Partition(Value):
    """One partition of a table's ref: the value of its key in the planner's state."""

    counters: PartitionCounters
    work: PartitionWork = PartitionWork()


class RunningTask(Value):
    """An order that is out."""

    task_id: str
    scope: Scope
    action: str
    reason: str
    trigger_snapshot_id: int
    attempt: int
    ordered_at_ms: int
    deadline_ms: int  # when it counts as lost; later with each heartbeat of its worker
    numbers: dict[str, float] = field(default_factory=dict)
    committed_snapshot_ids: tuple[int, ...] = ()  # reported, not yet in the counters
    committed_at_ms: int | None = None
    group: str = ""  # whose workers it went to; '' = the default group's
    slice: Slice | None = None  # as the committer reported it
    begun_ms: int | None = None  # by a worker that has said so; None: it waits, or is done soon
    run_ms: int = 0  # how long it may run, once begun
    min_dead_ratio: float = 0.0
    dead_rows: tuple[DeadRows, ...] = ()  # that its result has left

    @property
    def slots(self) -> int:
        """Return the number of slots that the task takes; each place of a table has `SLOTS`."""
        numbers = self.numbers
        cheap = numbers.get("rewrite_bytes", 1.0) <= numbers.get("cheap_bytes", 0.0)
        return slots_of(cheap, numbers.get("rewrite_cpu_s", SLOTS * SLOT_CPU_S))


def slots_of(cheap: bool, cpu_s: float) -> int:
    """Choose slots by the work: 16 rewrites at once would keep a table of 10,000 partitions busy
    for hours, however many workers there are, though each is done in seconds."""
    return SMALL_SLOTS if cheap else min(max(ceil(cpu_s / SLOT_CPU_S), SMALL_SLOTS), SLOTS)


class StatisticsAt(Value):
    """State of a table when its statistics were computed last."""

    of: str = ""  # `firnline.statistics`; "" = never
    rows_changed: int = 0  # by `TableCounters.rows_changed`
    head_snapshot_id: int | None = None  # of the partition statistics


class ActionWork(Value):
    """An action on a table as a whole."""

    task_id: str | None = None  # in flight
    deadline_ms: int = 0
    rounds: int = 0  # orders that came to an end; part of the next one's id
    finished_ms: int | None = None
    fruitless: int = 0  # rounds in a row that did nothing
    refused: str = ""  # reason code of the last refusal or failure
    reason: str = ""  # why it was, or was not, ordered
    due_ms: int | None = None  # when time may change that
    announced_ms: int | None = None  # since when people know what will go (`aged_partitions`)
    announced_h: float = 0.0  # by which age
    done_ms: int | None = None  # when it was done, of what is done once, or once in a period
    wanted_ms: int | None = None  # since when it waits for the budget
    found_files: float | None = None  # that the last one took away, or announced; None = none yet
    found_bytes: float = 0.0  # of these
    statistics: StatisticsAt = StatisticsAt()
    ordered_statistics: StatisticsAt = StatisticsAt()  # those of the order in flight

    def is_announced(self, now_ms: int) -> bool:
        """Return True if it was announced, and not by a clock that was set back since."""
        return self.announced_ms is not None and self.announced_ms <= now_ms


class ExpiryWork(ActionWork):
    """Expiry of a table's snapshots."""

    unobserved: int = 0  # snapshots expired, less those that commits have reported
    going: ExpiryPreview = ExpiryPreview()


class GivenAdvice(Value):
    """A word of advice that holds: since when, and what it was told with last."""

    since_ms: int
    lead: float = 0.0  # its leading number
    mark: int = 0  # of its text, where that says more than a number


class Promised(Value):
    """The age that no equality delete of the table shall reach, and the commit of the oldest."""

    max_age_ms: int
    oldest_ms: int


class ServiceLevel(Value):
    """Service level of the table. `turnaround_ms`: from an order to its commit, of the longest of
    the last ones; the others are as of the last publication. `off_objective`: partitions that miss
    an objective."""

    turnaround_ms: int = 0
    promised: Promised | None = None
    off_objective: int = 0


class TableWork(Value):
    """Maintenance in one ref of a table."""

    running: tuple[RunningTask, ...] = ()
    expiry: ExpiryWork = ExpiryWork()
    actions: dict[str, ActionWork] = field(default_factory=dict)  # on the whole table; by name
    reconcile_ms: int | None = None  # when some partition may deserve another decision
    publish_ms: int | None = None  # when to publish the table's state; None = nothing new
    published_ms: int = 0  # when it was published last
    commit_rate: CommitRate = CommitRate()  # of our own commits
    service: ServiceLevel = ServiceLevel()
    other: OtherMaintainer | None = None
    activity: WriterActivity = WriterActivity()
    advice: dict[str, GivenAdvice] = field(default_factory=dict)  # by rule
    reads: Reads | None = None  # what its readers report
    filters: Filters | None = None  # and by which columns they filter
    key_share: float = KEY_SHARE  # of its data files' bytes, as conversions have read them
    duplicate: str = ""  # what was said of a file that the table has twice, until a rewrite is fine

    def task_of(self, scope: Scope) -> RunningTask | None:
        """Return the partition's running task, if there is one."""
        for task in self.running:  # a loop: asked with every change
            if task.scope == scope:
                return task
        return None

    def find_task(self, task_id: str) -> RunningTask | None:
        """Return the order of that id, if it is out."""
        for task in self.running:
            if task.task_id == task_id:
                return task
        return None

    @property
    def uncommitted_times(self) -> frozenset[int]:
        """Return the times of the orders of which no commit was reported yet. Those of one moment
        share one (`RewriteFiles.batch_size`)."""
        running = self.running
        return frozenset(task.ordered_at_ms for task in running if task.committed_at_ms is None)

    def has_room(self, places: int, limits: Thresholds) -> bool:
        """Return True if so many places are free."""
        taken = sum(task.slots for task in self.running)
        return taken + places <= limits.max_in_flight * SLOTS

    def add_task(self, task: RunningTask) -> TableWork:
        """Add one more order that is out; a partition has at most one."""
        others = tuple(one for one in self.running if one.scope != task.scope)
        pace = replace(
            self.commit_rate, ordered_ms=max(self.commit_rate.ordered_ms, task.ordered_at_ms)
        )
        return replace(self, running=(*others, task), commit_rate=pace)

    def drop_task(self, task: RunningTask) -> TableWork:
        """Drop an order."""
        return replace(
            self, running=tuple(one for one in self.running if one.task_id != task.task_id)
        )

    def reconciled_by(self, at_ms: int | None) -> TableWork:
        """Return the work with its next reconcile at `at_ms` at the latest."""
        if at_ms is None or (self.reconcile_ms is not None and self.reconcile_ms <= at_ms):
            return self
        return replace(self, reconcile_ms=at_ms)


class Table(Value):
    """One ref of a table: the value of its key in the planner's state.

    `pause` is kept by itself: it holds for tables that are not known yet, too.
    """

    counters: TableCounters
    work: TableWork = TableWork()
    pause: Pause | None = None
