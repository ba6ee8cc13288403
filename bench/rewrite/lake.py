"""A REST catalog over a local warehouse, and a small JVM that speaks Iceberg's Java API to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firnline_domain.identity import TableName
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.servers.artifacts import iceberg_jar

from bench.rewrite import gateway_side

NAMESPACE = ("bench",)


@dataclass(frozen=True)
class Lake:
    """A running catalog; tables live in namespace `bench`."""

    uri: str
    folder: Path

    @property
    def tables(self) -> Tables:
        return Tables(self.uri)

    def find(self, name: str) -> LoadedTable | None:
        """The table of this name; None where there is none."""
        try:
            return self.tables.load_named(NAMESPACE, name)
        except TableGone:
            return None


@contextmanager
def running(folder: Path) -> Iterator[Lake]:
    """Serve the warehouse in `folder`; what is there stays there."""
    port = free_port()
    with run_process(catalog.command(folder.absolute(), port), folder / "catalog.log"):
        yield Lake(catalog.uri(port), folder)


@contextmanager
def behind_gateway(lake: Lake) -> Iterator[Lake]:
    """The same lake as writers see it in production: through the gateway."""
    port, folder = free_port(), lake.folder / "gateway"
    with run_process(gateway_side.command(folder, lake.uri, port), lake.folder / "gateway.log"):
        yield replace(lake, uri=catalog.uri(port))


@dataclass(frozen=True)
class Java:
    """Iceberg's Java API on a lake."""

    jvm: Any
    catalog: Any

    def identifier(self, name: str) -> Any:
        levels = self.jvm.org.apache.iceberg.catalog.Namespace.of
        kind = self.jvm.org.apache.iceberg.catalog.TableIdentifier
        return kind.of(levels(strings(self.jvm, NAMESPACE)), name)

    def load(self, name: str) -> Any:
        return load_table(self.jvm, self.catalog, TableName("", NAMESPACE, name))

    def copy(self, name: str, metadata_location: str) -> None:
        """Register the table's state of this moment under a name of its own: heads part from
        here, files are shared and never deleted."""
        self.catalog.registerTable(self.identifier(name), metadata_location)


@contextmanager
def java(lake: Lake) -> Iterator[Java]:
    """A JVM as long as the block runs; the namespace is there."""
    with IcebergJvm(iceberg_jar()) as machine:
        made = Java(machine.jvm, rest_catalog(machine.jvm, lake.uri))
        level = machine.jvm.org.apache.iceberg.catalog.Namespace.of(strings(machine.jvm, NAMESPACE))
        if not made.catalog.namespaceExists(level):
            made.catalog.createNamespace(level)
        yield made


def strings(jvm: Any, texts: tuple[str, ...]) -> Any:
    """A Java String[]."""
    array = jvm.java.lang.reflect.Array
    made = array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(texts))
    for index, text in enumerate(texts):
        array.set(made, index, text)
    return made


def ints(jvm: Any, numbers: tuple[int, ...]) -> Any:
    """A Java int[]."""
    array = jvm.java.lang.reflect.Array
    made = array.newInstance(jvm.java.lang.Integer.TYPE, len(numbers))
    for index, number in enumerate(numbers):
        array.setInt(made, index, number)
    return made
