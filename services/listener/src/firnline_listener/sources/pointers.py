"""Which row of a catalog's database names which table: one row per kind of catalog."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from firnline_listener.port import Doorbell
from firnline_listener.sources.pgoutput import Row

Levels = Callable[[str], tuple[str, ...]]


def split_dots(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


def split_array(text: str) -> tuple[str, ...]:
    """Split the text form of `text[]`: `{a,"b c"}`."""
    inner = text.removeprefix("{").removesuffix("}")
    return tuple(next(csv.reader([inner], escapechar="\\", doublequote=False), ()))


def split_encoded(text: str) -> tuple[str, ...]:
    """Split URL-encoded levels, as `RESTUtil.encodeNamespace` joins them."""
    return tuple(unquote_plus(level) for level in re.split("%1[Ff]|\x1f", text))


def keep_whole(text: str) -> tuple[str, ...]:
    return (text,)


@dataclass(frozen=True)
class Pointers:
    """A relation whose rows point at tables. `catalog`: the column by which several catalogs share
    a database. `unfolded`: a column of JSON whose fields count as columns. `tables`: the values
    that the rows of tables have, for a relation that has others."""

    product: str
    relation: str
    catalog: str
    namespace: str
    levels: Levels
    name: str
    location: str
    unfolded: str = ""
    uuid: str = ""
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns by which the relation is known from others of its name."""
        named = (self.catalog, self.unfolded or self.location, self.name, self.uuid)
        return tuple(filter(None, named))

    def find_table(self, row: Row, catalog: str, only: str) -> Doorbell | None:
        """Return the table of a row in `catalog`; None for other rows, and for a key that names
        none. `only`: the value that the catalog's rows have, if there are several."""
        row = {**row, **self._unfold(row)}
        if only and row.get(self.catalog, only) != only:
            return None
        if any((said := row.get(one)) and said not in kept for one, kept in self.tables.items()):
            return None
        levels, name, uuid = row.get(self.namespace), row.get(self.name), row.get(self.uuid)
        location = row.get(self.location)
        if not uuid and not location and (not name or levels is None):
            return None
        return Doorbell(
            catalog=catalog,
            namespace=() if levels is None else self.levels(levels),
            name=name or "",
            uuid=uuid or "",
            metadata_location=location or "",
        )

    def _unfold(self, row: Row) -> Row:
        text = row.get(self.unfolded)
        found = json.loads(text) if text else {}
        fields = found.items() if isinstance(found, dict) else ()
        return {name: one for name, one in fields if isinstance(one, str)}


POINTERS = (
    Pointers(
        "JDBC (Iceberg's JdbcCatalog, PyIceberg's SqlCatalog)",
        "iceberg_tables",
        catalog="catalog_name",
        namespace="table_namespace",
        levels=split_dots,
        name="table_name",
        location="metadata_location",
        tables={"iceberg_type": frozenset({"TABLE"})},
    ),
    Pointers(
        "Polaris with relational-jdbc",
        "entities",
        catalog="catalog_id",
        namespace="parent-namespace",
        levels=split_encoded,
        name="name",
        location="metadata-location",
        unfolded="internal_properties",
        tables={"type_code": frozenset({"7"}), "sub_type_code": frozenset({"2"})},  # Iceberg tables
    ),
    Pointers(
        "Lakekeeper",
        "tabular",
        catalog="warehouse_id",
        namespace="tabular_namespace_name",
        levels=split_array,
        name="name",
        location="metadata_location",
        uuid="tabular_id",
        tables={"typ": frozenset({"table"})},
    ),
    Pointers(
        "Hive metastore",
        "TABLE_PARAMS",  # its rows have the numbers of tables, so the folder names the table
        catalog="",
        namespace="",
        levels=keep_whole,
        name="",
        location="PARAM_VALUE",
        tables={"PARAM_KEY": frozenset({"metadata_location"})},
    ),
    Pointers(
        "Hive metastore with DbNotificationListener",
        "NOTIFICATION_LOG",
        catalog="CAT_NAME",
        namespace="DB_NAME",
        levels=keep_whole,
        name="TBL_NAME",
        location="",
        tables={"EVENT_TYPE": frozenset({"ALTER_TABLE", "CREATE_TABLE", "DROP_TABLE"})},
    ),
)
