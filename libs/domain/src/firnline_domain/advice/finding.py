"""Define what a rule of advice reads, and what it finds."""

from __future__ import annotations

from collections.abc import Callable

from firnline_domain.base.values import Value, field
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.settings.table_rules import TableRule
from firnline_domain.settings.thresholds import Thresholds


class Known(TableInput):
    """All that is known of a table. `fleet`: settings where it says nothing. `rules`: of the
    operator, for it."""

    spread: PartitionSpread
    fleet: Thresholds
    rules: tuple[TableRule, ...] = ()

    @property
    def written_settings(self) -> dict[str, str]:
        return self.table.counters.settings

    @property
    def target_bytes(self) -> int:
        return self.settings.target_bytes


class RuleFinding(Value):
    """Result of a rule. `numbers` by the names of `limits`, and others; `lead` is the number at
    whose doubling or halving the advice is published again."""

    finding: str
    remedy: str
    numbers: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    lead: float = 0.0
    mark: int = 0  # given again when it is another


# What a rule is about is not known now: what was said of it stays as it is.
UNKNOWN = RuleFinding("", "")

# `ease`: 1, or less where the rule has held: a finding at its limit is not given and withdrawn
# again and again.
Rule = Callable[[Known, float], RuleFinding | None]


def without_limit(judge: Callable[[Known], RuleFinding | None]) -> Rule:
    """Return the rule of a judgement without a numeric limit."""
    return lambda known, _ease: judge(known)


def size_text(held_bytes: float) -> str:
    """Format bytes in decimal units: `1.5 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if held_bytes >= factor:
            return f"{held_bytes / factor:.3g} {unit}"
    return f"{held_bytes:.0f} bytes"
