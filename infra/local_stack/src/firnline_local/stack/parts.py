"""The parts of the stack: their names, the order in which they start, and the command of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port, is_free
from firnline_local.servers import catalog, kafka, postgres, redis
from firnline_local.servers.artifacts import iceberg_jar
from firnline_local.stack import stack_processes
from firnline_local.stack.state import StackRecord, StateDir
from firnline_local.topics.topics import initial_buckets

POSTGRES = "postgres"  # the catalog's database, in a stack that has it
# The slowest to prepare last: the others start meanwhile.
SERVERS = (POSTGRES, "redis", "catalog", "kafka")
SERVICES = ("gateway", "listener", "enricher", "planner", "committer", "worker", "console")
ALL = (*SERVERS, *SERVICES)
WORKER = "worker"
# A stage starts when the one before is ready: the services read the catalog through the gateway.
STAGES = (
    (POSTGRES,),
    tuple(one for one in SERVERS if one != POSTGRES),
    ("gateway",),
    tuple(one for one in SERVICES if one != "gateway"),
)
PORTS = (
    POSTGRES,
    "kafka",
    "kafka-controller",
    "redis",
    "catalog",
    "gateway",
    "listener",
    "console",
)
# Ways to notice commits -> the parts that are not needed for it.
CAPTURES: Mapping[str, tuple[str, ...]] = {
    "gateway": ("listener", POSTGRES),
    "sweep": ("gateway", POSTGRES),
    "postgres": ("gateway",),
}
CAPTURE = "gateway"  # of a stack whose parts are not chosen
READY = (b"action=ready", b'"action": "ready"')  # FIRNLINE_LOG_FORMAT
Settings = Mapping[str, Mapping[str, str]]
"""Part -> variables of its environment, over what it is given anyway."""
GATEWAY = "{gateway}"  # in such a value: the address of the stack's gateway
SETTINGS = "FIRNLINE_PART_SETTINGS"  # holds them as JSON, for a supervisor without a terminal


class UnknownPart(ValueError):
    """There is no part of that name; the message lists them."""


@dataclass(frozen=True)
class Addresses:
    """The addresses that the parts listen on. `parts`: those that the stack has."""

    ports: Mapping[str, int]
    parts: Collection[str] = ("gateway",)

    @property
    def kafka(self) -> str:
        return kafka.bootstrap_servers(self.ports["kafka"])

    @property
    def postgres(self) -> str:
        return f"{LOOPBACK}:{self.ports[POSTGRES]}"

    @property
    def redis(self) -> str:
        return redis.url(self.ports["redis"])

    @property
    def catalog(self) -> str:
        return catalog.uri(self.ports["catalog"])

    @property
    def gateway(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['gateway']}"

    @property
    def writers(self) -> str:
        """Return the address of the catalog for writers, and for the services."""
        return self.gateway if "gateway" in self.parts else self.catalog

    @property
    def listener(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['listener']}"

    @property
    def console(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['console']}"

    def address_of(self, part: str) -> str:
        """Return the address that is shown next to a part's name; '' for a part without an
        address."""
        return str(getattr(self, part, ""))


def addresses_of(record: StackRecord) -> Addresses:
    """Return the addresses of a stack that runs."""
    return Addresses(record.ports, tuple(record.parts))


class ReadyLine:
    """A watcher of a service's log, for the line that it prints when it serves."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._start = 0

    def skip_earlier_lines(self) -> None:
        """Skip the lines of earlier lives."""
        self._start = self._log.stat().st_size if self._log.exists() else 0

    def is_logged(self) -> bool:
        if not self._log.exists():
            return False
        with self._log.open("rb") as file:
            file.seek(self._start)
            said = file.read()
            return any(one in said for one in READY)


def choose_parts(only: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the chosen parts in starting order; those of CAPTURE if `only` is None. Raises
    UnknownPart."""
    if only is None:
        return parts_with(CAPTURE)
    if unknown := set(only) - set(ALL):
        raise UnknownPart(f"no such part: {', '.join(sorted(unknown))}; parts: {', '.join(ALL)}")
    return tuple(part for part in ALL if part in only)


def parts_with(capture: str) -> tuple[str, ...]:
    """Return all parts that this way to notice commits needs."""
    return tuple(part for part in ALL if part not in CAPTURES[capture])


def worker_names(maximum: int) -> list[str]:
    """Return the names of so many workers."""
    return [WORKER, *(f"{WORKER}-{number}" for number in range(2, maximum + 1))][:maximum]


def service_of(part: str) -> str:
    """Return the service that a part runs: several parts are workers."""
    return WORKER if part.startswith(f"{WORKER}-") else part


def port_names(workers: int = 1) -> tuple[str, ...]:
    """Return a name for each port that a stack uses."""
    return (*PORTS, *(f"{part}-metrics" for part in (*SERVICES, *worker_names(workers)[1:])))


POLICY_READERS = ("enricher", "planner")


def pick_ports(earlier: Mapping[str, int], workers: int = 1) -> dict[str, int]:
    """Return ports for every name: those of the last run if they are still free."""
    ports: dict[str, int] = {}
    for name in port_names(workers):
        kept = earlier.get(name)
        taken = frozenset({*ports.values(), *earlier.values()})
        ports[name] = kept if kept is not None and is_free(kept) else free_port(taken)
    return ports


def command_of(
    part: str, state: StateDir, where: Addresses, settings: Settings | None = None
) -> Command:
    """Return the command that starts a part; every process of it carries the stack's mark."""
    servers: dict[str, Callable[[Path], Command]] = {
        POSTGRES: lambda data: postgres.command(data, where.ports[POSTGRES]),
        "redis": lambda data: redis.command(data, where.ports["redis"]),
        "catalog": lambda data: catalog.command(
            data, where.ports["catalog"], *_catalog_database(state, where)
        ),
        "kafka": lambda data: kafka.command(
            data, where.ports["kafka"], where.ports["kafka-controller"]
        ),
    }
    build = servers.get(part)
    command = build(state.data_path(part)) if build else _service_command(part, state, where)
    given = (settings or {}).get(service_of(part), {})
    more = {name: value.replace(GATEWAY, where.gateway) for name, value in given.items()}
    return replace(
        command, env={**command.env, **more, **stack_processes.mark_of(state.root, part)}
    )


def _catalog_database(state: StateDir, where: Addresses) -> tuple[()] | tuple[str, Path]:
    """Return the JDBC address and the driver of the catalog's database; () for its own."""
    if POSTGRES not in where.parts:
        return ()
    address = postgres.jdbc_uri(state.data_path(POSTGRES), where.ports[POSTGRES])
    return address, postgres.driver_jar()


def _followed_database(state: StateDir, where: Addresses) -> dict[str, str]:
    """Return the listener's source for the catalog's database; {} in a stack without it."""
    if POSTGRES not in where.parts:
        return {}
    address = postgres.uri(state.data_path(POSTGRES), where.ports[POSTGRES])
    return {"FIRNLINE_SOURCE__POSTGRES__TYPE": POSTGRES, "FIRNLINE_SOURCE__POSTGRES__URL": address}


def _service_command(name: str, state: StateDir, where: Addresses) -> Command:
    line = ReadyLine(state.log_path(name))
    return Command(
        name=name,
        argv=(sys.executable, "-m", f"firnline_{service_of(name)}"),
        cwd=state.data_path(service_of(name)),
        env=service_environment(name, state, where),
        ready=line.is_logged,
        prepare=line.skip_earlier_lines,
    )


def service_environment(name: str, state: StateDir, where: Addresses) -> dict[str, str]:
    """Return the environment of a service of the stack."""
    return {
        **{name: "" for name in os.environ if name.startswith("FIRNLINE_CATALOG__")},
        # that of this environment is of other catalogs
        "FIRNLINE_CONFIG": str(state.config) if name in POLICY_READERS else "",
        "FIRNLINE_KAFKA": where.kafka,
        "FIRNLINE_KAFKA_CONFIG": "",  # of another broker than ours
        "FIRNLINE_REDIS": where.redis,
        "FIRNLINE_UPSTREAM_URI": where.catalog,
        "FIRNLINE_CATALOG_URI": where.catalog if name == "listener" else where.writers,
        "FIRNLINE_SOURCE__HTTP__TYPE": "http",
        **(_followed_database(state, where) if name == "listener" else {}),
        "FIRNLINE_METRICS_ADDRESS": f"{LOOPBACK}:{where.ports[f'{name}-metrics']}",
        "FIRNLINE_STATE_DIR": str(state.data_path(service_of(name))),  # workers share delete sets
        "FIRNLINE_BUCKETS": str(initial_buckets()),
        "FIRNLINE_ICEBERG_JAR": str(iceberg_jar()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYTHONUNBUFFERED": "1",
        **({"FIRNLINE_LISTEN_ADDRESS": f"{LOOPBACK}:{where.ports[name]}"} if name in PORTS else {}),
        **state.signing_environment(),
    }
