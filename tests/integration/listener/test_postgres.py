"""Logical decoding of a catalog's database, on a real server: nothing is lost, nothing held."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_listener.port import Doorbell, DoorbellSource
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog, postgres
from pyiceberg.catalog.rest import RestCatalog

from tests.integration.listener.conftest import collect, execute, names_of

pytestmark = pytest.mark.stack
OpenSource = Callable[..., DoorbellSource]
# Of the catalogs' own schemas, the columns that matter: Polaris schema-v5.sql, Lakekeeper's
# migrations up to 20260529, Hive's hive-schema-4.0.0.postgres.sql, Iceberg's JdbcUtil.
JDBC = """CREATE TABLE iceberg_tables (
catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),
previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
PRIMARY KEY (catalog_name, table_namespace, table_name))"""
POLARIS = """CREATE TABLE entities (
realm_id TEXT NOT NULL, catalog_id BIGINT NOT NULL, id BIGINT NOT NULL, name TEXT NOT NULL,
type_code INT NOT NULL, sub_type_code INT NOT NULL,
properties JSONB NOT NULL DEFAULT '{}'::JSONB, internal_properties JSONB NOT NULL,
PRIMARY KEY (realm_id, id))"""
LAKEKEEPER = """CREATE TABLE tabular (
tabular_id uuid NOT NULL, warehouse_id uuid NOT NULL, name text NOT NULL,
tabular_namespace_name text[] NOT NULL, typ text NOT NULL, metadata_location text,
deleted_at timestamptz, PRIMARY KEY (warehouse_id, tabular_id))"""
HIVE_LOG = """CREATE TABLE "NOTIFICATION_LOG" (
"NL_ID" BIGINT NOT NULL, "EVENT_ID" BIGINT NOT NULL, "EVENT_TIME" INTEGER NOT NULL,
"EVENT_TYPE" VARCHAR(32) NOT NULL, "CAT_NAME" VARCHAR(256), "DB_NAME" VARCHAR(128),
"TBL_NAME" VARCHAR(256), "MESSAGE" text, "MESSAGE_FORMAT" VARCHAR(16), PRIMARY KEY ("NL_ID"))"""
HIVE = """CREATE TABLE "TABLE_PARAMS" (
"TBL_ID" BIGINT NOT NULL, "PARAM_KEY" VARCHAR(256) NOT NULL, "PARAM_VALUE" TEXT,
PRIMARY KEY ("TBL_ID", "PARAM_KEY"))"""


def insert_table(name: str, *, catalog_name: str = "c", kind: str = "'TABLE'") -> str:
    values = f"'{catalog_name}', 'db.sub', '{name}', 's3://b/{name}/1.json', NULL, {kind}"
    return f"INSERT INTO iceberg_tables VALUES ({values})"


def move_pointer(name: str, version: int) -> str:
    where = f"WHERE table_name = '{name}'"
    return f"UPDATE iceberg_tables SET metadata_location = 's3://b/{name}/{version}.json' {where}"


def settle(source: DoorbellSource, bell: Doorbell) -> None:
    source.settle(bell.position)
    source.poll(0.0)


def confirmed_by(database: str) -> str:
    [[lsn]] = execute(
        database,
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()",
    )
    return str(lsn)


def open_ready(open_source: OpenSource, **properties: str) -> DoorbellSource:
    """A source whose slot is made, and its first doorbell settled."""
    source = open_source(**properties)
    [whole] = collect(source, 1)
    assert (whole.catalog, whole.namespace, whole.name) == ("lake", (), "")
    source.settle(whole.position)
    return source


def test_a_jdbc_catalog_rings_for_each_commit(
    postgres_server: tuple[Path, int], database: str, open_source: OpenSource, tmp_path: Path
) -> None:
    folder, port = postgres_server
    name = database.rpartition("/")[2]
    address = postgres.jdbc_uri(folder, port).replace(f"/{postgres.DATABASE}?", f"/{name}?")
    at = free_port()
    command = catalog.command(tmp_path / "catalog", at, address, postgres.driver_jar())
    with run_process(command, tmp_path / "catalog.log"):
        lake = RestCatalog("lake", uri=catalog.uri(at))
        lake.create_namespace("db")
        source = open_ready(open_source)
        rows = pa.table({"id": pa.array([1, 2], pa.int64())})
        table = lake.create_table("db.t", rows.schema)
        table.append(rows)
        table.append(rows)
        bells = collect(source, 3)
        assert names_of(bells) == ["db.t"] * 3
        assert bells[-1].metadata_location == table.metadata_location
        lake.rename_table("db.t", "db.u")
        assert sorted(names_of(collect(source, 2))) == ["db.t", "db.u"]
        lake.drop_table("db.u")
        assert names_of(collect(source, 1)) == ["db.u"]


def test_other_catalogs_databases_name_their_tables(database: str, open_source: OpenSource) -> None:
    execute(database, POLARIS, LAKEKEEPER, HIVE, HIVE_LOG)
    source = open_ready(open_source)
    where = '{"parent-namespace": "db%1Fa+b", "metadata-location": "s3://b/p/2.json"}'
    uuid = "0190a0a0-0000-7000-8000-000000000001"
    execute(
        database,
        f"INSERT INTO entities VALUES ('r', 3, 7, 'p', 7, 2, '{{}}', '{where}')",
        "INSERT INTO entities VALUES ('r', 3, 8, 'a principal', 2, 0, '{}', '{}')",
        f"""INSERT INTO tabular VALUES ('{uuid}', '{uuid}', 'l', '{{db,"a, b"}}', 'table', 's3://l')""",
        f"""INSERT INTO tabular VALUES ('{uuid[:-1]}2', '{uuid}', 'v', '{{db}}', 'view', 's3://v')""",
        """INSERT INTO "NOTIFICATION_LOG" VALUES (1, 1, 0, 'ALTER_TABLE', 'hive', 'db', 'h')""",
        """INSERT INTO "NOTIFICATION_LOG" VALUES (2, 2, 0, 'OPEN_TXN', NULL, NULL, NULL)""",
        """INSERT INTO "TABLE_PARAMS" VALUES (1, 'metadata_location', 's3://b/h/2.json'),
        (2, 'metadata_location', 's3://b/i/7.json'), (2, 'uuid', 'a')""",
        """DELETE FROM "TABLE_PARAMS" WHERE "TBL_ID" = 1""",
        "DELETE FROM tabular WHERE name = 'l'",
    )
    bells = collect(source, 6)
    assert [(one.namespace, one.name, one.metadata_location, one.uuid) for one in bells] == [
        (("db", "a b"), "p", "s3://b/p/2.json", ""),
        (("db", "a, b"), "l", "s3://l", uuid),
        (("db",), "h", "", ""),
        ((), "", "s3://b/h/2.json", ""),
        ((), "", "s3://b/i/7.json", ""),
        ((), "", "", uuid),
    ]


def test_only_one_of_several_catalogs_is_followed(database: str, open_source: OpenSource) -> None:
    execute(database, JDBC)
    source = open_ready(open_source, only="c")
    execute(database, insert_table("other", catalog_name="d"), insert_table("v", kind="'VIEW'"))
    execute(database, insert_table("old", kind="NULL"), insert_table("t"))
    assert names_of(collect(source, 2)) == ["db.sub.old", "db.sub.t"]


def test_what_is_not_settled_comes_again(database: str, open_source: OpenSource) -> None:
    execute(database, JDBC)
    source = open_ready(open_source)
    execute(database, *map(insert_table, ("a", "b", "c")))
    bells = collect(source, 3)
    settle(source, bells[1])
    source.close()
    assert names_of(collect(open_source(), 1)) == ["db.sub.c"]


def test_a_transaction_is_settled_with_its_last_table(
    database: str, open_source: OpenSource
) -> None:
    execute(database, JDBC)
    source = open_ready(open_source)
    execute(database, ";".join(map(insert_table, ("a", "b"))) + f";{move_pointer('a', 2)}")
    bells = collect(source, 2)
    assert [one.metadata_location for one in bells] == ["s3://b/a/2.json", "s3://b/b/1.json"]
    settle(source, bells[0])
    source.close()
    again = open_source()
    repeated = collect(again, 2)
    assert names_of(repeated) == ["db.sub.a", "db.sub.b"]
    settle(again, repeated[1])
    again.close()
    assert collect_nothing(open_source())


def collect_nothing(source: DoorbellSource) -> bool:
    """Whether nothing comes for a second; the first poll connects."""
    return [*source.poll(0.0), *source.poll(1.0)] == []


def test_a_connection_that_breaks_loses_nothing(database: str, open_source: OpenSource) -> None:
    execute(database, JDBC)
    source = open_ready(open_source)
    execute(database, insert_table("a"))
    [bell] = collect(source, 1)
    execute(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_replication",
        insert_table("b"),
    )
    with pytest.raises(RetryLater, match="slot firnline_"):
        collect(source, 2)
    source.settle(bell.position)  # while there is no connection
    assert {"db.sub.b"} <= set(names_of(collect(source, 1) + collect(source, 1)))


def test_a_slot_that_was_lost_asks_about_the_whole_catalog_once(
    database: str, open_source: OpenSource
) -> None:
    execute(database, JDBC)
    source = open_ready(open_source)
    execute(database, insert_table("a"))
    [stale] = collect(source, 1)
    source.close()
    execute(
        database,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE database = current_database()",
        insert_table("b"),  # no slot holds it
    )
    [whole] = collect(source, 1)
    assert (whole.namespace, whole.name) == ((), "")
    source.settle(stale.position)  # of the slot before: it confirms nothing
    source.settle(whole.position)
    execute(database, insert_table("c"))
    assert names_of(collect(source, 1)) == ["db.sub.c"]


def test_a_slot_that_the_server_gave_up_is_made_again(
    postgres_server: tuple[Path, int], database: str, open_source: OpenSource
) -> None:
    folder, port = postgres_server
    execute(database, JDBC)
    source = open_ready(open_source)
    source.close()
    server = postgres.uri(folder, port)
    execute(server, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        execute(database, "CREATE TABLE noise (x text)")
        lost = "SELECT wal_status FROM pg_replication_slots WHERE database = current_database()"
        deadline = time.monotonic() + 60
        while execute(database, lost) != [("lost",)] and time.monotonic() < deadline:
            fill = "INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
            execute(database, fill, "SELECT pg_switch_wal()", "CHECKPOINT")
        [whole] = collect(source, 1)
        assert (whole.catalog, whole.name) == ("lake", "")
    finally:
        execute(server, "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def test_commits_of_others_hold_no_log(database: str, open_source: OpenSource) -> None:
    """What is not about tables is confirmed as it comes, or an idle catalog fills the disk."""
    execute(database, JDBC, "CREATE TABLE noise (x text)")
    source = open_ready(open_source)
    source.poll(0.0)
    before = confirmed_by(database)
    execute(database, insert_table("v", kind="'VIEW'"))
    deadline = time.monotonic() + 10
    while confirmed_by(database) == before and time.monotonic() < deadline:
        source.poll(0.2)
    assert confirmed_by(database) != before
    execute(database, insert_table("a"))
    collect(source, 1)
    held = confirmed_by(database)
    execute(database, "INSERT INTO noise SELECT repeat('x', 100) FROM generate_series(1, 1000)")
    for _ in range(15):
        source.poll(0.1)
    assert confirmed_by(database) == held  # nothing is confirmed past what is not settled


def test_a_server_that_restarts_is_met_again(tmp_path: Path, open_source: OpenSource) -> None:
    folder, port = tmp_path / "postgres", free_port()
    command, log = postgres.command(folder, port), tmp_path / "postgres.log"
    with run_process(command, log):
        address = postgres.uri(folder, port)
        execute(address, JDBC)
        source = open_ready(open_source, url=address)
        execute(address, insert_table("a"))
        source.settle(collect(source, 1)[0].position)
        source.poll(0.0)
    with pytest.raises(RetryLater):
        collect(source, 1)
    with run_process(command, log):
        execute(address, insert_table("b"))
        assert names_of(collect(source, 1)) == ["db.sub.b"]
        source.close()


def test_a_database_without_a_catalog_says_what_it_looks_for(open_source: OpenSource) -> None:
    with pytest.raises(RetryLater, match=r"no table of a known catalog .*iceberg_tables"):
        open_source().poll(0.0)


def test_a_user_who_may_not_publish_is_told_the_statement(
    postgres_server: tuple[Path, int], database: str, open_source: OpenSource
) -> None:
    execute(database, JDBC, *grant_replication("reader"))
    login = database.replace(database.partition("@")[0], "postgresql://reader:secret")
    with pytest.raises(RetryLater) as told:
        open_source(url=login).poll(0.0)
    statement = str(told.value).rpartition("owner: ")[2]
    assert statement == 'CREATE PUBLICATION "firnline" FOR TABLE "public"."iceberg_tables"'
    execute(database, statement)
    source = open_ready(open_source, url=login)
    execute(database, insert_table("a"))
    assert names_of(collect(source, 1)) == ["db.sub.a"]


def grant_replication(user: str) -> tuple[str, ...]:
    role = f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{user}') THEN"
    made = f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'secret'"
    return (f"DO $$ BEGIN {role} {made}; END IF; END $$",)


def test_a_table_without_a_key_is_never_published(database: str, open_source: OpenSource) -> None:
    """A published table without one refuses each update of its catalog."""
    execute(
        database, JDBC.replace(",\nPRIMARY KEY (catalog_name, table_namespace, table_name)", "")
    )
    with pytest.raises(RetryLater, match="no table of a known catalog"):
        open_source().poll(0.0)
    execute(database, insert_table("a"), move_pointer("a", 2))


@pytest.mark.parametrize("given", [{"url": ""}, {"slott": "x"}], ids=["no address", "a typo"])
def test_a_section_that_is_wrong_is_refused(open_source: OpenSource, given: Any) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.pg-"):
        open_source(**given)
