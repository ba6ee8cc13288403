"""The canary, the first share of a fleet: which tables it is, what came of them, and whether the
others may follow.

Which tables they are is counts by their keys, so every call comes to the same ones without anybody
having written them down. Each namespace and each order of magnitude gives its share.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from firnline_domain.base.values import Value
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, RewriteSkipped
from firnline_domain.records.results import ALREADY_COMMITTED, RowsCompared, TaskFailed

from firnline_cli.adoption.counted_tables import CountedTable, CountedTables
from firnline_cli.adoption.newcomers import Newcomer
from firnline_cli.shared.topic_reader import Topics

ENOUGH = 0.9  # of the canary has to be adopted: tables come and grow meanwhile
TOPIC = "maintenance-events"
NO_FAULT = frozenset({"paused", ALREADY_COMMITTED})
_KINDS = ("committed", "skipped", "failed", "conflicted", "equal", "differ")


@dataclass(frozen=True)
class Canary:
    """The keys of its tables, adopted or not."""

    keys: frozenset[str]

    @classmethod
    def of(
        cls, known: Iterable[CountedTable], newcomers: Iterable[Newcomer], share: float
    ) -> Canary:
        """Chosen among all tables that there are."""
        candidates = [Candidate(one.table.key, one.table.namespace, one.bytes) for one in known]
        candidates += [
            Candidate(newcomer.table.key, newcomer.table.namespace, newcomer.bytes)
            for newcomer in newcomers
        ]
        return cls(chosen(candidates, share))

    def among(self, newcomers: Iterable[Newcomer]) -> list[Newcomer]:
        """Those that belong to it."""
        return [newcomer for newcomer in newcomers if newcomer.table.key in self.keys]

    def outcome(self, known: CountedTables, topics: Topics) -> Outcome:
        """What the planner shows of its tables and what became of their tasks: in a month,
        which is what the topic keeps. Raises RetryLater."""
        counts: Counter[str] = Counter()
        for _, record in topics.news(TOPIC, self.keys.__contains__):
            counts[_kind(record)] += 1
        adopted = [found for key in self.keys if (found := known.of(key))]
        return Outcome(
            tables=len(self.keys),
            adopted=len(adopted),
            parked=sum(one.parked for one in adopted),
            failing=sum(one.failing for one in adopted),
            **{name: counts[name] for name in _KINDS},
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


class Candidate(Value):
    """A table that may be of the canary. `bytes`: more of them by a rewrite or two do not count."""

    key: str
    namespace: tuple[str, ...]
    bytes: int

    @property
    def stratum(self) -> tuple[str, ...]:
        """Tables that are alike: of one namespace, and of as many digits in their bytes."""
        return (str(len(str(max(self.bytes, 0)))), *self.namespace)


def chosen(candidates: Iterable[Candidate], share: float) -> frozenset[str]:
    """Uuids of `share` (0 to 1) of the tables, of at least one where there are any.

    Of n that are alike share * n are taken, rounded up or down by a hash of what they have in
    common: of 1,000 namespaces with a table each a share of 5 % is fifty, not none and not all.
    """
    strata: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for candidate in candidates:
        strata[candidate.stratum].append(candidate.key)
    found: set[str] = set()
    for stratum, keys in strata.items():
        ranked = sorted(keys, key=_mark)
        found.update(ranked[: int(share * len(ranked) + _mark("/".join(stratum)))])
    every = (key for keys in strata.values() for key in keys)
    first = min(every, key=_mark, default=None)
    return frozenset(found or ({first} if first and share > 0 else ()))


def _mark(text: str) -> float:
    """0 to 1, without 1."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / (1 << 48)


class Outcome(Value):
    """What came of a canary. Of tasks, those that have an event in `maintenance-events`."""

    tables: int  # that are chosen
    adopted: int  # of these, those that the planner counts
    parked: int  # of these, those with a partition that failed too often
    failing: int  # and those with one that waits after a failure
    committed: int  # tasks, as the next ones
    skipped: int
    failed: int
    conflicted: int
    equal: int  # commits that were read back
    differ: int

    @property
    def ended(self) -> int:
        """Tasks that came to an end, one way or another."""
        return self.committed + self.skipped + self.failed + self.conflicted

    @property
    def troubled(self) -> float:
        """Share of the tasks that failed or were refused."""
        return (self.failed + self.conflicted) / self.ended if self.ended else 0.0

    @property
    def stuck(self) -> float:
        """Share of the tables with something parked."""
        return self.parked / self.adopted if self.adopted else 0.0


def objections(outcome: Outcome, limit: float) -> list[str]:
    """Why the others may not follow, the gravest reason first; nothing where they may.

    `limit`: share of tasks that may have failed or been refused, and of tables with something
    parked. A commit that changed what readers see is one too many.
    """
    found = []
    if outcome.differ:
        found.append(f"{outcome.differ:,} commits changed what readers see (RowsCompared)")
    if outcome.tables and outcome.adopted < ENOUGH * outcome.tables:
        found.append(f"{outcome.adopted:,} of {outcome.tables:,} canary tables are adopted so far")
    if outcome.troubled > limit:
        bad = outcome.failed + outcome.conflicted
        found.append(
            f"{bad:,} of {outcome.ended:,} tasks failed or were refused: "
            f"{outcome.troubled:.1%}, {limit:.1%} may be"
        )
    if outcome.stuck > limit:
        found.append(
            f"{outcome.parked:,} of {outcome.adopted:,} canary tables have something parked: "
            f"{outcome.stuck:.1%}, {limit:.1%} may be"
        )
    if not outcome.committed:
        found.append("no rewrite of a canary table was committed yet: nothing is proved")
    return found
