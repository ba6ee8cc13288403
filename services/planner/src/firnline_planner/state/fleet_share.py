"""State that a bucket keeps for all of its tables together: its part of the fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value, field, replace
from firnline_domain.policy.cost_model import MEASURED, LearnedFactors
from firnline_domain.policy.fleet.worker_memory import MemoryKind, MemoryTuning
from firnline_domain.settings.groups import DEFAULT, Budget

UNTRIED = MemoryTuning()
AIM_MS = 30 * 60_000  # twice as long as a table that waits may take until it asks again


class TokenBuckets(Value):
    """Tokens left at `as_of_ms`. At most an hour's worth is kept, but the second bucket is saved up
    for the most expensive of those that were the oldest lately: `aim`, seen last at `aim_ms`."""

    best: float = 0.0
    old: float = 0.0
    as_of_ms: int | None = None  # None: an hour's worth is in them
    aim: float = 0.0
    aim_ms: int = 0

    def with_refill(self, budget: Budget, oldest: float, now_ms: int) -> TokenBuckets:
        """Return the buckets with the tokens that were added since. `oldest`: price of the task
        that has waited longest."""
        hours = 1.0 if self.as_of_ms is None else max(now_ms - self.as_of_ms, 0) / HOUR_MS
        old = budget.gb_hours * budget.old_share
        best = budget.gb_hours - old
        # A clock that was ahead is not waited for; and whoever is saved for may be away for a
        # time: a table that changes asks again when it rests, one of a started planner later.
        lasts = self.aim > oldest and 0 <= now_ms - self.aim_ms < AIM_MS
        aim, aim_ms = (self.aim, self.aim_ms) if lasts else (oldest, now_ms)
        return TokenBuckets(
            min(self.best + best * hours, best),
            min(self.old + old * hours, max(old, aim)),
            now_ms,
            aim,
            aim_ms,
        )

    def with_payment(self, gb_hours: float, from_old: bool) -> TokenBuckets:
        """Return the buckets after a price was paid; a negative price is paid back."""
        if from_old:
            return replace(self, old=self.old - gb_hours)
        return replace(self, best=self.best - gb_hours)


class FleetShare(Value):
    """The value of a bucket's one key beside those of its tables.

    `prices`: what tasks have taken here, by group. `actions`: what actions on whole tables have, by
    name; the default group's workers carry them out. `tokens`: what is left of its parts of the
    budget and of groups' quotas. `memory`: what the default group's heavy orders have shown of
    their workers' memory; `memories`: other groups', by name.
    `buckets`: how many there were when the fleet's pause was last sent to those that were added.
    `policies`: the digest of those that every table was decided by.
    """

    prices: dict[str, LearnedFactors] = field(default_factory=dict)
    tokens: dict[str, TokenBuckets] = field(default_factory=dict)
    memory: MemoryTuning = UNTRIED
    memories: dict[str, MemoryTuning] = field(default_factory=dict)
    buckets: int = 0
    actions: dict[str, float] = field(default_factory=dict)
    policies: str = ""

    def memory_of(self, group: str) -> MemoryTuning:
        """Return what a group's heavy tasks have shown about memory."""
        return self.memory if group == DEFAULT else self.memories.get(group, UNTRIED)

    def with_memory(self, group: str, memory: MemoryTuning) -> FleetShare:
        """Return the share with a group's new memory tuning."""
        if group == DEFAULT:
            return replace(self, memory=memory)
        return replace(self, memories={**self.memories, group: memory})

    def memory_steps(self) -> Iterator[tuple[tuple[str, MemoryKind], int]]:
        """Yield the steps that are requested, by group and memory."""
        for group in (DEFAULT, *self.memories):
            for memory in MemoryKind:
                yield (group, memory), getattr(self.memory_of(group).steps, memory)

    def prices_of(self, group: str) -> LearnedFactors:
        """Return the cost factors learned from a group's tasks."""
        return self.prices.get(group, MEASURED)

    def with_prices(self, group: str, prices: LearnedFactors) -> FleetShare:
        """Return the share with a group's new cost factors."""
        return replace(self, prices={**self.prices, group: prices})

    def factors(self) -> Iterator[tuple[str, float]]:
        """Yield every learned factor: its name, and measured seconds for each estimated second."""
        for prices in self.prices.values():
            yield "rewrites", prices.rewrites
            yield "conversions", prices.conversions
            if prices.sorts is not None:
                yield "sorts", prices.sorts
        yield from self.actions.items()

    def with_action(self, action: str, pace: float) -> FleetShare:
        """Return the share with the new pace of an action on whole tables."""
        return replace(self, actions={**self.actions, action: pace})
