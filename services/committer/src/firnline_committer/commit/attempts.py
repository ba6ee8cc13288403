"""The state of a batch of results between two attempts, and of one attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline_domain.commits.commit_plan import PlannedSnapshot, Written
from firnline_domain.commits.conversion_progress import Marks
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.commit.rewrite import Committed, CommitUnknown, Outcome
from firnline_iceberg.commit.single_send import WrittenMetadata

from firnline_committer.commit.found_commits import FoundCommit, OutputSearch
from firnline_committer.commit.sent_requests import Request, commits_of

Plan = tuple[PlannedSnapshot, ...]
Event = RewriteCommitted | RewriteConflicted


@dataclass(frozen=True)
class Examined:
    """A head, and what may be committed onto it: an empty plan if nothing may."""

    head: PinnedHead
    plan: Plan
    starts: Mapping[str, int]  # by task id, the snapshot that its worker has planned on
    notes: Mapping[str, str]  # for the summaries of the commit's snapshots
    since_ms: int  # outputs were seen after this
    noted_lists: tuple[str, ...] = ()  # write-ahead lists beside which a send is noted


@dataclass(frozen=True)
class Attempt:
    """One commit that was given to the catalog's client: the head that was examined, the plan for
    it, and the outcome."""

    head: int  # snapshot
    plan: Plan
    outcome: Outcome
    notes: Mapping[str, str] = field(default_factory=dict)  # in the summaries of its snapshots

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Return the task ids of the results in the plan."""
        return tuple(dict.fromkeys(task for one in self.plan for task in one.task_ids))

    @property
    def request(self) -> Request | None:
        """Return the request that was sent, or may have been; None if its metadata was not written
        for the whole plan."""
        written = self.outcome.written
        if written is None or len(written.snapshot_ids) != len(self.plan):
            return None
        return Request(written, commits_of(self.plan, written, self.notes))

    @property
    def was_sent(self) -> bool:
        """Return whether the catalog has answered the commit, or may have received it."""
        return (
            isinstance(self.outcome, Committed | CommitUnknown) or self.outcome.written is not None
        )


@dataclass
class Leftovers:
    """Files that attempts wrote, and that are not cleared up yet."""

    deletes: list[Written] = field(default_factory=list)  # of repairs and conversions
    refused: list[WrittenMetadata] = field(default_factory=list)  # may be applied all the same
    unknown: list[WrittenMetadata] = field(default_factory=list)  # of attempts of unknown outcome


@dataclass
class ResultBatch:
    """Results of one table and ref, no two with a task or an input in common, between attempts."""

    table: TableName
    ref: str
    open: dict[str, RewriteFinished]  # by task id
    events: list[Event] = field(default_factory=list)  # of the closed ones
    sent: dict[str, tuple[PlannedSnapshot, ...]] = field(
        default_factory=dict
    )  # by task: is, or may be, in the table
    failures: list[str] = field(default_factory=list)  # why, of each attempt that left one open
    noted: set[str] = field(default_factory=set)  # write-ahead lists that have the note
    requests: list[Request] = field(default_factory=list)  # the newest last
    leftovers: Leftovers = field(default_factory=Leftovers)
    search: OutputSearch = field(default_factory=OutputSearch)
    marks: dict[str, Marks | None] = field(default_factory=dict)  # by task id, of earlier slices
    waits: int = 0  # for a writer's commit
    writer_just_committed: bool = False

    def is_ours(self, task_id: str, commit: FoundCommit) -> bool:
        """Return whether a commit found in the table was sent by this committer, and not by another
        one."""
        ours = {number for one in self.leftovers.refused for number in one.snapshot_ids}
        return task_id in self.sent or bool(ours & set(commit.snapshot_ids))


@dataclass(frozen=True)
class AttemptProgress:
    """The outcome of a few attempts: events of the results that are closed, and `open`, the other
    records: ask again with these, and with the later ones. Not before `pause_s` if a race was lost;
    `unreachable`: catalog or storage do not answer."""

    events: Sequence[Any]
    open: Sequence[Any] = ()
    pause_s: float = 0.0
    unreachable: RetryLater | None = None


def until_closed(
    advance: Callable[[Sequence[Any]], AttemptProgress], records: Sequence[Any]
) -> list[Any]:
    """Advance until all records are closed, for a caller that serves no other table. Raises
    RetryLater."""
    events = list[Any]()
    while records:
        progress = advance(records)
        events.extend(progress.events)
        records = progress.open
        if progress.unreachable is not None:
            raise progress.unreachable
    return events
