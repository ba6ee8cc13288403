"""Results that are committed together, and what has come of them so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline_domain.commits.commit_plan import PlannedSnapshot, Written
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.one_try import Attempt

from firnline_committer.settlement import Looked, Settled

Event = RewriteCommitted | RewriteConflicted


@dataclass
class Batch:
    """Results of one table and ref, no two with a task or an input in common."""

    table: TableName
    ref: str
    open: dict[str, RewriteFinished]
    events: list[Event] = field(default_factory=list)
    repairs: list[Written] = field(default_factory=list)  # written, and not yet seen to be settled
    attempts: list[Attempt] = field(default_factory=list)  # refused; perhaps there all the same
    looked: Looked = field(default_factory=Looked)
    doubtful: list[Attempt] = field(default_factory=list)  # whose outcome nobody knows
    sent: dict[str, tuple[PlannedSnapshot, ...]] = field(
        default_factory=dict
    )  # by task, the whole commit: what is found of it then is ours
    tries: int = 0  # that came to nothing
    why: str = ""  # the last one did
    waits: int = 0  # for a moment that disturbs nobody
    in_step: bool = False  # that moment is now
    latched: bool = False  # readers of the table wait, and no commit of ours has let them go

    def made(self, task_id: str, found: Settled) -> bool:
        """Whether what is found in the table is ours, and not another committer's."""
        ours = {number for attempt in self.attempts for number in attempt.snapshot_ids}
        return task_id in self.sent or bool(ours & set(found.snapshot_ids))


@dataclass(frozen=True)
class Turn:
    """What a few tries came to: events of what is dealt with, and `open`, the other records: ask
    again with these, and with whatever came since. Not before `pause_s`, where a race was lost;
    `away`: catalog or storage do not answer."""

    events: Sequence[Any]
    open: Sequence[Any] = ()
    pause_s: float = 0.0
    away: RetryLater | None = None


def to_the_end(turn: Callable[[Sequence[Any]], Turn], records: Sequence[Any]) -> list[Any]:
    """Turn after turn, for who has no other table that waits. Raises RetryLater."""
    events = list[Any]()
    while records:
        one = turn(records)
        events.extend(one.events)
        records = one.open
        if one.away is not None:
            raise one.away
    return events
