"""Everything that runs: the embedded stack, a proxy before its catalog, and a second gateway."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from firnline_local import stack_processes
from firnline_local.parts import Addresses, ReadyLine, command_of, pick_ports
from firnline_local.ports import LOOPBACK, free_port
from firnline_local.stack import Stack, running
from firnline_local.state import StackRecord, StateDir
from firnline_local.supervised_part import SupervisedPart
from firnline_local.supervisor import quiet

from firnline_chaos.catalog_proxy import CatalogProxy, Journal

GATEWAY_2 = "gateway-2"
SWEEP_AGE_S = 240.0  # results older than half of it are refused
TICK_S = 0.1


@dataclass
class Ground:
    """A running stack, as faults and invariants need it."""

    stack: Stack
    proxy: CatalogProxy
    second: SecondGateway
    journal: Journal
    clocks_jumped: bool = False  # times in records say nothing any more

    @property
    def state(self) -> StateDir:
        return self.stack.state

    @property
    def gateways(self) -> tuple[str, str]:
        """What writers use."""
        return self.stack.gateway_uri, self.second.uri

    def pid(self, part: str) -> int | None:
        """Its main process, while there is one."""
        return self.second.pid if part == GATEWAY_2 else self.stack.part(part).pid

    def is_ready(self, part: str) -> bool:
        if part == GATEWAY_2:
            return self.second.life == "ready"
        return self.stack.part(part).life == "ready"

    def processes(self, part: str) -> list[psutil.Process]:
        """All of a part's, children included."""
        return stack_processes.find(self.state.root, part)

    def let_run(self, part: str) -> None:
        """Start a part that was stopped; return at once."""
        self.state.held(part).unlink(missing_ok=True)

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.stack.record.parts, GATEWAY_2)


class SecondGateway:
    """Another gateway before the same catalog, with an outbox of its own; watched as the stack
    watches its parts, from a thread that lives as long as it does."""

    def __init__(self, state: StateDir, upstream: str) -> None:
        self._port = free_port(frozenset(state.read().ports.values()))
        stock = command_of("gateway", state, Addresses(state.read().ports))
        env = {
            **stock.env,
            **stack_processes.mark(state.root, GATEWAY_2),
            "FIRNLINE_UPSTREAM_URI": upstream,
            "FIRNLINE_LISTEN_ADDRESS": str(self._port),
            "FIRNLINE_METRICS_ADDRESS": "",
            "FIRNLINE_STATE_DIR": str(state.data(GATEWAY_2)),
        }
        line = ReadyLine(state.log(GATEWAY_2))
        command = replace(
            stock, name=GATEWAY_2, cwd=state.data(GATEWAY_2), env=env,
            ready=line.seen, prepare=line.mark,
        )  # fmt: skip
        self._part = SupervisedPart(command, state, self.uri, quiet)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=GATEWAY_2, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._part.record().pid

    @property
    def life(self) -> str:
        return self._part.life

    def _watch(self) -> None:
        while not self._stop.wait(TICK_S):
            self._part.tick()
        self._part.terminate()
        self._part.finish()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def ground(
    state_dir: Path, journal: Journal, clocks: Mapping[str, Mapping[str, str]]
) -> Iterator[Ground]:
    """Start everything, hand it over when it is ready, take it down again. `clocks`: more of the
    services' environment, by part."""
    state = StateDir.at(state_dir)
    ports = pick_ports({})
    state.write(StackRecord(ports=ports))  # so that the proxy knows where the catalog will be
    proxy = CatalogProxy(ports["catalog"], journal)
    thread = threading.Thread(target=proxy.serve_forever, name="proxy", daemon=True)
    thread.start()
    special = {
        "gateway": {"FIRNLINE_UPSTREAM_URI": proxy.uri},
        "committer": {"FIRNLINE_SWEEP_AGE_SECONDS": str(SWEEP_AGE_S)},
    }
    parts = {*special, *clocks}
    settings = {part: {**clocks.get(part, {}), **special.get(part, {})} for part in parts}
    try:
        with running(state_dir, settings=settings) as stack:
            second = SecondGateway(state, proxy.uri)
            try:
                yield Ground(stack, proxy, second, journal)
            finally:
                second.close()
    finally:
        proxy.shutdown()
        proxy.server_close()
