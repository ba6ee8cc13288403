"""The lake with the demo's tables: in the embedded catalog, in one that a `firnline.toml` names, or
in that of a running fleet. With a file the stack has no catalog of its own, and its services take
theirs from that file, with the gateway before it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_adapters.config.config_file import read_config
from firnline_adapters.config.fleet_settings import ICEBERG_JAR
from firnline_domain.commits.load_header import MARK
from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.configuration import (
    OURS,
    connections_here,
    read_connections,
    single_connection,
)
from firnline_iceberg.connection.connection import NAME, CatalogConnection
from firnline_iceberg.connection.properties import UPSTREAM
from firnline_local.servers.artifacts import aws_bundle, iceberg_jar
from firnline_local.stack.parts import ALL, GATEWAY, SERVICES, Settings
from pyiceberg.catalog.rest import RestCatalog


@dataclass(frozen=True)
class DemoLake:
    """The catalog of the demo. `namespace`: of the demo's tables; in another owner's catalog it is
    a new one. `running`: the fleet runs elsewhere, and the connection is to its gateway."""

    connection: CatalogConnection | None = None
    running: bool = False
    config: Path | None = None
    namespace: str = "demo"
    on_s3: bool = False

    @classmethod
    def open_lake(cls, config: Path | None) -> DemoLake:
        """Open the lake. Raises Misconfigured, and what PyIceberg raises if the catalog does not
        answer."""
        if config is None:
            return cls()
        file = read_config(str(config))
        if file is not None and file.kafka:
            raise Misconfigured(f"{config}: the demo has a broker of its own: take [kafka] out")
        found = single_connection(read_connections(file))
        upstream = found.behind_gateway(found.properties.get(UPSTREAM) or found.uri)
        told = RestCatalog(found.name, **upstream.pyiceberg_properties()).properties
        s3 = str(told.get("warehouse", "")).startswith("s3") or "s3.endpoint" in told
        return cls(upstream, config=config.absolute(), namespace=_new_namespace(), on_s3=s3)

    @classmethod
    def of_running_fleet(cls) -> DemoLake:
        """Return the lake of the fleet that the environment names. Raises Misconfigured."""
        found = single_connection(connections_here())
        return cls(found, running=True, namespace=_new_namespace())

    @property
    def name(self) -> str:
        """Return the name of the catalog."""
        return NAME if self.connection is None else self.connection.name

    @property
    def parts(self) -> tuple[str, ...] | None:
        """Return the parts of the stack; None: all."""
        return None if self.connection is None else tuple(one for one in ALL if one != "catalog")

    @property
    def settings(self) -> Settings:
        """Return the additional settings of the stack's services. Secrets stay in the file."""
        if self.connection is None:
            return {}
        own = f"{OURS}{self.name.upper().replace('-', '_')}__"
        common = {
            "FIRNLINE_CONFIG": str(self.config),
            "FIRNLINE_CATALOG_URI": "",
            "FIRNLINE_UPSTREAM_URI": "",
            f"{own}URI": GATEWAY,
            f"{own}FIRNLINE__UPSTREAM_URI": self.connection.uri,
            "SPARK_DIST_CLASSPATH": self._more_jars,
        }
        return dict.fromkeys(SERVICES, common)

    @property
    def class_path(self) -> str:
        """Return the class path of the writers' Spark."""
        if self.running and (given := os.environ.get(ICEBERG_JAR.variable)):
            return given
        return os.pathsep.join(filter(None, (str(iceberg_jar()), self._more_jars)))

    @property
    def _more_jars(self) -> str:
        found = [str(aws_bundle())] if self.on_s3 else []
        given = os.environ.get("SPARK_DIST_CLASSPATH")
        return os.pathsep.join([*found, *([given] if given else [])])

    def writer_catalog(self, gateway_uri: str) -> RestCatalog:
        """Return a writer's catalog, by way of the gateway."""
        return RestCatalog(
            self.name, **_without_mark(self._gateway_connection(gateway_uri).pyiceberg_properties())
        )

    def spark_settings(self, gateway_uri: str) -> dict[str, str]:
        """Return the settings of a writer's session. They may contain secrets, so set them after
        the session has started."""
        prefix = f"spark.sql.catalog.{self.name}."
        unmarked = {f"{prefix}{name}" for name in MARK}
        settings = self._gateway_connection(gateway_uri).spark_settings()
        return {name: settings[name] for name in settings if name not in unmarked}

    def _gateway_connection(self, gateway_uri: str) -> CatalogConnection:
        if self.connection is None:
            return CatalogConnection(NAME, {"uri": gateway_uri})
        return self.connection.at_uri(gateway_uri)


def _new_namespace() -> str:
    return f"demo_{uuid.uuid4().hex[:6]}"


def _without_mark(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties without the mark that our own services send."""
    return {name: properties[name] for name in properties if name not in MARK}
