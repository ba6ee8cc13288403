"""Nessie, a catalog that shows of each table the current snapshot alone: no parent, no log, and
`gc.enabled=false`. Its runner jar as one process on loopback; its tables lie in S3."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from firnline_iceberg.connection.connection import CatalogConnection
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins
from firnline_local.servers.repository import repository_root

from bench.rewrite.javas import homes, oldest_from
from tests.kit.s3_server import REGION, S3Server

VERSION = "0.99.0"  # 245 MB
JAR = PinnedArtifact(
    "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417",
    f"org/projectnessie/nessie/nessie-quarkus/{VERSION}/nessie-quarkus-{VERSION}-runner.jar",
)
JAVA = 21  # its class files
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STORE = "nessie.catalog.service.s3.default-options"


class NoJava(RuntimeError):
    """Nessie needs a newer Java than the rest: install one, or set JAVA_HOME."""


@dataclass(frozen=True)
class Nessie:
    """A server at `port`, whose tables lie in `store`. `more`: settings of Quarkus beside those
    that it needs."""

    port: int
    management_port: int
    store: S3Server
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """Of its Iceberg REST catalog."""
        return f"http://{LOOPBACK}:{self.port}/iceberg"

    @property
    def connection(self) -> CatalogConnection:
        """For who has keys of the store; where it lies the catalog says."""
        keys = self.store.root.properties()
        return CatalogConnection("lake", {"uri": self.uri, **keys, "client.region": REGION})

    @property
    def own_uri(self) -> str:
        """Of Nessie's own API."""
        return f"http://{LOOPBACK}:{self.port}/api/v2"

    def command(self, folder: Path) -> Command:
        """Nothing of it outlives the process."""
        java = oldest_from(JAVA, homes())
        if java is None:
            raise NoJava(f"Java {JAVA} or newer is needed")
        (jar,) = fetch_pins([JAR], cache_root(), repository_root)
        options = (f"-D{name}={value}" for name, value in self._settings().items())
        argv = (str(java), *JVM, *options, "-jar", str(jar))
        # what the tests give every JVM is for Java 17
        ready = answers_anything(f"{self.uri}/v1/config")
        return Command("nessie", argv, folder, ready, {"JAVA_TOOL_OPTIONS": ""})

    def _settings(self) -> dict[str, str]:
        return {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": str(self.management_port),
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": f"s3://{self.store.bucket}/nessie",
            f"{_STORE}.endpoint": self.store.endpoint,
            f"{_STORE}.path-style-access": "true",
            f"{_STORE}.region": REGION,
            f"{_STORE}.request-signing-enabled": "false",
            f"{_STORE}.access-key": "urn:nessie-secret:quarkus:store-key",
            "store-key.name": self.store.root.access,
            "store-key.secret": self.store.root.secret,
            **self.more,
        }

    # ---- what Iceberg's API has no word for

    def hash_of(self, ref: str) -> str:
        """Of the newest commit."""
        found = self._call("GET", f"trees/{ref}")
        return str(found["reference"]["hash"])

    def assign(self, ref: str, commit: str) -> None:
        """Move a branch to any commit, as nobody's Iceberg client can."""
        now = self.hash_of(ref)
        body = {"type": "BRANCH", "name": ref, "hash": commit}
        self._call("PUT", f"trees/{ref}@{now}?type=BRANCH", body)

    def branch(self, name: str, ref: str = "main") -> None:
        """A branch of the whole catalog, at the newest commit of another."""
        body = {"type": "BRANCH", "name": ref, "hash": self.hash_of(ref)}
        self._call("POST", f"trees?name={name}&type=BRANCH", body)

    def _call(self, verb: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(f"{self.own_uri}/{path}", data, headers, method=verb)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def answers_anything(url: str) -> Callable[[], bool]:
    """Probe: also 401 is an answer."""

    def probe() -> bool:
        try:
            urllib.request.urlopen(url, timeout=2.0).close()
        except HTTPError as error:
            return error.code == 401
        except OSError:
            return False
        return True

    return probe
