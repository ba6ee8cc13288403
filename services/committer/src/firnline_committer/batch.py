"""Results that are committed together, and what has come of them so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline_domain.events import RewriteCommitted, RewriteConflicted
from firnline_domain.identity import TableName
from firnline_domain.results import RewriteFinished
from firnline_domain.swaps import Conversion, Repair
from firnline_iceberg.one_try import Attempt

from firnline_committer.settlement import Settled

Event = RewriteCommitted | RewriteConflicted
Attempts = list[tuple[int, Attempt]]  # with the snapshot that each was pinned to


@dataclass
class Batch:
    """Results of one table and ref, no two with a task or an input in common."""

    table: TableName
    ref: str
    open: dict[str, RewriteFinished]
    events: list[Event] = field(default_factory=list)
    repairs: list[Repair | Conversion] = field(
        default_factory=list
    )  # written, and not yet seen to be settled
    attempts: Attempts = field(default_factory=list)  # refused; perhaps there all the same
    sent: bool = False  # a commit went out: what is found in the table then is ours
    why: str = ""  # the last try came to nothing
    waits: int = 0  # for a moment that disturbs nobody
    in_step: bool = False  # that moment is now
    latched: bool = False  # readers of the table wait, and no commit of ours has let them go

    def made(self, found: Settled) -> bool:
        """Whether what is found in the table is ours, and not another committer's."""
        ours = {number for _, attempt in self.attempts for number in attempt.snapshot_ids}
        return self.sent or bool(ours & set(found.snapshot_ids))
