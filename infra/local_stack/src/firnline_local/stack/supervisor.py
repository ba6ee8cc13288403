"""Starts the stack stage by stage, watches it, stops it in reverse order. Leaves nothing behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from firnline_adapters import clock
from firnline_adapters.kafka.worker_directives import KafkaDirectives
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_count import WorkerLimits
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_domain.settings.groups import group_name

from firnline_local.processes.command import Command
from firnline_local.processes.process import POLL_S
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import (
    STAGES,
    WORKER,
    Addresses,
    Settings,
    choose_parts,
    command_of,
    pick_ports,
    service_of,
    worker_names,
)
from firnline_local.stack.state import Event, StackRecord, StateDir
from firnline_local.stack.supervised_part import Announce, SupervisedPart
from firnline_local.stack.worker_processes import WorkerProcesses
from firnline_local.stack.worker_size import max_bytes
from firnline_local.topics.topics import fleet_groups, initial_buckets, make_topics
from firnline_local.workers.demand import read_wanted
from firnline_local.workers.keeper import ONE_WORKER, WorkerKeeper, read_limits

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GROUP_VARIABLE = "FIRNLINE_RESOURCE_GROUP"  # the worker's own; unset: the default group


class StartFailed(RuntimeError):
    """A part did not come up; the message ends with the tail of its log."""


def ignore_event(_event: Event) -> None:
    """Ignore the event; events.jsonl contains all of them."""


class Supervisor:
    """The life of one stack. `run` belongs on the main thread: children die with their starter."""

    def __init__(
        self,
        state: StateDir,
        only: tuple[str, ...] | None = None,
        announce: Announce = ignore_event,
        seconds_running: Callable[[], float] | None = None,
        settings: Settings | None = None,
        workers: WorkerLimits | None = None,
    ) -> None:
        begun = time.monotonic()
        self._state = state
        self._wanted = choose_parts(only)
        self._settings = settings
        self._tell = announce
        self._seconds_running = seconds_running or (lambda: time.monotonic() - begun)
        self._stop = threading.Event()
        self._parts: list[SupervisedPart] = []
        self._record = StackRecord()
        self._limits = workers or read_limits(ONE_WORKER)
        of_workers = (settings or {}).get(WORKER, {})
        self._group = of_workers.get(GROUP_VARIABLE) or os.environ.get(GROUP_VARIABLE, "")
        self._workers = WorkerProcesses(of_workers, self._limits.maximum, self._command_of)
        self._directives: KafkaDirectives | None = None
        self._keeper = WorkerKeeper(
            self._workers,
            self._limits if self._limits.minimum < self._limits.maximum else None,
            self._count_wanted,
            self._requested_steps,
            self._tell_of_workers,
        )

    def run(self) -> None:
        """Serve until a stop signal. Raises AlreadyRunning, StartFailed, WrongPartitions."""
        with self._state.lock():
            self._install_signal_handlers()
            try:
                self._prepare_start()
                for stage in STAGES:
                    self._bring_up(stage)
                self._watch_until_stopped()
            finally:
                self._stop_parts()

    def _install_signal_handlers(self) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, self._asked_to_stop)

    def _asked_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def _prepare_start(self) -> None:
        if killed := stack_processes.kill(self._state.root):
            self._record_event(Event("", "left-overs-killed", f"pids={killed}"))
        for held in self._state.held_path("").glob("*"):
            held.unlink()
        if self._state.signing_environment():
            self._state.make_signing_keys()
        self._state.make_config()
        ports = pick_ports(self._state.read_record().ports, self._limits.maximum)
        self._record = StackRecord(phase="starting", pid=os.getpid(), ports=ports)
        self._write_record()

    def _bring_up(self, stage: tuple[str, ...]) -> None:
        names = (name for name in stage if name in self._wanted)
        started = [self._add_part(name) for name in names if name != WORKER]
        if WORKER in stage and WORKER in self._wanted:
            started += self._add_workers()
        while not self._stop.is_set() and not all(part.was_ready for part in started):
            self._watch_once()
            for part in started:
                if part.never_started():
                    raise StartFailed(f"{part.name} does not come up\n{part.log_tail()}")
        if "kafka" in (part.name for part in started) and not self._stop.is_set():
            make_topics(self._addresses.kafka, initial_buckets(), fleet_groups())
            self._record_event(Event("", "topics-ready"))
            if WORKER in self._wanted:
                self._follow_directives()

    @property
    def _addresses(self) -> Addresses:
        return Addresses(self._record.ports, self._wanted)

    def _follow_directives(self) -> None:
        """Follow the planner's directives, and use the size that is in force. Without an answer the
        workers keep the size that they have."""
        if not max_bytes():
            return
        try:
            group = group_name(GROUP_VARIABLE, self._group)
            self._workers.set_memory(Steps())  # are the given sizes such?
            directives = KafkaDirectives(self._addresses.kafka, group, self._state.signer())
            if size := self._workers.set_memory(directives.requested_steps(clock.now_ms())):
                self._tell_of_workers("sized", size)
            self._directives = directives
        except (RetryLater, Misconfigured, ValueError) as error:  # of a broker, or of a setting
            self._tell_of_workers("size-kept", str(error))

    def _requested_steps(self) -> Steps | None:
        if self._directives is None:
            return None
        return self._directives.requested_steps(clock.now_ms())

    def _count_wanted(self) -> int:
        cores = max((os.cpu_count() or 1) // self._limits.maximum, 1)
        where, drain_s = self._addresses.console, self._limits.drain_s
        return read_wanted(where, self._group, tuple(Lane), cores, drain_s)

    def _tell_of_workers(self, what: str, detail: str) -> None:
        self._record_event(Event(WORKER, what, detail))

    def _command_of(self, name: str) -> Command:
        where = self._addresses
        command = command_of(name, self._state, where, self._settings)
        sized = self._workers.settings if service_of(name) == WORKER else {}
        return replace(command, env={**command.env, **sized})

    def _add_part(self, name: str, is_wanted: bool = True) -> SupervisedPart:
        where = self._addresses
        part = SupervisedPart(
            self._command_of(name), self._state, where.address_of(name), self._record_event
        )
        if not is_wanted:
            part.set_wanted(False)
        self._parts.append(part)
        part.run_due_actions()
        return part

    def _add_workers(self) -> list[SupervisedPart]:
        """Add the part of every worker that there may be. Return those that start now."""
        for number, name in enumerate(worker_names(self._limits.maximum)):
            is_wanted = number < self._limits.minimum
            self._workers.parts.append(self._add_part(name, is_wanted))
        return self._workers.parts[: self._limits.minimum]

    def _watch_until_stopped(self) -> None:
        if self._stop.is_set():
            return
        seconds = round(self._seconds_running(), 2)
        self._record = replace(self._record, phase="ready", ready_s=seconds)
        self._record_event(Event("", "ready", f"after={seconds}s"))
        while not self._stop.is_set():
            if self._workers.parts:
                self._keeper.run_due_actions()
            self._watch_once()

    def _watch_once(self) -> None:
        for part in self._parts:
            part.run_due_actions()
        self._stop.wait(POLL_S)

    def _stop_parts(self) -> None:
        self._record = replace(self._record, phase="stopping")
        self._record_event(Event("", "stopping"))
        if self._directives is not None:
            self._directives.close()
        for stage in reversed(STAGES):
            parts = [part for part in self._parts if service_of(part.name) in stage]
            for part in parts:
                part.terminate()
            for part in parts:
                part.finish()
        self._record = replace(self._record, phase="stopped", pid=None)
        self._record_event(Event("", "stopped"))

    def _record_event(self, event: Event) -> None:
        self._state.append_event(event)
        self._write_record()
        self._tell(event)

    def _write_record(self) -> None:
        parts = {part.name: part.part_record() for part in self._parts}
        self._record = replace(self._record, parts=parts)
        self._state.write_record(self._record)
