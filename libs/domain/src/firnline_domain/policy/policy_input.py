"""Collect what a decision is made from, and what several triggers need of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.debt import NO_DEBT, Debt, debt_of
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy.cost_model import CostModel
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import ConversionPolicy, Thresholds

T = TypeVar("T")


class CachedProperty(Generic[T]):
    """Property that is computed at the first access and then kept: `functools.cached_property`
    without its lock, which takes 8 % of a decision's CPU in Python 3.11."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__

    def __get__(self, given: Any, owner: type | None = None) -> T:
        found: T = self._compute(given)
        given.__dict__[self._name] = found
        return found


class TableInput(Value):
    """Input of a decision about a table. `settings`: those in force, with the rate at which it is
    read."""

    table: Table
    settings: Thresholds
    costs: CostModel
    now_ms: int


class PolicyInput(TableInput, dict=True, gc=True):
    """Input of a decision about one partition, with what follows from it: each is computed once."""

    partition: Partition

    @CachedProperty
    def holds(self) -> FileTally:
        return self.partition.counters.holds

    @CachedProperty
    def debt(self) -> Debt:
        """Return all debt of the partition; none without data files."""
        if self.holds.data_files <= 0:
            return NO_DEBT  # delete files alone: there is nothing to rewrite
        deletes = self.table.counters.global_equality_deletes
        return debt_of(self.holds, self.settings.target_bytes, deletes)

    @CachedProperty
    def new_debt(self) -> Debt:
        """Return the debt that came since the last rewrite, which could do nothing about the
        rest."""
        if self.holds.data_files <= 0:
            return NO_DEBT
        return self.debt.above(self.partition.work.floor)

    @CachedProperty
    def takes_all(self) -> bool:
        """Return True if an order rewrites every file that a delete reaches: all of it is cheap,
        and then nothing is left; or there is no other way. Deletes that reach other partitions
        would stay."""
        return self._rewrites_everything(self.settings.may_convert)

    def _rewrites_everything(self, may_convert: bool) -> bool:
        holds, settings = self.holds, self.settings
        deletes = holds.equality_deletes
        if holds.data_files <= holds.fragments.files or self.debt.global_deletes:
            return True
        if deletes.files and not may_convert:
            return True
        if deletes.files and settings.convert is ConversionPolicy.ALWAYS:
            return False
        return holds.all_data.bytes + deletes.bytes <= settings.cheap_bytes

    @CachedProperty
    def would_convert(self) -> bool:
        """Return True if a conversion is the way, but streaming readers would stop at its
        snapshot."""
        if not self.settings.streaming_readers:
            return False
        may_convert = self.settings.convert is not ConversionPolicy.NEVER
        if not self.takes_all and self.new_debt.position_deletes:
            return may_convert and self._has_many_joined
        return self.takes_all and not self._rewrites_everything(may_convert)

    @CachedProperty
    def counted_debt(self) -> Debt:
        """Return the new debt that thresholds count. An order that leaves larger files as they are
        only joins files of positions, and only many of them."""
        grown = self.new_debt
        if self.takes_all or not grown.position_deletes:
            return grown
        counts = self._has_many_joined and self.settings.may_convert
        return replace(grown, position_deletes=self.joined_positions if counts else 0)

    @property
    def joined_positions(self) -> int:
        """Return the number of new position-delete files beyond one for each larger data file: a
        conversion joins them."""
        holds = self.holds
        surplus = holds.position_deletes.files - (holds.data_files - holds.fragments.files)
        return min(self.new_debt.position_deletes, max(surplus, 0))

    @property
    def _has_many_joined(self) -> bool:
        return self.joined_positions >= max(self.settings.min_position_deletes, 1)

    @property
    def is_worth_it(self) -> bool:
        """Return False for a lone fragment, which has nothing to be merged with. Any delete file
        can be applied."""
        counted = self.counted_debt
        deletes = counted.equality_deletes + counted.position_deletes + counted.global_deletes
        return deletes > 0 or (counted.fragments > 0 and self.debt.fragments > 1)


def once_per_input(compute: Callable[[PolicyInput], T]) -> Callable[[PolicyInput], T]:
    """Have a function compute its result once for each input."""
    name = compute.__name__

    @wraps(compute)
    def read(given: PolicyInput) -> T:
        known: dict[str, Any] = given.__dict__
        if name not in known:
            known[name] = compute(given)
        result: T = known[name]
        return result

    return read
