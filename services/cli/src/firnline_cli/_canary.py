"""Which tables are the canary, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, RewriteSkipped
from firnline_domain.records.results import ALREADY_COMMITTED, RowsCompared, TaskFailed

from firnline_cli._adoption_known import Known, KnownTable
from firnline_cli._canary_choice import Bird, Outcome, chosen
from firnline_cli._newcomers import Newcomer
from firnline_cli._topics import Topics

TOPIC = "maintenance-events"
NO_FAULT = frozenset({"paused", ALREADY_COMMITTED})


_KINDS = ("committed", "skipped", "failed", "conflicted", "equal", "differ")


@dataclass(frozen=True)
class Canary:
    """The uuids of its tables, adopted or not."""

    uuids: frozenset[str]

    @classmethod
    def of(cls, known: Iterable[KnownTable], newcomers: Iterable[Newcomer], share: float) -> Canary:
        """Chosen among all tables that there are."""
        birds = [Bird(one.uuid, one.namespace, one.bytes) for one in known]
        birds += [Bird(one.table.uuid, one.table.namespace, one.bytes) for one in newcomers]
        return cls(chosen(birds, share))

    def among(self, newcomers: Iterable[Newcomer]) -> list[Newcomer]:
        """Those that belong to it."""
        return [one for one in newcomers if one.table.uuid in self.uuids]

    def outcome(self, known: Known, topics: Topics) -> Outcome:
        """What the planner shows of its tables and what was told of their tasks: in a month,
        which is what the topic keeps. Raises RetryLater."""
        told: Counter[str] = Counter()
        for _, record in topics.news(TOPIC, self.uuids.__contains__):
            told[_kind(record)] += 1
        adopted = [found for uuid in self.uuids if (found := known.of(uuid))]
        return Outcome(
            tables=len(self.uuids),
            adopted=len(adopted),
            parked=sum(one.parked for one in adopted),
            failing=sum(one.failing for one in adopted),
            **{name: told[name] for name in _KINDS},
        )


def _kind(record: object) -> str:
    match record:
        case RewriteCommitted():
            return "committed"
        case RewriteSkipped():
            return "skipped"
        case TaskFailed(reason=reason):
            return "" if reason in NO_FAULT else "failed"
        case RewriteConflicted():
            return "conflicted"
        case RowsCompared(outcome=outcome):
            return outcome
    return ""
