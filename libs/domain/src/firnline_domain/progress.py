"""What is under way for a table and its partitions: orders out, pauses, failures, floors."""

from __future__ import annotations

from firnline_domain.counters import PartitionCounters, TableCounters
from firnline_domain.debts import NO_DEBT, Debt
from firnline_domain.filters import Filters
from firnline_domain.habits import Habits
from firnline_domain.holds import Pause
from firnline_domain.identity import Scope
from firnline_domain.others import OtherMaintainer
from firnline_domain.pace import Pace
from firnline_domain.reads import Reads
from firnline_domain.thresholds import DAY_MS, Thresholds
from firnline_domain.values import Value, field, replace

BACK_OFF_MS = 10_000  # doubles with each failure in a row
BACK_OFF_MAX_MS = 30 * 60_000
PARK_AFTER = 3  # failures in a row that no retry can help
PARK_AFTER_ANY = 10  # failures in a row that are the partition's own: over an hour of trying
# reasons that say nothing of the partition
SURROUNDINGS = frozenset(
    {"unreachable", "pin_lost", "open_branch", "unpublished_wap", "paused", "trigger_gone"}
)
PLACES, SMALL = 8, 1  # that a rewrite takes of a table's; a small one is done in a second
MERGE = "merge"  # the action of an order that takes undersized files as well
CONVERT = "convert"  # of one that leaves larger files where they are
ALREADY_COMMITTED = "already_committed"  # a worker's word for an order that came again
OUT_OF_MEMORY = "out_of_memory"  # a worker's word for a task that needs more room
BACK_AFTER = 3  # rewrites in a row with room: then the partition goes back to the ordinary lane
PARKED_MS = DAY_MS  # then one more try; a change of the table's settings frees it at once
UNDONE = "undone"  # the pause after a person took a rewrite back
DUPLICATE_FILES = "duplicate_files"  # the table has a file twice; said by workers and committer
ROWS_DIFFER = "rows_differ"  # a commit was read back, and was not what it replaced


class PartitionWork(Value):
    """What maintenance did and plans in one partition.

    `floor` is what the last rewrite left behind: it could do nothing about that, so only what
    came since counts (the fixed point, H10). `arrived` is what came since the order went out.
    """

    floor: Debt = NO_DEBT
    arrived: Debt = NO_DEBT
    debt_since_ms: int | None = None
    pause: str = ""  # cooling | backing_off | parked | undone, until `until_ms`
    until_ms: int | None = None
    failures: int = 0  # in a row
    hopeless: int = 0  # of these, not retryable
    failure: str = ""  # reason code of the last one
    last_task_id: str | None = None
    own: int = 0  # of the failures, those that are not the surroundings'
    spent: int = 0  # attempts before `failures` were forgotten
    last_attempt: int = 0  # of the last task that succeeded
    touched_ms: int = 0  # when a writer last changed rows of files that it had read (`heat`)
    hot_since_ms: int | None = None  # since when its debt has waited for it to cool
    out_of_memory: int = 0  # times, since it was last on the ordinary lane
    well: int = 0  # rewrites in a row since the last time
    undersized_since_ms: int | None = None  # the others' debt ages by itself: `debt_since_ms`
    converted_ms: int | None = None  # since when there are positions that a conversion has left

    def paused(self, pause: str, until_ms: int) -> PartitionWork:
        """With a pause; one that a person has ordered, or has to look at, is not cut short by
        another."""
        lasting = self.pause == UNDONE or self.failure == ROWS_DIFFER
        if lasting and self.until_ms is not None and self.until_ms > until_ms:
            return self
        return replace(self, pause=pause, until_ms=until_ms)

    @property
    def attempt(self) -> int:
        """Of the next order, or of the one that is out. The same trigger gives the same task id,
        and a worker must not take it for one that it has finished already."""
        return self.failures + self.spent + 1


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
    deadline_ms: int
    numbers: dict[str, float] = field(default_factory=dict)
    committed_snapshot_ids: tuple[int, ...] = ()  # told by the committer, not yet in the counters
    committed_at_ms: int | None = None
    group: str = ""  # whose workers it went to; '' = the default group's

    @property
    def places(self) -> int:
        """That it takes, of `PLACES` for each partition that a table may have in work."""
        numbers = self.numbers
        small = numbers.get("rewrite_bytes", 1.0) <= numbers.get("cheap_bytes", 0.0)
        return SMALL if small else PLACES


class Going(Value):
    """What an expiry will take away."""

    snapshots: int = 0
    files: int = 0
    bytes: int = 0


class ExpiryWork(Value):
    """Expiry of a table's snapshots."""

    task_id: str | None = None  # in flight
    deadline_ms: int = 0
    rounds: int = 0  # orders that came to an end; part of the next one's id
    finished_ms: int | None = None
    fruitless: int = 0  # rounds in a row that expired nothing
    refused: str = ""  # reason code of the last refusal or failure
    untold: int = 0  # snapshots that it expired and no commit has told of; < 0: told before
    announcing: bool = False  # the order in flight asks only what would go
    announced_ms: int | None = None
    going: Going = Going()


class Given(Value):
    """A word of advice that holds: since when, and what it was told with last."""

    since_ms: int
    lead: float = 0.0  # its leading number
    mark: int = 0  # of its text, where that says more than a number


class TableWork(Value):
    """What maintenance does in one ref of a table."""

    running: tuple[RunningTask, ...] = ()
    expiry: ExpiryWork = ExpiryWork()
    expiry_reason: str = ""  # why expiry was, or was not, ordered
    expiry_ms: int | None = None  # when time may change that
    look_ms: int | None = None  # when some partition may deserve another decision
    show_ms: int | None = None  # when to publish the table's state; None = nothing new
    shown_ms: int = 0  # when it was published last
    pace: Pace = Pace()  # of our own commits
    other: OtherMaintainer | None = None
    habits: Habits = Habits()
    advice: dict[str, Given] = field(default_factory=dict)  # by rule
    reads: Reads | None = None  # what its readers report
    filters: Filters | None = None  # and by which columns they filter
    duplicate: str = ""  # what was said of a file that the table has twice, until a rewrite is fine

    def task_of(self, scope: Scope) -> RunningTask | None:
        """The partition's order, if one is out."""
        return next((task for task in self.running if task.scope == scope), None)

    def task(self, task_id: str) -> RunningTask | None:
        """The order of that id, if it is out."""
        return next((task for task in self.running if task.task_id == task_id), None)

    @property
    def uncommitted(self) -> frozenset[int]:
        """Moments of the orders out of which no commit was told yet. Those of one moment share
        one (`RewriteFiles.together`)."""
        running = self.running
        return frozenset(one.ordered_at_ms for one in running if one.committed_at_ms is None)

    def has_room(self, places: int, limits: Thresholds) -> bool:
        """Whether so many places are free."""
        taken = sum(one.places for one in self.running)
        return taken + places <= limits.max_in_flight * PLACES

    def started(self, task: RunningTask) -> TableWork:
        """With one more order out; a partition has at most one."""
        others = tuple(one for one in self.running if one.scope != task.scope)
        pace = replace(self.pace, ordered_ms=max(self.pace.ordered_ms, task.ordered_at_ms))
        return replace(self, running=(*others, task), pace=pace)

    def ended(self, task: RunningTask) -> TableWork:
        """With an order gone."""
        return replace(self, running=tuple(one for one in self.running if one is not task))

    def looking(self, at_ms: int | None) -> TableWork:
        """With a look at `at_ms` at the latest."""
        if at_ms is None or (self.look_ms is not None and self.look_ms <= at_ms):
            return self
        return replace(self, look_ms=at_ms)


class Table(Value):
    """One ref of a table: the value of its key in the planner's state.

    `pause` is kept by itself: it holds for tables that are not known yet, too.
    """

    counters: TableCounters
    work: TableWork = TableWork()
    pause: Pause | None = None


def after_change(work: PartitionWork, holds: Debt, added: Debt, now_ms: int) -> PartitionWork:
    """A change is in the partition's counters: what it holds now, what others than we added."""
    grown = replace(work, floor=work.floor.at_most(holds), arrived=work.arrived + added)
    return aged(grown, holds, now_ms)


def aged(work: PartitionWork, holds: Debt, now_ms: int) -> PartitionWork:
    """With the moments since which there is debt."""
    if work.converted_ms is not None and not holds.position_deletes:
        work = replace(work, converted_ms=None)
    grown = holds.beyond(work.floor)
    counted = _since(work.debt_since_ms, any(grown.counted), now_ms)
    undersized = _since(work.undersized_since_ms, grown.undersized > 0, now_ms)
    if (counted, undersized) == (work.debt_since_ms, work.undersized_since_ms):
        return work if grown != NO_DEBT else replace(work, hot_since_ms=None)
    hot = work.hot_since_ms if grown != NO_DEBT else None
    return replace(work, debt_since_ms=counted, undersized_since_ms=undersized, hot_since_ms=hot)


def _since(since_ms: int | None, there: bool, now_ms: int) -> int | None:
    if not there:
        return None
    return now_ms if since_ms is None else since_ms


def ordered(work: PartitionWork) -> PartitionWork:
    """An order went out."""
    return replace(work, arrived=NO_DEBT, pause="", until_ms=None)


def held(work: PartitionWork, until_ms: int) -> PartitionWork:
    """A person took its rewrite back: the same is not ordered again at once. What that had left
    as its floor is no measure any more."""
    spent = max(work.spent, work.last_attempt)
    return replace(work, floor=NO_DEBT, spent=spent).paused(UNDONE, until_ms)


def succeeded(
    work: PartitionWork, holds: Debt, task: RunningTask, limits: Thresholds, now_ms: int
) -> PartitionWork:
    """A task is done and its commit, if it made one, is in the counters.

    What it left, without what came meanwhile, is the floor from now on. Only a merge can do
    anything about undersized files, and one that has lessened them may do so again: there is a most
    that it takes.
    """
    merged, floor = task.action == MERGE, holds.beyond(work.arrived)
    lessened = holds.undersized < task.numbers.get("undersized", 0)
    known = (0 if lessened else holds.undersized) if merged else work.floor.undersized
    rested = PartitionWork(
        floor=replace(floor, undersized=min(known, holds.undersized)),
        undersized_since_ms=work.undersized_since_ms if not merged or lessened else None,
        converted_ms=_converted_ms(work, task, now_ms),
        pause=work.pause,
        until_ms=work.until_ms,
        last_task_id=task.task_id,
        last_attempt=work.attempt,
        touched_ms=work.touched_ms,
        failure=ROWS_DIFFER if work.failure == ROWS_DIFFER else "",
    )
    rested = _with_room(rested, work)
    return aged(rested.paused("cooling", now_ms + limits.cool_down_ms), holds, now_ms)


def _converted_ms(work: PartitionWork, task: RunningTask, now_ms: int) -> int | None:
    """A compaction takes the positions along; a merge is never ordered where there are any."""
    if task.action != CONVERT:
        return None
    return now_ms if work.converted_ms is None else work.converted_ms


def _with_room(rested: PartitionWork, work: PartitionWork) -> PartitionWork:
    """With what is left of its troubles with memory after one more success."""
    well = work.well + 1
    if not work.out_of_memory or well >= BACK_AFTER:
        return rested
    return replace(rested, out_of_memory=work.out_of_memory, well=well)


def has_succeeded(work: PartitionWork, task: RunningTask) -> bool:
    """True if the work already says that this task is done."""
    return (work.last_task_id, work.last_attempt) == (task.task_id, task.attempt)


def failed(work: PartitionWork, reason: str, retryable: bool, now_ms: int) -> PartitionWork:
    """A task came to an end without a commit."""
    failures, hopeless = work.failures + 1, work.hopeless + (not retryable)
    own = work.own + (reason not in SURROUNDINGS)
    after = replace(work, failures=failures, hopeless=hopeless, own=own, failure=reason)
    if reason == OUT_OF_MEMORY:
        after = replace(after, out_of_memory=work.out_of_memory + 1, well=0)
    if hopeless >= PARK_AFTER or (own >= PARK_AFTER_ANY and reason not in SURROUNDINGS):
        return after.paused("parked", now_ms + PARKED_MS)
    back_off = min(BACK_OFF_MS << min(failures - 1, 12), BACK_OFF_MAX_MS)
    return after.paused("backing_off", now_ms + back_off)


def distrusted(work: PartitionWork, now_ms: int) -> PartitionWork:
    """Its last commit changed what readers see: a person has to look before the next one."""
    return replace(work, failure=ROWS_DIFFER).paused("parked", now_ms + PARKED_MS)


def freed(work: PartitionWork) -> PartitionWork:
    """The table's settings changed: what failed may work now."""
    if work.pause not in ("parked", "backing_off"):
        return work
    spent = work.spent + work.failures
    seen = replace(work, failure="") if work.failure == ROWS_DIFFER else work
    return replace(seen, pause="", until_ms=None, failures=0, hopeless=0, own=0, spent=spent)


def unparked(work: PartitionWork) -> PartitionWork:
    """A person says so: whatever failed or was held may be tried again."""
    return freed(replace(work, pause="parked") if work.pause == UNDONE else work)
