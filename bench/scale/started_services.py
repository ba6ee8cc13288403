"""A stack, and services of it that a benchmark starts, limits, reads and kills by itself."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from firnline_domain.policy.fleet.lanes import Lane
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import Process
from firnline_local.stack.parts import Addresses, ReadyLine, command_of
from firnline_local.stack.stack import Stack

PATIENCE_S = 1_800.0
LOOK_S = 0.2
CGROUPS = tuple(Path("/sys/fs/cgroup") / one for one in ("cpu", "cpuacct"))
PERIOD_US = 100_000
LINE = re.compile(r"^(\S+Z) .* action=(task_started|task_finished) (.*)$", re.MULTILINE)
JOIN = 'for one in $CGROUPS; do echo $$ > "$one/cgroup.procs"; done; exec "$@"'


@dataclass(frozen=True)
class TaskLine:
    """A line of a worker's log about a task."""

    at_s: float
    action: str
    task: str
    table: str


@dataclass
class Service:
    """One that the benchmark started."""

    name: str
    process: Process
    ports: Mapping[str, int]
    groups: tuple[Path, ...] = ()
    tasks: list[TaskLine] = field(default_factory=list)
    _read: int = 0

    def set_share(self, cores: float) -> None:
        """Let it have that share of a core."""
        (self.groups[0] / "cpu.cfs_quota_us").write_text(str(round(cores * PERIOD_US)))

    @property
    def cpu_s(self) -> float:
        """What its cgroup has used, with all processes that have ended."""
        return int((self.groups[1] / "cpuacct.usage").read_text()) / 1e9

    @property
    def finished(self) -> int:
        return sum(one.action == "task_finished" for one in self.tasks)

    @property
    def unfinished(self) -> list[str]:
        """Tasks that it has begun and not ended."""
        done = {one.task for one in self.tasks if one.action == "task_finished"}
        return [one.task for one in self.tasks if one.task not in done]

    def read_log(self) -> None:
        """Take in the lines that were added since the last call."""
        with self.process.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for at, action, facts in LINE.findall(whole.decode()):
            named = dict(one.split("=", 1) for one in facts.split() if "=" in one)
            moment = datetime.fromisoformat(at).timestamp()
            self.tasks.append(TaskLine(moment, action, named["task"], named["table"]))

    def kill(self) -> float:
        """Kill it with all its processes. Return when."""
        at_s = time.time()
        self.process.kill_group()
        self.process.wait_or_kill()
        return at_s


@dataclass
class StartedServices:
    """Services beside those that a stack has, each with a state directory of its own, as on another
    host."""

    stack: Stack
    running: list[Service] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def start(self, kind: str, count: int = 1, share: float | None = None) -> list[Service]:
        """Start some, and wait until they are ready; then each has that share of a core. Until then
        it has a whole one: its JVM sees one either way."""
        made = [self._start(kind, share is not None) for _ in range(count)]
        for one in made:
            await_that(one.process.command.ready, f"{one.name} to be ready")
            if share is not None:
                one.set_share(share)
        self.running += made
        return made

    def _start(self, kind: str, in_group: bool) -> Service:
        self._counts[kind] += 1
        name, state = f"{kind}-{self._counts[kind] + 1}", self.stack.state
        record, ports = self.stack.record, {kind: free_port(), f"{kind}-metrics": free_port()}
        where = Addresses({**record.ports, **ports}, tuple(record.parts))
        command, folder = command_of(kind, state, where), state.root / name
        log, more = state.log_path(name), {"FIRNLINE_STATE_DIR": str(folder)}
        groups: tuple[Path, ...] = ()
        if in_group:
            groups = tuple(one / f"firnline-bench-{os.getpid()}-{name}" for one in CGROUPS)
            for one in groups:
                one.mkdir()
            more["CGROUPS"] = " ".join(map(str, groups))
            command = replace(command, argv=("sh", "-c", JOIN, "sh", *command.argv))
        line = ReadyLine(log)
        command = replace(command, cwd=folder, env={**command.env, **more}, ready=line.is_logged)
        made = Service(name, Process(command, log), ports, groups)
        if in_group:
            made.set_share(1.0)
        return made

    def stop(self, ones: Iterable[Service]) -> None:
        """Stop some that run, or were killed."""
        for one in ones:
            one.process.terminate()
        for one in ones:
            one.process.wait_or_kill()
            for group in one.groups:
                await_that(partial(_is_removed, group), f"{group} to be empty")
            self.running.remove(one)


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # a process of it is not reaped yet
        return False
    return True


def await_that(done: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:g} s for {what}")
        time.sleep(LOOK_S)


def open_tasks(console_uri: str) -> int:
    """How many tasks wait, run or wait for their commit, by the console."""
    with build_opener(ProxyHandler({})).open(f"{console_uri}/api/workers") as answer:
        demand = json.load(answer)
    return sum(demand[lane]["orders"] for lane in Lane)
