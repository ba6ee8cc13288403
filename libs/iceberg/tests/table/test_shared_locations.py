"""Tables that may have the files of another one: by a catalog that answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.catalogs import CatalogTables, OneCatalogTables
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.shared_locations import (
    FACTS_AGE_S,
    NAMES_AGE_S,
    Neighbours,
    outside_rule,
    refuse_shared,
)

from libs.iceberg.tests.rest_catalog import OURS, Name, RestCatalog, serving


@pytest.fixture
def catalog() -> Iterator[RestCatalog]:
    yield from serving()


@pytest.fixture
def other_catalog() -> Iterator[RestCatalog]:
    yield from serving()


def refused(catalog: RestCatalog, name: Name = OURS) -> str:
    """The reason and the neighbours' names; '' where nothing speaks against a removal."""
    tables = Tables(catalog.uri)
    table = tables.load_named(name[:-1], name[-1])
    try:
        refuse_shared(tables, table)
    except TaskRefused as why:
        return f"{why.reason} {why}"
    return ""


def test_tables_of_their_own_are_no_neighbours(catalog: RestCatalog) -> None:
    for at, location in enumerate(
        (
            "s3://lake/shop/orders2",
            "s3://lake/shop/order",
            "s3://other/shop/orders",
            "gs://lake/shop",
        )
    ):
        catalog.put(("shop", f"t{at}"), location)
    assert refused(catalog) == ""


@pytest.mark.parametrize("name", [("shop", "copy"), ("dev", "orders"), ("a", "b", "c", "d", "t")])
def test_another_table_of_the_uuid_is_refused_wherever_it_is(
    catalog: RestCatalog, name: Name
) -> None:
    catalog.put(name, "gs://elsewhere/t", uuid=1)
    said = refused(catalog)
    assert said.startswith("shared_identity")
    assert f"lake:{'.'.join(name)}" in said
    assert refused(catalog, name).startswith("shared_identity")


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/shop/orders",
        "s3://lake/shop/orders/",
        "s3a://lake/shop/orders",
        "S3N://lake//shop/orders//",
        "s3://lake/shop/orders/data/cold",
        "s3://lake/shop",
        "s3://lake",
        "s3://lake/x/../shop/orders",
        "s3://lake/./shop/./orders/data",
    ],
)
def test_a_location_equal_above_or_below_is_refused(catalog: RestCatalog, location: str) -> None:
    catalog.put(("dev", "t"), location)
    assert refused(catalog).startswith("shared_location")
    assert refused(catalog, ("dev", "t")).startswith("shared_location")


@pytest.mark.parametrize(
    "key",
    [
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
        "write.of-the-future.path",
    ],
)
def test_paths_in_properties_count_on_both_sides(catalog: RestCatalog, key: str) -> None:
    catalog.put(("dev", "theirs"), "s3://lake/theirs", **{key: "s3://lake/shop/orders/data"})
    assert refused(catalog).startswith("shared_location")
    catalog.put(("dev", "theirs"), "s3://lake/theirs")
    catalog.put(OURS, "s3://lake/shop/orders", uuid=1, **{key: "s3://lake/theirs"})
    assert refused(catalog).startswith("shared_location")


def test_single_files_that_the_metadata_names_count(catalog: RestCatalog) -> None:
    theirs = catalog.put(("dev", "theirs"), "s3://lake/theirs")
    file = "s3://lake/shop/orders/metadata/x"
    snapshot = {"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": file}
    statistics = {"snapshot-id": 1, "statistics-path": file}
    for key, value in (
        ("metadata-log", {"timestamp-ms": 1, "metadata-file": file}),
        ("snapshots", snapshot),
        ("snapshots", {**snapshot, "manifest-list": None, "manifests": [file]}),
        ("statistics", statistics),
        ("partition-statistics", statistics),
    ):
        before, theirs[key] = theirs.get(key), [value]
        assert refused(catalog).startswith("shared_location"), key
        theirs[key] = before
    assert refused(catalog) == ""


def test_links_of_local_files_are_followed(catalog: RestCatalog, tmp_path: Path) -> None:
    (tmp_path / "lake" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    catalog.put(OURS, f"file://{tmp_path}/lake/t", uuid=1)
    for location in (
        f"file:{tmp_path}/link/t/data",
        f"{tmp_path}/link",
        f"file://localhost{tmp_path}/lake/x/../t",
        f"FILE:///{tmp_path}/l%61ke/t",
    ):
        catalog.put(("dev", "t"), location)
        assert refused(catalog).startswith("shared_location"), location


@pytest.mark.parametrize(
    "path",
    ["namespaces/shop/tables", "namespaces/dev/tables", "namespaces/dev/tables/t", "namespaces"],
)
@pytest.mark.parametrize("status", [403, 500])
def test_what_the_catalog_does_not_show_is_refused(
    catalog: RestCatalog, path: str, status: int
) -> None:
    catalog.put(("dev", "t"), "s3://lake/dev/t")
    catalog.answers[path] = status
    tables = Tables(catalog.uri)
    table = tables.load_named(("shop",), "orders")
    with pytest.raises((TaskRefused, RetryLater)) as why:
        refuse_shared(tables, table)
    if status == 403:
        assert isinstance(why.value, TaskRefused)
        assert why.value.reason == "neighbours_unknown"
    if path.endswith("/t"):
        assert "lake:dev.t" in str(why.value)


@pytest.mark.parametrize("status", [403, 500])
@pytest.mark.parametrize(("declared", "refuses"), [("old.x, dev.t", False), ("dev", True)])
def test_an_unreadable_table_that_the_operator_names_stops_no_other(
    catalog: RestCatalog, status: int, declared: str, refuses: bool
) -> None:
    location = catalog.tables[OURS]["location"]
    catalog.put(("dev", "t"), location)
    properties = {"uri": catalog.uri, "firnline.unreadable-tables": declared}
    tables = Tables(CatalogConnection("lake", properties))
    table = tables.load_named(("shop",), "orders")
    with pytest.raises(TaskRefused, match="both have files"):
        refuse_shared(tables, table)  # the name excuses no table that can be loaded
    catalog.answers["namespaces/dev/tables/t"] = status
    unknown = Neighbours(tables)
    if refuses:
        with pytest.raises(TaskRefused, match=r"firnline\.unreadable-tables"):
            unknown.neighbours_of(table)
    else:
        assert unknown.neighbours_of(table) == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": ' + b"[" * 100_000,
        b'{"metadata": ' + b'{"a":' * 1_500 + b"1" + b"}" * 1_501,
        b'{"metadata": {"table-uuid": "x", ',
        b'{"metadata": {"n": ' + b"9" * 5_000 + b"}}",
        b"\xff",
        b"",
    ],
)
def test_an_answer_that_cannot_be_parsed_is_of_that_table_alone(
    catalog: RestCatalog, body: bytes
) -> None:
    """The catalog is not away: the operator can declare the table."""
    catalog.put(("dev", "t"), "s3://lake/dev/t")
    properties = {"uri": catalog.uri, "firnline.unreadable-tables": "dev.t"}
    tables = Tables(CatalogConnection("lake", properties))
    table = tables.load_named(("shop",), "orders")
    catalog.bodies["namespaces/dev/tables/t"] = body
    assert Neighbours(tables).neighbours_of(table) == []
    with pytest.raises(TaskRefused, match=r"lake:dev\.t cannot be loaded"):
        refuse_shared(Tables(catalog.uri), table)


def test_a_table_that_the_catalog_lists_and_does_not_have_stops_nobody(
    catalog: RestCatalog,
) -> None:
    catalog.put(("dev", "t"), "s3://lake/dev/t")
    catalog.answers["namespaces/dev/tables/t"] = 404
    assert refused(catalog) == ""


def test_all_connections_are_asked(catalog: RestCatalog, other_catalog: RestCatalog) -> None:
    connections = {
        "lake": CatalogConnection("lake", {"uri": catalog.uri}),
        "other": CatalogConnection("other", {"uri": other_catalog.uri}),
    }
    tables = CatalogTables(connections)
    table = tables.load_named(("shop",), "orders")
    with pytest.raises(TaskRefused, match=r"other:shop\.orders") as why:
        refuse_shared(tables, table)
    assert why.value.reason == "shared_identity"
    del other_catalog.tables[OURS]
    assert Neighbours(tables).neighbours_of(table) == []
    other_catalog.put(("db", "t"), "s3://lake/shop/orders/x")
    assert [one.name for one in Neighbours(tables).neighbours_of(table)] == ["other:db.t"]


def test_two_connections_to_one_place_see_one_table(catalog: RestCatalog) -> None:
    """Not a copy of itself; what only the second one may see counts."""
    connections = {name: CatalogConnection(name, {"uri": catalog.uri}) for name in ("lake", "two")}
    tables = CatalogTables(connections)
    table = tables.load_named(("shop",), "orders")
    assert Neighbours(tables).neighbours_of(table) == []


def test_calls_are_bounded_by_age_and_shared(catalog: RestCatalog) -> None:
    """However many tasks ask at once: one listing, and one load per table."""
    for at in range(20):
        catalog.put(("many", f"t{at}"), f"s3://lake/many/t{at}")
    now = [1_000.0]
    tables = Tables(catalog.uri)
    table, known = tables.load_named(("shop",), "orders"), Neighbours(tables, lambda: now[0])
    catalog.calls.clear()
    asked = catalog.delegated
    for _ in range(10):
        assert known.neighbours_of(table) == []
    listings = [one for one in catalog.calls if "/tables/" not in one and one != "config"]
    assert catalog.loads() == 21
    assert len(listings) == 5  # of the namespaces at the top, and two for each of two
    assert catalog.delegated - asked <= len(listings) + 10  # no load asks for keys


@pytest.mark.parametrize(
    ("takes_s", "used_until_s"), [(0.05, 0.1), (0.2, 40.0), (99.0, FACTS_AGE_S)]
)
def test_what_tables_say_is_read_for_each_action_unless_that_is_slow(
    catalog: RestCatalog, takes_s: float, used_until_s: float
) -> None:
    """A table that was dropped may be back as a clone, and one of another location may come here.
    A new name is loaded at once."""
    now = [0.0]

    class Slow(Tables):
        def metadata_json(self, name: Name) -> tuple[str, dict[str, Any]]:
            now[0] += takes_s
            return super().metadata_json(name)

    catalog.put(("dev", "t"), "s3://lake/dev/t")
    tables = Slow(catalog.uri)
    table, known = tables.load_named(("shop",), "orders"), Neighbours(tables, lambda: now[0])
    assert known.neighbours_of(table) == []
    catalog.put(("dev", "t"), "s3://lake/dev/t", uuid=1)
    if used_until_s > now[0]:
        now[0] = used_until_s - 0.1
        assert known.neighbours_of(table) == []
        now[0] = used_until_s
        catalog.put(("dev", "new"), "s3://lake/shop/orders/x")
        assert [one.name for one in known.neighbours_of(table)] == ["lake:dev.new"]
        del catalog.tables["dev", "new"]
    now[0] = used_until_s + 0.1
    assert [one.name for one in known.neighbours_of(table)] == ["lake:dev.t"]
    catalog.put(("dev", "t"), "s3://lake/shop/orders/data")
    now[0] += used_until_s + 0.1
    assert [one.reason for one in known.neighbours_of(table)] == ["shared_location"]


@pytest.mark.parametrize(("takes_s", "used_until_s"), [(0.9, 0.9), (2.0, 40.0)])
def test_a_listing_is_made_for_each_action_unless_it_is_slow(
    catalog: RestCatalog, takes_s: float, used_until_s: float
) -> None:
    """A clone that was registered meanwhile would lose its files."""
    now = [0.0]

    class Slow(Tables):
        def table_names(self) -> Iterator[tuple[str, ...]]:
            now[0] += takes_s
            return super().table_names()

    tables = Slow(catalog.uri)
    table, known = tables.load_named(("shop",), "orders"), Neighbours(tables, lambda: now[0])
    assert known.neighbours_of(table) == []
    catalog.put(("dev", "clone"), "s3://lake/clone", uuid=1)
    if used_until_s > now[0]:
        now[0] = used_until_s
        assert known.neighbours_of(table) == []
    now[0] = used_until_s + 0.1
    assert [one.name for one in known.neighbours_of(table)] == ["lake:dev.clone"]


def test_a_table_that_was_dropped_is_forgotten(catalog: RestCatalog) -> None:
    now = [0.0]
    tables = Tables(catalog.uri)
    table, known = tables.load_named(("shop",), "orders"), Neighbours(tables, lambda: now[0])
    catalog.put(("dev", "t"), "s3://lake/shop/orders/x")
    assert known.neighbours_of(table)
    del catalog.tables["dev", "t"]
    now[0] += NAMES_AGE_S + 1
    assert known.neighbours_of(table) == []


def test_a_prefix_that_no_connection_names_is_looked_through(catalog: RestCatalog) -> None:
    catalog.prefix = "dev"
    catalog.put(("db", "t"), "s3://lake/shop/orders/x")
    tables = CatalogTables(CatalogConnection("lake", {"uri": catalog.uri}))
    uuid = str(UUID(int=1))
    table = tables.load(TableName(uuid, ("shop",), "orders", "lake", "dev"))
    assert [one.name for one in Neighbours(tables).neighbours_of(table)] == ["lake/dev:db.t"]


def test_files_outside_go_only_where_the_operator_says_and_nobody_else_is(
    catalog: RestCatalog,
) -> None:
    """A writer can name any path in a manifest, and agree for his own table."""
    catalog.put(("dev", "t"), "s3://lake/imports/t", **{"write.data.path": "s3://lake/imports/d"})
    log = [{"timestamp-ms": 1, "metadata-file": "s3://lake/imports/old/x.json"}]
    catalog.tables["dev", "t"]["metadata-log"] = log
    named = "s3://lake/imports, s3a://cold/"
    properties = {"uri": catalog.uri, "firnline.external-files": named}
    tables = Tables(CatalogConnection("lake", properties))
    table = tables.load_named(("shop",), "orders")
    why_kept = outside_rule(tables, table, tables)
    for path in ("s3://lake/imports/a.parquet", "s3://cold/x/y", "s3n://lake/imports/a/b"):
        assert why_kept(path) == ""
    for path in (
        "s3://payroll/backup.tar",
        "s3://lake/imports",
        "s3://lake/imports2/a",
        "s3://lake/imports/../payroll/a",
        "gs://lake/imports/a",
        "/etc/passwd",
        "file:///s3:/lake/imports/a",
        "",
    ):
        assert "firnline.external-files" in why_kept(path), path
    for path in (
        "s3://lake/imports/t/data/a.parquet",
        "s3a://lake//imports/./t/a",
        "s3://lake/imports/d/x/a.parquet",
        "s3://lake/imports/x/../d/a.parquet",
        "s3://lake/imports/old/y.json",
    ):
        assert "lake:dev.t" in why_kept(path), path
    bare = Tables(catalog.uri)
    assert outside_rule(bare, table, bare)("s3://lake/imports/a.parquet") != ""


@pytest.mark.parametrize("prefix", ["", "dev"])
def test_all_prefixes_of_a_connection_are_asked(catalog: RestCatalog, prefix: str) -> None:
    """A table under one of them has a clone under the other; both are refused."""
    catalog.others["dev"] = {OURS: catalog.tables[OURS]}
    lake = CatalogConnection("lake", {"uri": catalog.uri, "firnline.prefixes": " dev "})
    for tables in (CatalogTables({"lake": lake}), OneCatalogTables(lake, {"lake": lake})):
        own = tables.known_catalogs(TableName("", (), "", "lake", prefix))
        table = next(one for one in own if one.prefix == prefix).load_named(OURS[:-1], OURS[-1])
        with pytest.raises(TaskRefused) as refusal:
            refuse_shared(tables, table)
        assert refusal.value.reason == "shared_identity"
    catalog.others.clear()
    with pytest.raises(TaskRefused) as refusal:
        CatalogTables({"lake": lake}).known_catalogs(TableName("", (), "", "lake"))
    assert refusal.value.reason == "unknown_prefix"
