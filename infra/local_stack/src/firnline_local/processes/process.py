"""A running part: started in a session of its own, dying with us, its output in one log file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firnline_local.processes import die_with_parent
from firnline_local.processes.command import Command

POLL_S = 0.1
STOP_S = 15.0  # the broker's clean shutdown took 1-3 s on 2 busy cores
START_S = 180.0  # a broker on a busy host of two cores has needed more than 60


class PartNotReady(RuntimeError):
    """A part did not become ready; the message ends with the tail of its log."""


class Process:
    """One life of a Command. The thread that makes it must outlive it (the kernel's rule)."""

    def __init__(self, command: Command, log: Path) -> None:
        self.command = command
        self.log = log
        command.cwd.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    die_with_parent.__file__,
                    str(os.getpid()),
                    *command.argv,
                ],
                env={**os.environ, **command.env},
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code: None while it runs; negative for a signal."""
        return self._popen.poll()

    def terminate(self) -> None:
        """Ask for its end, the process only: it stops its own children."""
        if self.exit_code() is None:
            self._popen.send_signal(self.command.stop_signal)

    def stop_when_idle(self) -> None:
        """Send SIGUSR1: a worker ends when no task runs."""
        if self.exit_code() is None:
            self._popen.send_signal(signal.SIGUSR1)

    def wait_or_kill(self, grace_s: float = STOP_S) -> None:
        """Wait for the end, at most `grace_s`; then kill its whole group."""
        try:
            self._popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self.kill_group()

    def kill_group(self) -> None:
        """Send SIGKILL to all that its process group still contains."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # the group is empty

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines that it wrote in this life."""
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


@contextmanager
def run_process(
    command: Command, log: Path, timeout_s: float = START_S, grace_s: float = STOP_S
) -> Iterator[Process]:
    """Run one part without a supervisor until the block ends. Raises NotReady."""
    command.prepare()
    process = Process(command, log)
    try:
        _await_ready(process, timeout_s)
        yield process
    finally:
        process.terminate()
        process.wait_or_kill(grace_s)


def _await_ready(process: Process, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not process.command.ready():
        code = process.exit_code()
        if code is not None or time.monotonic() > deadline:
            state = f"exited with {code}" if code is not None else f"not ready in {timeout_s:g} s"
            raise PartNotReady(f"{process.command.name} {state}\n{process.log_tail()}")
        time.sleep(POLL_S)
