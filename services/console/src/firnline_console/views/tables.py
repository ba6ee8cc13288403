"""State of a table in the console, and how facts fold into it. Every fold takes the newest of two
by time, so order and repetition do not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from firnline_adapters.records.signing import keys_here
from firnline_domain.base.values import Value, field, replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import (
    FilesChanged,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.parts.summaries import TASK_ID, is_ours
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.pauses import HoldReason, TableHold
from firnline_domain.records.states import TableState

from firnline_console.text.amounts import finite_numbers
from firnline_console.views.statuses import NOT_COUNTED, TableStatus, status_of

IN_CATALOG = "tables in "  # a total: of each catalog's path, so that it is known how many there are


class Naming(Value, order=True):
    """The name of a table, with its source and time. A name from the gateway takes precedence over
    one from other records."""

    by_gateway: bool
    at_ms: int
    namespace: tuple[str, ...]
    name: str


class Life(Value, order=True):
    """The last accepted call that says whether the table exists; a drop wins a tie."""

    at_ms: int = 0
    dropped: bool = False


class LastCommit(Value, order=True):
    """The newest commit that the gateway saw."""

    at_ms: int
    sequence_number: int
    snapshot_id: int | None
    operation: str
    writer: str
    task_id: str  # '' unless it is Firnline's own
    principal: str = ""  # that its bearer token named


class MainCounters(Value):
    """The counters of the main branch, without its partitions."""

    updated_at_ms: int
    epoch: int
    ordinal: int
    ref: str
    head_snapshot_id: int | None
    sequence_number: int
    format_version: int
    holds: FileTally
    partition_count: int
    statuses: dict[str, int]  # of all partitions
    snapshot_count: int | None  # None = unknown
    oldest_snapshot_ms: int | None
    waiting_for_resync: bool
    removed: bool
    status: TableStatus
    debt_files: int  # that a compaction would spare
    hold: TableHold | None = None
    advised: tuple[str, ...] = ()  # rules of the advice that holds
    metadata_bytes: int | None = None  # None = unknown


class TableView(Value):
    """One line of the list of tables."""

    table: TableName  # as it is called now
    naming: Naming
    life: Life = field(default_factory=Life)
    last_commit: LastCommit | None = None
    last_write: LastCommit | None = None  # the newest that is not Firnline's own
    last_change_ms: int = 0  # of what the enricher has read
    summary: MainCounters | None = None

    @property
    def key(self) -> str:
        """Return `TableName.key`, which documents, indexes and links contain."""
        return self.table.key

    @property
    def dotted_name(self) -> str:
        return self.table.dotted_name

    @property
    def is_dropped(self) -> bool:
        return self.life.dropped or (self.summary is not None and self.summary.removed)

    @property
    def debt_files(self) -> int:
        return self.summary.debt_files if self.summary else 0

    @property
    def status(self) -> TableStatus:
        return self.summary.status if self.summary else NOT_COUNTED


class TableStates(Value):
    """The planner's newest state of each ref, partitions included."""

    refs: dict[str, TableState] = field(default_factory=dict)

    @property
    def main(self) -> TableState | None:
        """Return the state of the branch that is maintained."""
        return self.refs.get(MAIN)


def _update_name(
    old: TableView | None, table: TableName, at_ms: int, by_gateway: bool
) -> TableView:
    naming = Naming(by_gateway, at_ms, tuple(table.namespace), table.name)
    if old is None:
        return TableView(table, naming)
    return replace(old, table=table, naming=naming) if naming > old.naming else old


def _is_other_table(old: TableView, table: TableName, renamed_from: tuple[str, ...]) -> bool:
    """Return whether a fact belongs to another table with the same uuid: nothing of it applies to
    this one."""
    return table.path != old.table.path and renamed_from != old.table.path and not old.is_dropped


def fold_commit(old: TableView | None, fact: TableCommitted) -> TableView:
    """Fold in a commit, a creation, a drop or a new name."""
    if old is not None and _is_other_table(old, fact.table, fact.renamed_from):
        return old
    view = _update_name(old, fact.table, fact.committed_at_ms, by_gateway=True)
    life = Life(fact.committed_at_ms, fact.change is TableChange.DROPPED)
    view = replace(view, life=max(view.life, life))
    if not fact.snapshots:
        return view
    commits = [_commit_of(fact, snapshot) for snapshot in fact.snapshots]
    writes = [one for one in commits if not one.task_id]
    return replace(
        view,
        last_commit=_newest_commit([view.last_commit, commits[-1]]),
        last_write=_newest_commit([view.last_write, *writes[-1:]]),
    )


def _commit_of(fact: TableCommitted, snapshot: SnapshotAdded) -> LastCommit:
    tasks, summary = tasks_of(fact.table, snapshot), dict(snapshot.summary)
    if not tasks:
        summary.pop(TASK_ID, None)
    return LastCommit(
        at_ms=fact.committed_at_ms,
        sequence_number=snapshot.sequence_number,
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation,
        writer=writer_of(summary, fact.user_agent or ""),
        task_id=tasks,
        principal=fact.principal or "",
    )


def tasks_of(table: TableName, snapshot: SnapshotAdded) -> str:
    """Return the tasks of this deployment that a snapshot serves; "" for any snapshot of another
    writer."""
    ours = is_ours(snapshot.summary, table.uuid, keys_here())
    return snapshot.summary[TASK_ID] if ours else ""


# Keys of a summary that name an application, the best first.
APPLICATIONS = ("app-name", "app-id", "spark.app.id", "flink.job-id", "trino_query_id")


def writer_of(summary: Mapping[str, str], user_agent: str) -> str:
    """Return the writer: `Firnline`, `spark 4.1.4, nightly-load (local-17)`. If the summary names
    none, return the HTTP client, which is a library more often than an engine."""
    if TASK_ID in summary:
        return "Firnline"
    engine = " ".join(summary[key] for key in ("engine-name", "engine-version") if key in summary)
    named = list(dict.fromkeys(summary[key] for key in APPLICATIONS if summary.get(key)))
    application = f"{named[0]} ({named[1]})" if len(named) > 1 else "".join(named)
    return ", ".join(filter(None, (engine, application))) or user_agent


def _newest_commit(commits: Iterable[LastCommit | None]) -> LastCommit | None:
    """Return the last commit by time; at the same time, by the table's own numbers."""
    known = (one for one in commits if one is not None)
    return max(
        known,
        key=lambda one: (one.at_ms, one.sequence_number, one.snapshot_id or 0),
        default=None,
    )


def fold_change(old: TableView | None, fact: FilesChanged) -> TableView:
    """Keep the time of what the enricher has read, and nothing else: the planner does the
    counting."""
    if old is not None and _is_other_table(old, fact.table, fact.renamed_from):
        return old
    view = _update_name(old, fact.table, fact.timestamp_ms, by_gateway=False)
    return replace(view, last_change_ms=max(view.last_change_ms, fact.observed_at_ms))


def fold_state(old: TableView | None, fact: TableState) -> TableView:
    """Fold in a state of the planner: the table's name, and the counters if they are of the main
    branch and newer than the known ones."""
    view = _update_name(old, fact.table, fact.updated_at_ms, by_gateway=False)
    if fact.ref != MAIN or (view.summary and _version_key(view.summary) >= _version_key(fact)):
        return view
    return replace(view, summary=_to_summary(fact))


def _version_key(state: TableState | MainCounters) -> tuple[int, int, int]:
    # Time first: a planner that lost its store begins with a lower epoch again.
    return state.updated_at_ms, state.epoch, state.ordinal


def _to_summary(state: TableState) -> MainCounters:
    return MainCounters(
        updated_at_ms=state.updated_at_ms,
        epoch=state.epoch,
        ordinal=state.ordinal,
        ref=state.ref,
        head_snapshot_id=state.head_snapshot_id,
        sequence_number=state.sequence_number,
        format_version=state.format_version,
        holds=state.holds,
        partition_count=state.partition_count,
        statuses=dict(sorted(state.statuses.items())),
        snapshot_count=state.snapshot_count,
        oldest_snapshot_ms=state.oldest_snapshot_ms,
        waiting_for_resync=state.waiting_for_resync,
        removed=state.removed,
        status=status_of(state),
        debt_files=state.debt_files,
        hold=state.hold,
        advised=state.advised,
        metadata_bytes=state.metadata_bytes,
    )


def fold_states(old: TableStates | None, fact: TableState) -> TableStates:
    """Replace the state of the ref if this one is newer."""
    refs = dict(old.refs) if old else {}
    if fact.ref not in refs or _version_key(fact) > _version_key(refs[fact.ref]):
        parts = tuple(
            replace(part, numbers=finite_numbers(part.numbers)) for part in fact.partitions
        )
        refs[fact.ref] = replace(fact, partitions=parts)
    return TableStates(refs)


def totals_of(view: TableView) -> Counter[str]:
    """Return what a table adds to the deployment's totals; a dropped one adds only that."""
    if view.is_dropped:
        return Counter(tables_dropped=1)
    home = {f"{IN_CATALOG}{view.table.catalog_path}": 1}
    if view.summary is None:
        return Counter(**home, tables=1)
    holds, summary = view.summary.holds, view.summary
    return Counter(
        **home,
        tables=1,
        tables_waiting=int(summary.waiting_for_resync),
        tables_failing=int(bool(summary.hold and summary.hold.reason == HoldReason.FAILING)),
        partitions=summary.partition_count,
        partitions_parked=summary.statuses.get("parked", 0),
        snapshots=summary.snapshot_count or 0,  # those that are known of
        data_files=holds.all_data.files,
        data_bytes=holds.all_data.bytes,
        records=holds.all_data.records,
        fragments=holds.fragments.files,
        undersized=holds.undersized.files,
        on_target=holds.on_target.files,
        oversized=holds.oversized.files,
        equality_deletes=holds.equality_deletes.files,
        position_deletes=holds.position_deletes.files,
        deletion_vectors=holds.deletion_vectors.files,
        debt_files=summary.debt_files,
        advice=len(summary.advised),
    )
