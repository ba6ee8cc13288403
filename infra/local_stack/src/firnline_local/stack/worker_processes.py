"""The workers of the embedded stack: processes that share the memory of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from firnline_domain.policy.fleet.worker_memory import Steps

from firnline_local.processes.command import Command
from firnline_local.stack.supervised_part import SupervisedPart
from firnline_local.stack.worker_size import Size, choose_size, max_bytes


class WorkerProcesses:
    """`Workers` of the keeper. `given`: settings of the workers that override our environment;
    `command_of`: the command that starts a part with the settings of this moment."""

    def __init__(
        self, given: Mapping[str, str], maximum: int, command_of: Callable[[str], Command]
    ) -> None:
        self.parts: list[SupervisedPart] = []
        self._given = {**os.environ, **given}
        self._maximum = maximum
        self._command_of = command_of
        self._size: Size | None = None
        self.settings: Mapping[str, str] = {}
        """What overrides the workers' own settings."""

    def count(self) -> int:
        """Return the number of workers that run or start."""
        return sum(part.is_wanted for part in self.parts)

    def set_count(self, count: int) -> None:
        """Start workers, such as still end last; or let the youngest end after their tasks."""
        order = sorted(self.parts, key=lambda part: (not part.is_wanted, part.life == "leaving"))
        for number, part in enumerate(order):
            if part.is_wanted != (number < count):
                part.set_wanted(number < count)

    def set_memory(self, steps: Steps) -> str:
        """Give the workers that size after their tasks. Raises ValueError if a given setting is no
        size."""
        base, size = (
            choose_size(self._given, one, max_bytes() // self._maximum) for one in (Steps(), steps)
        )
        before, self._size = self._size or base, size
        if size == before:
            return ""
        settings = size.settings if size.settings != base.settings else {}
        if settings != self.settings:  # they may wish for more and get no more
            self.settings = settings
            for part in self.parts:
                part.change_command(self._command_of(part.name))
        return str(size)
