"""Checks a catalog: its configuration, our identity, what it lists and loads, and a commit if that
is allowed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from firnline_cli.checks.findings import Check, CheckAnswer, Failed, NotTried, remark
from firnline_cli.checks.settings import Given
from firnline_cli.shared.fleet import name_levels

if TYPE_CHECKING:
    from firnline_iceberg.table.loaded_table import LoadedTable

T = TypeVar("T")
MAX_NAMES = 200  # tables that are listed
LISTING_S = 10.0  # for them; a lake may have 10,000 namespaces with no table in them
MAX_LOADED = 3
SCRATCH = "firnline_doctor"  # the namespace
PATIENCE_S = 30.0


class CatalogChecks:
    """The checks of one catalog. `listed` and `loaded` are for others' checks."""

    def __init__(self, connection: Any, given: Given) -> None:
        self.connection = connection
        self._given = given
        self.name = f"catalog.{connection.name}"
        self.settings: dict[str, str] = {}
        self.listed: list[tuple[str, ...]] = []
        self.loaded: list[Any] = []

    def checks(self) -> Iterator[Check]:
        """Yield the checks in their order."""
        config, listed, name = f"{self.name}.config", f"{self.name}.list", self.name
        where = f"{self.connection.uri}/v1/config"
        yield Check(
            config, f"ask {where} ({self.connection.auth})", self.check_config, (), PATIENCE_S
        )
        yield Check(listed, "list namespaces and tables", self.list_tables, (config,), PATIENCE_S)
        tried = f"load {self._given.table}" if self._given.table else "load tables"
        yield Check(f"{name}.load", tried, self.load_tables, (config, listed), PATIENCE_S)

    def check_config(self) -> str:
        """Check that the catalog answers and accepts us, and that it has the warehouse."""
        from firnline_iceberg.catalog_probe import clock_of, read_configuration

        self._ask(lambda: clock_of(self.connection))  # fails at once; the client below tries again
        self.settings = dict(self._ask(lambda: read_configuration(self.connection)))
        facts = {
            "warehouse": self.connection.warehouse or "its default",
            "prefix": self.settings.get("prefix", "none"),
        }
        return "answers, " + ", ".join(f"{name} {value}" for name, value in facts.items())

    def list_tables(self) -> CheckAnswer | str:
        """List some tables of the namespaces that we may see."""
        from firnline_iceberg.table.catalog_client import Tables

        client = self._ask(lambda: Tables(self.connection).client)
        if self._given.table:
            self.listed = [name_levels(self._given.table)]
        spaces = [one for one in self._ask(client.list_namespaces) if one[0] != SCRATCH]
        end, looked_into = time.monotonic() + LISTING_S, 0
        for space in spaces:
            if len(self.listed) >= MAX_NAMES or time.monotonic() > end:
                break
            self.listed += self._ask(partial(_tables_of, client, space))
            looked_into += 1
        self.listed = self.listed[:MAX_NAMES]
        many = f"{len(spaces)} namespaces, {len(self.listed)} tables"
        if looked_into < len(spaces):
            many += f" in the first {looked_into}"
        if not self.listed:
            return remark(many, "no table: storage is tried once there is one, or with --write")
        return many

    def load_tables(self) -> CheckAnswer | str:
        """Load one table of each storage location, of the first ones."""
        from firnline_iceberg.table.catalog_client import Tables
        from firnline_iceberg.table.loaded_table import TableGone

        if not self.listed:
            raise NotTried("the catalog shows no table")
        tables, places = Tables(self.connection), set[str]()
        for *space, name in self.listed[:20]:
            try:
                one = self._ask(partial(tables.load_named, tuple(space), name))
            except TableGone as error:
                if self._given.table:
                    raise Failed(error, "--table names a table as namespace.name") from None
                continue
            place = bucket_of(one.metadata.location)
            if place not in places:
                places.add(place)
                self.loaded.append(one)
            if len(self.loaded) == MAX_LOADED or self._given.table:
                break
        if not self.loaded:
            raise NotTried("the tables that were listed are gone")
        first, found = self.loaded[0], ", ".join(sorted(places))
        return f"{first.identity.dotted_name}, format v{first.format_version}, in {found}"

    def scratch_table(self) -> ScratchTable:
        """Return a table to commit to. Raises Failed."""
        from firnline_iceberg.table.catalog_client import Tables

        client = self._ask(lambda: Tables(self.connection).client)
        return ScratchTable(client, self._ask)

    def load_listed(self, name: tuple[str, ...]) -> LoadedTable | None:
        """Load a table that was listed; None if it was dropped. Raises Failed."""
        from firnline_iceberg.table.catalog_client import Tables
        from firnline_iceberg.table.loaded_table import TableGone

        try:
            return self._ask(lambda: Tables(self.connection).load_named(name[:-1], name[-1]))
        except TableGone:
            return None

    def _ask(self, call: Callable[[], T]) -> T:
        """Return what the call returns. Raises Failed with cause and remedy, TableGone."""
        from firnline_iceberg.catalog_probe import cause_of
        from firnline_iceberg.table.loaded_table import TableGone

        try:
            return call()
        except TableGone:
            raise
        except Exception as error:
            cause = cause_of(error, self.connection)
            raise Failed(cause.text, cause.remedy) from None


def _tables_of(client: Any, space: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the tables of a namespace; an empty list if it was dropped since it was listed."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return list(client.list_tables(space))
    except NoSuchNamespaceError:
        return []


class ScratchTable:
    """A table of our own in a namespace of our own; no other table is disturbed."""

    def __init__(self, client: Any, asked: Callable[[Callable[[], Any]], Any]) -> None:
        self._client, self._asked = client, asked
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.uuid = ""
        self._table: Any = None
        self.committed_s = 0.0

    def __enter__(self) -> ScratchTable:
        """Create the table, excluded from maintenance."""
        from pyiceberg.exceptions import NamespaceAlreadyExistsError
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField

        def create_namespace() -> None:
            with suppress(NamespaceAlreadyExistsError):
                self._client.create_namespace(SCRATCH)

        self._asked(create_namespace)
        schema = Schema(NestedField(1, "id", LongType(), required=False))
        properties = {"firnline.enabled": "false"}
        self._table = self._asked(
            lambda: self._client.create_table((SCRATCH, self.name), schema, properties=properties)
        )
        self.uuid = str(self._table.metadata.table_uuid)
        return self

    def commit(self) -> None:
        """Commit a property, which is only metadata."""

        def set_property() -> None:
            with self._table.transaction() as change:
                change.set_properties({"firnline.doctor": self.name})

        self._asked(set_property)
        self.committed_s = time.time()

    def __exit__(self, *_: object) -> None:
        try:
            self._client.purge_table((SCRATCH, self.name))
        except Exception:  # not every principal may purge
            self._asked(lambda: self._client.drop_table((SCRATCH, self.name)))
        with suppress(Exception):  # another doctor's table is in it
            self._client.drop_namespace(SCRATCH)


def bucket_of(location: str) -> str:
    """Return `s3://bucket` of a location; `file://` of a local one."""
    scheme, mark, rest = location.partition("://")
    return f"{scheme}{mark}{rest.partition('/')[0]}" if mark else "file://"
