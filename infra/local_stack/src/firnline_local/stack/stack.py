"""A running stack as its users see it: addresses, and parts to kill, stop and start.

with running(tmp_path) as stack:
    use(stack.kafka, stack.gateway_uri)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from firnline_adapters.records.signing import RecordSigner

from firnline_local.processes.command import Command
from firnline_local.processes.process import PartNotReady, run_process
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import (
    SETTINGS,
    Addresses,
    Settings,
    addresses_of,
    choose_parts,
)
from firnline_local.stack.state import AlreadyRunning, PartRecord, StackRecord, StateDir
from firnline_local.workers.keeper import ONE_WORKER

POLL_S = 0.05
UP_S = 600.0  # everything took 160 s on 2 cores at a load of 13; jars are fetched before
DOWN_S = 90.0  # services, then servers, each with its own grace


class NotRunning(RuntimeError):
    """No stack runs in this state directory: `firnline up`."""


class Stack:
    """A handle on the stack of a state directory; the supervisor does the work."""

    def __init__(self, state: StateDir) -> None:
        self.state = state

    @property
    def record(self) -> StackRecord:
        return self.state.read_record()

    @property
    def addresses(self) -> Addresses:
        return addresses_of(self.record)

    @property
    def kafka(self) -> str:
        return self.addresses.kafka

    @property
    def redis(self) -> str:
        return self.addresses.redis

    @property
    def catalog_uri(self) -> str:
        """Return the catalog's own URI, which only the gateway should use."""
        return self.addresses.catalog

    @property
    def gateway_uri(self) -> str:
        """Return the URI that writers and readers use as their catalog: the catalog's own in a
        stack without a gateway."""
        return self.addresses.writers

    @property
    def console_uri(self) -> str:
        return self.addresses.console

    @property
    def signer(self) -> RecordSigner:
        """Return the signer for processes that write to its topics, or trust them. Raises
        Misconfigured."""
        return self.state.signer()

    def part_record(self, name: str) -> PartRecord:
        """Return the current record of a part. Raises KeyError."""
        return self.record.parts[name]

    def kill_part(self, name: str) -> int:
        """Send SIGKILL to a part. Return its process id, once the supervisor (which restarts it)
        has noticed."""
        pid = self.part_record(name).pid
        if pid is None:
            raise PartNotReady(f"{name} is not running")
        os.kill(pid, signal.SIGKILL)
        self._wait_until(lambda: self.part_record(name).pid != pid, f"{name} to be missed")
        return pid

    def stop_part(self, name: str) -> None:
        """Stop a part and keep it stopped until `start_part`."""
        held = self.state.held_path(name)
        held.parent.mkdir(exist_ok=True)
        held.touch()
        self._wait_until(lambda: self.part_record(name).life == "held", f"{name} to stop")

    def start_part(self, name: str) -> None:
        """Let a stopped part run again, and wait until it is ready."""
        self.state.held_path(name).unlink()
        self._wait_until(lambda: self.part_record(name).life != "held", f"{name} to start")
        self.wait_ready(name)

    def wait_ready(self, name: str, timeout_s: float = UP_S) -> None:
        """Return when the part serves. Raises NotReady with the tail of its log."""
        self._wait_until(
            lambda: self.part_record(name).life == "ready", f"{name} to be ready", timeout_s
        )

    def _wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = DOWN_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if not self.state.is_running():
                raise NotRunning(f"the stack in {self.state.root} has ended")
            if time.monotonic() > deadline:
                raise PartNotReady(f"waited {timeout_s:g} s for {what}")
            time.sleep(POLL_S)


def attach_to_stack(state_dir: Path) -> Stack:
    """Return the stack that runs in a directory. Raises NotRunning."""
    state = StateDir.from_path(state_dir)
    if not state.is_running():
        raise NotRunning(f"no stack runs in {state.root}")
    return Stack(state)


@contextmanager
def run_stack(
    state_dir: Path,
    only: tuple[str, ...] | None = None,
    settings: Settings | None = None,
    workers: str = ONE_WORKER,
) -> Iterator[Stack]:
    """Start a stack, yield it when all parts are ready, and stop it at the end of the block.

    `settings` of single parts go over what `up` sets. It dies with the calling process, however
    that ends. Call it on a thread that outlives the block. Raises AlreadyRunning, UnknownPart,
    NotReady."""
    state = StateDir.from_path(state_dir)
    command = supervisor_command(state, only, settings, workers)
    with run_process(command, state.log_path("supervisor"), UP_S, DOWN_S):
        yield Stack(state)


def start_detached(
    state_dir: Path, only: tuple[str, ...] | None = None, workers: str = ONE_WORKER
) -> Stack:
    """Start a stack that outlives this process. Raises AlreadyRunning, UnknownPart, NotReady."""
    state = StateDir.from_path(state_dir)
    command = supervisor_command(state, only, workers=workers)
    command.prepare()
    log = state.log_path("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    while not command.ready():
        if (code := process.poll()) is not None:
            raise PartNotReady(f"the supervisor exited with {code}\n{log.read_text()}")
        time.sleep(POLL_S)
    return Stack(state)


def stop_stack(state_dir: Path) -> bool:
    """Stop a running stack and wait for its end. Return False if none ran. Leftovers are also
    removed."""
    state = StateDir.from_path(state_dir)
    ran = state.is_running()
    pid = state.read_record().pid
    if ran and pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + DOWN_S
        while state.is_running() and time.monotonic() < deadline:
            time.sleep(POLL_S)
    stack_processes.kill(state.root)
    return ran


def supervisor_command(
    state: StateDir,
    only: tuple[str, ...] | None,
    settings: Settings | None = None,
    workers: str = ONE_WORKER,
) -> Command:
    """Return the command of the supervisor. Raises UnknownPart."""
    wanted = ("--only", ",".join(choose_parts(only))) if only is not None else ()
    more = ("--workers", workers, *wanted)

    def prepare() -> None:
        if state.is_running():
            raise AlreadyRunning(f"a stack is running in {state.root}")
        # A supervisor that was killed left `ready` behind.
        state.write_record(replace(state.read_record(), phase="stopped", pid=None))

    return Command(
        name="supervisor",
        argv=(sys.executable, "-m", "firnline_local", "--state", str(state.root), *more),
        cwd=state.root,
        # Not as arguments: everybody on the host reads those, and settings may be secrets.
        env={SETTINGS: json.dumps(settings)} if settings else {},
        ready=lambda: state.read_record().phase == "ready",
        prepare=prepare,
    )
