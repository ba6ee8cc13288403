"""One part under supervision: started, watched, restarted with back-off, held, stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from firnline_local.processes.command import Command
from firnline_local.processes.process import STOP_S, Process
from firnline_local.stack import stack_processes
from firnline_local.stack.state import Event, Life, PartRecord, StateDir

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 10.0
STABLE_S = 30.0  # ready for so long: the next crash starts the back-off anew
LEAVE_S = 600.0  # a task that runs longer is given up, as on SIGTERM, and comes again
TRIES = 5  # crashes in a row before the first ready: it will not come up by itself

Announce = Callable[[Event], None]


def backoff_s(streak: int) -> float:
    """Return the pause before the restart after `streak` crashes in a row: 0.5, 1, 2, 4, 8, 10, 10
    ... seconds."""
    return float(min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (streak - 1)))


class SupervisedPart:
    """A part and the process of its present life, if any."""

    def __init__(self, command: Command, state: StateDir, address: str, announce: Announce) -> None:
        self.name = command.name
        self.life: Life = "waiting"
        self.was_ready = False
        self.is_wanted = True
        self._command = command
        self._state = state
        self._address = address
        self._announce = announce
        self._process: Process | None = None
        self._restarts = 0
        self._streak = 0
        self._started = 0.0
        self._ready_at = 0.0
        self._next_start = 0.0
        self._leave_until = 0.0
        self._ready_s: float | None = None

    def run_due_actions(self) -> None:
        """Do what is due now; blocks only to start, or to stop a part that is held."""
        held = self._state.held_path(self.name).exists()
        if held and self.life != "held":
            self._hold()
        elif not held and self.life == "held":
            self._start_process()
        elif self._process is None:
            if not held and self.is_wanted and time.monotonic() >= self._next_start:
                self._start_process()
        elif (code := self._process.exit_code()) is not None:
            self._after_leaving() if self.life == "leaving" else self._schedule_restart(code)
        elif self.life == "leaving":
            self._stop_if_late(self._process)
        elif self.life == "starting" and self._command.ready():
            self._set_ready()

    def never_started(self) -> bool:
        """Return whether it crashed TRIES times in a row and was never ready."""
        return not self.was_ready and self._streak >= TRIES

    def log_tail(self) -> str:
        """Return the end of its log."""
        log = self._state.log_path(self.name)
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-20:])

    def part_record(self) -> PartRecord:
        return PartRecord(
            life=self.life,
            pid=self._process.pid if self._process else None,
            address=self._address,
            restarts=self._restarts,
            ready_s=self._ready_s,
            log=str(self._state.log_path(self.name)),
        )

    def terminate(self) -> None:
        """Send SIGTERM to its process."""
        if self._process is not None:
            self._process.terminate()

    def finish(self) -> None:
        """Wait for its end, and remove what it left behind."""
        if self._process is not None:
            self._process.wait_or_kill()
        stack_processes.kill(self._state.root, self.name)
        self._process = None
        self.life = "stopped"

    def change_command(self, command: Command) -> None:
        """Use another command from now on: at once if its process has nothing to do, else when that
        has ended."""
        self._command = command
        self._leave(time.monotonic() + LEAVE_S)

    def set_wanted(self, is_wanted: bool) -> None:
        """Let it run, or let it end after its work, however long that takes."""
        self.is_wanted = is_wanted
        if not is_wanted and self._process is None:
            self.life = "stopped"
        elif not is_wanted:
            self._leave(math.inf)

    def _leave(self, until: float) -> None:
        if self._process is None or self.life == "leaving":
            return
        if self.life == "ready":
            self._process.stop_when_idle()
        else:  # it takes no signals yet, and does nothing
            self._process.terminate()
        self.life = "leaving"
        self._leave_until = until
        self._announce(Event(self.name, "leaving"))

    def _after_leaving(self) -> None:
        stack_processes.kill(self._state.root, self.name)
        if self.is_wanted:
            self._start_process()
            return
        self._process = None
        self.life = "stopped"
        self._announce(Event(self.name, "stopped"))

    def _stop_if_late(self, process: Process) -> None:
        over_s = time.monotonic() - self._leave_until
        if over_s > STOP_S:
            process.wait_or_kill(0)
        elif over_s > 0:
            process.terminate()

    def _start_process(self) -> None:
        self._command.prepare()
        self._started = time.monotonic()
        self._process = Process(self._command, self._state.log_path(self.name))
        self.life = "starting"
        self._announce(Event(self.name, "started", f"pid={self._process.pid}"))

    def _set_ready(self) -> None:
        self._ready_at = time.monotonic()
        self._ready_s = round(self._ready_at - self._started, 2)
        self.life = "ready"
        self.was_ready = True
        self._announce(Event(self.name, "ready", f"after={self._ready_s}s {self._address}".strip()))

    def _schedule_restart(self, code: int) -> None:
        now = time.monotonic()
        if self.life == "ready" and now - self._ready_at > STABLE_S:
            self._streak = 0
        self._streak += 1
        self._restarts += 1
        self._process = None
        self.life = "crashed"
        stack_processes.kill(self._state.root, self.name)
        pause = backoff_s(self._streak)
        self._next_start = now + pause
        how = f"signal={-code}" if code < 0 else f"exit={code}"
        self._announce(Event(self.name, "crashed", f"{how} restart-in={pause:g}s"))

    def _hold(self) -> None:
        self.terminate()
        self.finish()
        self.life = "held"
        self._announce(Event(self.name, "held"))
