"""What handling one record comes to: records to send, and what to count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from firnline_adapters import metrics
from firnline_adapters.dead_letters import DEAD_LETTERS, dead_letter_key
from firnline_adapters.record_sizes import TooLarge, dead_letter_of_unsent, encode_to_fit
from firnline_domain.identity import Scope

from firnline_planner.ranking import Candidate

SERVICE = "planner"
Place = tuple[bytes, Scope]  # a table's key in the state, and its partition
Bid = tuple[str, Candidate[Place]]  # and the purse that is to pay for it
EXPIRY_TASKS = "expiry-tasks"
RESYNC_REQUESTS = "resync-requests"
TABLE_STATES = "table-states"
ADVICE = "advice"


class Sent(NamedTuple):
    """One record on its way to its topic."""

    topic: str
    key: str
    value: bytes | None
    partition: int


@dataclass(frozen=True)
class Output:
    """One record to send, None = that its key is no more; into `partition`, None = that of the
    bucket that is being handled."""

    topic: str
    key: str
    record: Any
    partition: int | None = None

    def sent(self, bucket: int, at_ms: int) -> Sent:
        """As it is sent, from a bucket; about a record that its topic takes in no form goes a dead
        letter instead, so that the others of its transaction are sent."""
        place = bucket if self.partition is None else self.partition
        if self.record is None:
            return Sent(self.topic, self.key, None, place)
        try:
            return Sent(
                self.topic, self.key, encode_to_fit(self.topic, self.key, self.record), place
            )
        except TooLarge as error:
            metrics.count("dead_letters", reason=error.reason)
            letter = dead_letter_of_unsent(self.topic, place, self.key, error, SERVICE, at_ms)
            key = dead_letter_key(letter)
            return Sent(DEAD_LETTERS, key, encode_to_fit(DEAD_LETTERS, key, letter), bucket)


@dataclass
class Step:
    """Collects while one record is handled."""

    outputs: list[Output] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)  # of `folding.Verdict`
    outcomes: list[str] = field(default_factory=list)  # of tasks that ended
    bids: dict[Place, Bid | None] = field(default_factory=dict)  # None = it wants nothing now
    looked_at_all: set[bytes] = field(default_factory=set)  # tables: they have no other bids
    spent_gb_hours: float = 0.0  # foretold, of the budget

    def include(self, other: Step) -> None:
        """Add all that another record came to."""
        self.outputs += other.outputs
        self.verdicts += other.verdicts
        self.outcomes += other.outcomes
        self.bids |= other.bids
        self.looked_at_all |= other.looked_at_all
        self.spent_gb_hours += other.spent_gb_hours

    def send(self, outputs: Iterable[Output]) -> None:
        """Add records to send."""
        self.outputs.extend(outputs)
