"""Parts that the suite itself starts and watches, beside those of the stack."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import PartNotReady
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import Addresses, ReadyLine, Settings, command_of
from firnline_local.stack.state import StateDir
from firnline_local.stack.supervised_part import SupervisedPart
from firnline_local.stack.supervisor import ignore_event

GATEWAY_2 = "gateway-2"
TICK_S = 0.1
UP_S = 300.0


class OwnPart:
    """Watched as the stack watches its parts, from a thread that lives as long as it does. Its
    processes carry the mark of `state`."""

    def __init__(self, command: Command, state: StateDir, uri: str) -> None:
        self.name, self.uri, self.root = command.name, uri, state.root
        command.cwd.mkdir(parents=True, exist_ok=True)
        state.log_path(self.name).parent.mkdir(parents=True, exist_ok=True)
        marked = {**command.env, **stack_processes.mark_of(state.root, self.name)}
        self._part = SupervisedPart(replace(command, env=marked), state, uri, ignore_event)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=self.name, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return self._part.part_record().pid

    @property
    def life(self) -> str:
        return self._part.life

    def wait_ready(self) -> None:
        """Raises NotReady with the tail of its log."""
        deadline = time.monotonic() + UP_S
        while self.life != "ready":
            if time.monotonic() > deadline:
                raise PartNotReady(
                    f"{self.name} is not ready after {UP_S:g} s: {self._part.log_tail()}"
                )
            time.sleep(TICK_S)

    def _watch(self) -> None:
        while not self._stop.wait(TICK_S):
            self._part.run_due_actions()
        self._part.terminate()
        self._part.finish()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def own_part(command: Command, state: StateDir, uri: str) -> Iterator[OwnPart]:
    """Ready, and gone after the block."""
    part = OwnPart(command, state, uri)
    try:
        part.wait_ready()
        yield part
    finally:
        part.close()


def second_gateway(state: StateDir, settings: Mapping[str, str]) -> OwnPart:
    """Another gateway before the same catalog, with an outbox of its own. `settings`: of the first
    one."""
    ports = state.read_record().ports
    port = free_port(frozenset(ports.values()))
    told: Settings = {"gateway": settings}
    stock = command_of("gateway", state, Addresses(ports), told)
    folder: Path = state.data_path(GATEWAY_2)
    env = {
        **stock.env,
        "FIRNLINE_LISTEN_ADDRESS": str(port),
        "FIRNLINE_METRICS_ADDRESS": "",
        "FIRNLINE_STATE_DIR": str(folder),
    }
    line = ReadyLine(state.log_path(GATEWAY_2))
    command = replace(
        stock,
        name=GATEWAY_2,
        cwd=folder,
        env=env,
        ready=line.is_logged,
        prepare=line.skip_earlier_lines,
    )
    return OwnPart(command, state, f"http://{LOOPBACK}:{port}")
