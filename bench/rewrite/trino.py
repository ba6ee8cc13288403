"""A Trino server of one process on loopback: fetched once, and asked by HTTP."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins
from firnline_local.servers.repository import repository_root

# The newest server tarball that the repository has; later releases are not published there.
PIN = PinnedArtifact(
    "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f",
    "io/trino/trino-server/476/trino-server-476.tar.gz",
)
JAVA = 24  # its class files; 25 runs them
KEPT = "iceberg"  # of its plugins: 494 of 896 MB stay
TIMEOUT_S = 120.0  # of one HTTP answer (a second as a rule): a full heap may stop for long
PROBE_S = 2.0
OPTIONS = (  # as its documentation recommends them, but for the heap
    "-XX:G1HeapRegionSize=32M",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:ReservedCodeCacheSize=512M",
    "-XX:PerMethodRecompilationCutoff=10000",
    "-XX:PerBytecodeRecompilationCutoff=10000",
    "-XX:+EnableDynamicAgentLoading",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djdk.nio.maxCachedBufferSize=2000000",
    "-Dfile.encoding=UTF-8",
    "--add-modules=jdk.incubator.vector",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)


class QueryFailed(RuntimeError):
    """Trino says why."""


def installed(cache: Path | None = None) -> Path:
    """The unpacked server; the first time it is fetched (821 MB) and unpacked.

    Raises BadArtifact, RepositoryAway.
    """
    archive = (cache or cache_root()) / PIN.path
    home = archive.with_name("unpacked")
    if not home.is_dir():
        print(f"fetching {archive.name}, 821 MB", flush=True)
        fetch_pins([PIN], cache or cache_root(), repository_root)
        unpack(archive, home)
        archive.unlink()
    return home


def unpack(archive: Path, home: Path) -> None:
    """Whole, because plugins are hard links into one another; then all but one are removed."""
    part = home.with_name(f"{home.name}.{os.getpid()}.part")
    with tarfile.open(archive) as tar:
        tar.extractall(part, filter="data")
    [server] = part.iterdir()
    for plugin in (server / "plugin").iterdir():
        if plugin.name != KEPT:
            shutil.rmtree(plugin)
    server.rename(home)
    part.rmdir()


@dataclass(frozen=True)
class Server:
    """Where it listens, and what its one catalog, `lake`, is."""

    home: Path
    java: Path
    folder: Path
    port: int
    heap: str
    cores: int
    catalog_uri: str

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> Command:
        """Ready once it takes queries."""
        argv = (
            str(self.java),
            f"-Xmx{self.heap}",
            f"-XX:ActiveProcessorCount={self.cores}",
            *OPTIONS,
            "-Dnode.environment=bench",
            "-Dnode.id=bench",
            f"-Dnode.bind-ip={LOOPBACK}",
            f"-Dnode.internal-address={LOOPBACK}",
            f"-Dconfig={self.folder / 'config.properties'}",
            "-cp",
            f"{self.home / 'lib'}/*",
            "io.trino.server.TrinoServer",
        )
        return Command("trino", argv, self.folder, self._ready, prepare=self._prepare)

    def run(self, query: str) -> dict[str, Any]:
        """Its statistics, once it is over. Raises QueryFailed."""
        return self._asked(query)[0]

    def _asked(self, query: str) -> tuple[dict[str, Any], list[Any]]:
        """Statistics and rows. Raises QueryFailed."""
        headers = {"X-Trino-User": "bench"}
        request = urllib.request.Request(f"{self.url}/v1/statement", query.encode(), headers)
        answer, rows = _answer(request), []
        while following := answer.get("nextUri"):
            answer = _answer(following)
            rows += answer.get("data", [])
        if "error" in answer:
            raise QueryFailed(answer["error"]["message"])
        return answer["stats"], rows

    def _ready(self) -> bool:
        """It takes queries before its node has announced itself: seen, `nodes is empty`."""
        try:
            if _answer(f"{self.url}/v1/info", PROBE_S)["starting"]:
                return False
            return bool(self._asked("SELECT node_id FROM system.runtime.nodes")[1])
        except (OSError, QueryFailed):
            return False

    def _prepare(self) -> None:
        catalogs = self.folder / "catalogs"
        catalogs.mkdir(parents=True, exist_ok=True)
        config = {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": self.port,
            "discovery.uri": self.url,
            "plugin.dir": self.home / "plugin",
            "catalog.config-dir": catalogs,
            "query.max-memory": "4GB",
            "query.max-memory-per-node": "4GB",  # of a heap of 6: it keeps 30 % for itself
        }
        lake = {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": self.catalog_uri,
            "fs.hadoop.enabled": "true",  # what reads `file:`
        }
        (self.folder / "config.properties").write_text(_properties(config))
        (catalogs / "lake.properties").write_text(_properties(lake))


def _answer(request: urllib.request.Request | str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        body: dict[str, Any] = json.load(answer)
        return body


def _properties(settings: dict[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
