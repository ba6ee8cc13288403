"""What rewrites may cost in an hour."""

from __future__ import annotations

from firnline_domain.values import Value


class Budget(Value):
    """GB-hours that may be spent in an hour; 0 = any number. `old_share`: of these, for whoever has
    waited longest."""

    gb_hours: float = 0.0
    old_share: float = 0.2

    @property
    def binds(self) -> bool:
        return self.gb_hours > 0

    def part(self, of: int) -> Budget:
        """One of so many equal parts."""
        return Budget(self.gb_hours / of, self.old_share)
