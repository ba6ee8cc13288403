"""What a bucket keeps for all of its tables together: its part of the fleet. Pure."""

from __future__ import annotations

from firnline_domain.policy.costs import learned
from firnline_domain.policy.memory_tuning import MemoryTuning
from firnline_domain.settings.groups import DEFAULT
from firnline_domain.values import Value, field, replace

from firnline_planner.ranking import Purses

UNTRIED = MemoryTuning()


class FleetShare(Value):
    """The value of a bucket's one key beside those of its tables.

    `cost_factor`: CPU seconds that rewrites take here, against those that were measured. `purses`:
    what is left of its parts of the budget and of groups' quotas. `memory`: what the default
    group's heavy orders have shown of their workers' memory; `memories`: other groups', by name.
    """

    cost_factor: float = 1.0
    purses: dict[str, Purses] = field(default_factory=dict)
    memory: MemoryTuning = UNTRIED
    memories: dict[str, MemoryTuning] = field(default_factory=dict)

    def memory_of(self, group: str) -> MemoryTuning:
        """What a group's heavy orders have shown."""
        return self.memory if group == DEFAULT else self.memories.get(group, UNTRIED)

    def with_memory(self, group: str, memory: MemoryTuning) -> FleetShare:
        """With what they show now."""
        if group == DEFAULT:
            return replace(self, memory=memory)
        return replace(self, memories={**self.memories, group: memory})

    def after_rewrite(self, foretold_s: float, took_s: float) -> FleetShare:
        """A rewrite that was foretold with today's factor came to its end."""
        return replace(self, cost_factor=learned(self.cost_factor, foretold_s, took_s))
