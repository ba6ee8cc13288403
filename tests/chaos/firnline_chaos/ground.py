"""Everything that runs: the stack, a proxy before its catalog, and a second gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from firnline_iceberg.connection.connection import NAME, CatalogConnection
from firnline_local.servers.artifacts import iceberg_jar
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import SERVICES, pick_ports
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.stack.state import StackRecord, StateDir

from firnline_chaos.catalog_proxy import CatalogProxy, Journal
from firnline_chaos.lake import SecuredLake, proxied
from firnline_chaos.own_parts import OwnPart, second_gateway
from firnline_chaos.plan import LAKE_SORTS, NESSIE_SORTS, SORTS, Sort
from firnline_chaos.stored_files import StoredFiles
from firnline_chaos.tables import STEADY, Kind, of_nessie

SWEEP_AGE_S = 240.0  # results older than half of it are refused
Clocks = Mapping[str, Mapping[str, str]]


@dataclass
class Ground:
    """A running stack, as faults and invariants need it. `lake`: its catalog is that one."""

    stack: Stack
    proxy: CatalogProxy
    second: OwnPart
    journal: Journal
    lake: SecuredLake | None = None
    clocks_jumped: bool = False  # times in records say nothing any more
    clocks_far: bool = False  # by more than a signature may be old

    @property
    def state(self) -> StateDir:
        return self.stack.state

    @property
    def gateways(self) -> tuple[str, str]:
        """What writers use."""
        return self.stack.gateway_uri, self.second.uri

    @property
    def own(self) -> dict[str, OwnPart]:
        """Parts that are not the stack's."""
        more = self.lake.parts if self.lake else ()
        return {one.name: one for one in (self.second, *more)}

    def by(self, uri: str) -> CatalogConnection:
        """The catalog by a gateway."""
        return self.lake.by(uri) if self.lake else CatalogConnection(NAME, {"uri": uri})

    @property
    def catalog(self) -> CatalogConnection:
        """The catalog itself."""
        return self.lake.direct() if self.lake else self.by(self.stack.catalog_uri)

    @property
    def class_path(self) -> str:
        """Of a Spark that reads its tables."""
        return self.lake.known.class_path if self.lake else str(iceberg_jar())

    @property
    def files(self) -> StoredFiles:
        return self.lake.files if self.lake else StoredFiles()

    @property
    def hides_history(self) -> bool:
        """Whether the catalog shows the current snapshot alone."""
        return self.lake is not None and self.lake.hides_history

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of tables that its catalog can have, the busy one apart."""
        return tuple(map(of_nessie, STEADY)) if self.hides_history else STEADY

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """Of faults that can strike it."""
        if self.lake is None:
            return SORTS
        return NESSIE_SORTS if self.lake.hides_history else LAKE_SORTS

    def calm(self) -> None:
        """The catalog and its store do as they are told."""
        self.proxy.calm()
        if self.lake:
            self.lake.calm()

    def pid(self, part: str) -> int | None:
        """Its main process, while there is one."""
        own = self.own.get(part)
        return own.pid if own else self.stack.part_record(part).pid

    def is_ready(self, part: str) -> bool:
        own = self.own.get(part)
        return (own.life if own else self.stack.part_record(part).life) == "ready"

    def processes(self, part: str) -> list[psutil.Process]:
        """All of a part's, children included."""
        own = self.own.get(part)
        return stack_processes.find(own.root if own else self.state.root, part)

    def let_run(self, part: str) -> None:
        """Start a part that was stopped; return at once."""
        self.state.held_path(part).unlink(missing_ok=True)

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.stack.record.parts, *self.own)


@contextmanager
def ground(
    state_dir: Path, journal: Journal, clocks: Clocks, lake: SecuredLake | None = None
) -> Iterator[Ground]:
    """Start everything, hand it over when it is ready, take it down again. `clocks`: more of the
    services' environment, by part. The `lake` runs already."""
    state = StateDir.from_path(state_dir)
    ports = pick_ports({})
    state.write_record(
        StackRecord(ports=ports)
    )  # so that the proxy knows where the catalog will be
    with ExitStack() as stack:
        proxy = lake.proxy if lake else stack.enter_context(proxied(ports["catalog"], journal))
        told = lake.known.settings if lake else {"gateway": {"FIRNLINE_UPSTREAM_URI": proxy.uri}}
        aged = {"committer": {"FIRNLINE_SWEEP_AGE_SECONDS": str(SWEEP_AGE_S)}}
        settings = {
            part: {**clocks.get(part, {}), **told.get(part, {}), **aged.get(part, {})}
            for part in SERVICES
        }
        parts = lake.known.parts if lake else None
        found = stack.enter_context(run_stack(state_dir, parts, settings))
        second = second_gateway(state, settings["gateway"])
        stack.callback(second.close)
        second.wait_ready()
        yield Ground(found, proxy, second, journal, lake)
