"""Tables of one name in several catalogs, as people see and name them."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.identity import TableName

from services.console.tests.http.test_http_api import Make, Site, site

__all__ = ["site"]
ORDERS = TableName("u", ("shop",), "orders")
DEV = replace(ORDERS, prefix="dev")
ARCHIVE = replace(ORDERS, catalog="archive")


async def test_one_catalog_is_no_part_of_a_name(site: Site, make: Make) -> None:
    site.tell(make("table_state/in_flight", table=DEV))
    [row] = (await site.get("/api/tables"))["tables"]
    assert (row["table"], row["catalog"], row["table_key"]) == ("shop.orders", "lake/dev", DEV.key)
    assert row["identity"] == {
        "uuid": "u", "namespace": ["shop"], "name": "orders", "catalog": "lake", "prefix": "dev",
    }  # fmt: skip
    for name in ("shop.orders", "lake/dev:shop.orders", DEV.key):
        assert (await site.get(f"/api/tables/{name.replace('/', '%2F')}"))["table_key"] == DEV.key
    assert (await site.get("/api/fleet"))["catalogs"] == ["lake/dev"]


async def test_of_several_each_is_shown_and_found_by_its_own(site: Site, make: Make) -> None:
    for table in (ORDERS, DEV, ARCHIVE):
        site.tell(make("table_state/in_flight", table=table))
        site.tell(make("rewrite_files/compact", table=table, task_id=table.key))
    full = ["archive:shop.orders", "lake/dev:shop.orders", "lake:shop.orders"]
    rows = (await site.get("/api/tables"))["tables"]
    assert sorted(row["table"] for row in rows) == full
    for name in full:
        path = f"/api/tables/{name.replace('/', '%2F')}/explain"
        found = await site.get(path)
        assert found["table"]["table"] == name
        [task] = found["tasks"]["open"]
        assert (task["table"], task["table_key"]) == (name, found["table"]["table_key"])
    answer = await site.client.get("/api/tables/shop.orders")
    assert answer.status == 409
    said = (await answer.json())["error"]
    assert all(name in said for name in full)
    assert len((await site.get("/api/tasks?table=shop.orders"))["tasks"]) == 3
    assert len((await site.get("/api/tasks?table=archive:shop.orders"))["tasks"]) == 1
    events = (await site.get("/api/events"))["events"]
    assert {one["table"] for one in events} == set(full)
    found = await site.get("/api/tables?q=archive:")
    assert [one["table"] for one in found["tables"]] == ["archive:shop.orders"]


async def test_whoever_shares_a_uuid_is_warned_until_all_but_one_keep_their_files(
    site: Site, make: Make
) -> None:
    async def warnings(table: TableName) -> list[str]:
        path = f"/api/tables/{table.full_name.replace('/', '%2F')}/explain"
        return list((await site.get(path))["warnings"])

    def told(table: TableName, expiry: str = "", at_ms: int = 2**42) -> None:
        more = {"expiry_reason": expiry, "updated_at_ms": at_ms, "expiry_plan": None}
        site.tell(make("table_state/in_flight", table=table, **more))

    told(ORDERS)
    told(replace(ORDERS, uuid="u2", catalog="archive", name="u"))
    assert await warnings(ORDERS) == []
    told(ARCHIVE)
    [said] = await warnings(ORDERS)
    assert "archive:shop.orders has the same uuid" in said
    assert "gc.enabled=false" in said
    told(ARCHIVE, "gc_disabled", 2**42 + 1)
    assert await warnings(ORDERS) == await warnings(ARCHIVE) == []
    told(DEV)
    [said] = await warnings(ORDERS)
    assert "lake/dev:shop.orders" in said
    assert "archive" not in said


async def test_a_table_that_was_dropped_elsewhere_makes_no_name_ambiguous(
    site: Site, make: Make
) -> None:
    site.tell(make("table_state/in_flight", table=ORDERS))
    site.tell(make("table_committed/dropped", table=ARCHIVE, committed_at_ms=2**42))
    assert (await site.get("/api/tables/shop.orders"))["table_key"] == ORDERS.key
    assert (await site.get("/api/fleet"))["catalogs"] == ["lake"]
