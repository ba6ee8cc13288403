"""Ends the process when its driver hangs, so that its supervisor starts it again.

Seen in 58 joins of two planners under Faust: 2 recoveries that waited for ever, heartbeating all
the while, and 1 commit that never advanced. Only a restart cured them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NoReturn

from firnline_adapters.observability.logs import Log
from firnline_adapters.service import AGAIN

CHECKS = 6  # per stall time


def exit_process(log: Log, reason: str) -> NoReturn:
    """Exit at once. Nothing is lost: records that were not acknowledged are read again."""
    log.error("stopping", reason=reason, exit_code=AGAIN)
    os._exit(AGAIN)


class Watchdog:
    """A thread, for the event loop itself may hang.

    `signs` maps each thing that has to advance to its mark; a mark that stays the same for
    `stall_s` is a stall, unless it is None (nothing to do).
    """

    def __init__(
        self,
        signs: Mapping[str, Callable[[], Hashable | None]],
        stall_s: float,
        on_stall: Callable[[str], Any],
    ) -> None:
        self._signs = signs
        self._stall_s = stall_s
        self._on_stall = on_stall
        self._ended = threading.Event()
        self._marks: dict[str, Hashable | None] = {}
        self._quiet_s = dict.fromkeys(signs, 0.0)

    def start(self) -> None:
        """Start to watch until `end`."""
        threading.Thread(target=self._run_checks, name="watchdog", daemon=True).start()

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _run_checks(self) -> None:
        pause = self._stall_s / CHECKS
        while not self._ended.wait(pause):
            self.check_progress(pause)

    def check_progress(self, passed_s: float) -> None:
        """Compare the marks with those of the last check, `passed_s` ago."""
        for name, sign in self._signs.items():
            mark = sign()
            moved = mark is None or mark != self._marks.get(name)
            self._marks[name] = mark
            self._quiet_s[name] = 0.0 if moved else self._quiet_s[name] + passed_s
            if self._quiet_s[name] >= self._stall_s:
                self._on_stall(f"no progress in {name} for {self._quiet_s[name]:.0f} s")
