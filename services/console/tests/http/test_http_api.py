"""The API over a read model in Redis."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import ClientResponse
from firnline_console.http.api import Api
from firnline_console.read_model.fold import OfGroup
from firnline_console.read_model.redis import RedisReadModel
from firnline_console.views.capacity import WorkerCapacity
from firnline_console.views.workers import workers_json
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from redis import Redis

from tests.kit.console_api import NOW, Site

Make = Callable[..., Any]
UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"


@pytest.fixture
async def site(console_redis: str) -> AsyncIterator[Site]:
    site = Site(console_redis)
    async with site.client:
        yield site


async def test_the_page_is_one_file_that_loads_nothing_else(site: Site) -> None:
    answer = await site.client.get("/")
    text = await answer.text()
    assert answer.content_type == "text/html"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")


async def test_fleet_sums_up(site: Site, make: Make) -> None:
    site.tell(make("table_state/in_flight"), make("rewrite_files/compact"))
    fleet = await site.get("/api/fleet")
    assert fleet["totals"]["tables"] == fleet["totals"]["tasks_running"] == 1
    assert (fleet["built_at_ms"], fleet["now_ms"]) == (1, NOW)


async def test_what_is_paused_is_with_the_fleet(site: Site, make: Make) -> None:
    site.tell(make("pause_maintenance/fleet"), make("pause_maintenance/table"))
    assert (await site.get("/api/fleet"))["pauses"] == [
        {
            "table": "",
            "catalog": "",
            "since_ms": 1790000000000,
            "by": "ops",
            "reason": "storage migration",
        },
        {
            "table": "shop.orders",
            "catalog": "lake",
            "since_ms": 1790000000000,
            "by": "ops",
            "reason": "",
        },
    ]
    site.tell(make("resume_maintenance/fleet"))
    assert [one["table"] for one in (await site.get("/api/fleet"))["pauses"]] == ["shop.orders"]


async def test_a_table_is_found_by_name_and_by_uuid(site: Site, make: Make) -> None:
    site.tell(make("table_state/in_flight"))
    by_name = await site.get("/api/tables/shop.orders")
    assert by_name == await site.get(f"/api/tables/{UUID}")
    assert by_name["head_snapshot_id"] == "7402233445566778899"  # beyond 2^53
    assert [part["label"] for part in by_name["refs"]["main"]] == ["2026-11-21"]


async def test_a_table_that_nobody_has_seen_is_404(site: Site) -> None:
    for path in ("/api/tables/no.such", "/api/tables/no.such/explain"):
        answer = await site.client.get(path)
        assert answer.status == 404
        assert "no.such" in (await answer.json())["error"]


async def test_a_table_not_counted_yet_is_listed(site: Site, make: Make) -> None:
    site.tell(make("table_committed/upsert"))
    [row] = (await site.get("/api/tables"))["tables"]
    assert (row["table"], row["counted"]) == ("shop.orders", False)
    explained = await site.get("/api/tables/shop.orders/explain")
    assert explained["verdict"] == "The planner has not counted this table yet."


async def test_explain_holds_the_tables_own_tasks(site: Site, make: Make) -> None:
    site.tell(make("table_state/in_flight"), make("rewrite_files/compact"))
    site.tell(make("snapshots_expired/expired"))
    tasks = (await site.get("/api/tables/shop.orders/explain"))["tasks"]
    assert [one["kind"] for one in tasks["open"]] == ["rewrite"]
    assert [one["kind"] for one in tasks["ended"]] == ["expire"]


async def test_tasks_say_when_they_are_overdue(site: Site, make: Make) -> None:
    site.tell(make("rewrite_files/compact", deadline_ms=NOW + 1))
    assert (await site.get("/api/tasks"))["tasks"][0]["status"] == "running"
    site.tell(make("rewrite_files/compact", attempt=2, deadline_ms=NOW - 1))
    assert (await site.get("/api/tasks"))["tasks"][0]["status"] == "overdue"


async def test_an_old_open_task_is_not_pushed_out_by_new_ones(site: Site, make: Make) -> None:
    old = make("rewrite_files/compact", task_id="old", ordered_at_ms=1)
    commit = "rewrite_committed/native"
    site.tell(old, *(make(commit, task_id=str(n), committed_at_ms=n + 10) for n in range(5)))
    found = (await site.get("/api/tasks?limit=3"))["tasks"]
    assert [one["task_id"] for one in found] == ["old", "4", "3"]


async def test_tables_are_searched_by_the_server(site: Site, make: Make) -> None:
    """A page has 50; what is not on it is found all the same."""
    state = make("table_state/in_flight")
    for number in range(120):
        name = TableName(f"uuid-{number:03}", ("shop",), f"dataset_{number:05}")
        site.tell(replace(state, table=name, debt_files=number))
    first = await site.get("/api/tables")
    assert [len(first["tables"]), first["matched"], first["total"]] == [50, 120, 120]
    assert first["statuses"] == {"working": 120}
    assert first["tables"][0]["table"] == "shop.dataset_00119"
    second = await site.get(f"/api/tables?cursor={first['cursor']}")
    assert second["tables"][0]["table"] == "shop.dataset_00069"
    found = await site.get("/api/tables?q=SET_00007&namespace=shop&sort=table&limit=1")
    assert [one["table"] for one in found["tables"]] == ["shop.dataset_00007"]
    assert (found["matched"], found["cursor"]) == (1, None)
    assert (await site.get("/api/tables?status=stuck"))["tables"] == []
    nested = base64.urlsafe_b64encode(b"[" * 5_000).decode()
    for wrong in ("sort=colour", "cursor=x", f"cursor={nested}", "limit=many"):
        assert (await site.client.get(f"/api/tables?{wrong}")).status == 400


async def test_tasks_are_found_by_the_beginning_of_their_id(site: Site, make: Make) -> None:
    site.tell(*(make("rewrite_files/compact", task_id=f"abc{n}") for n in range(3)))
    site.tell(make("rewrite_committed/native", task_id="abc1"))

    async def ids(query: str) -> list[str]:
        return [one["task_id"] for one in (await site.get(f"/api/tasks?{query}"))["tasks"]]

    assert await ids("task=abc1") == ["abc1"]
    assert await ids("task=abc&limit=2") == ["abc0", "abc2"]
    assert await ids("status=committed") == ["abc1"]
    assert len(await ids("table=shop.orders")) == 3
    assert await ids("table=shop.order") == []
    [done] = (await site.get("/api/tasks?task=abc1"))["tasks"]
    made = make("rewrite_committed/native").snapshot_ids
    assert done["outcome"]["snapshot_ids"] == [str(one) for one in made]  # beyond 2^53


async def test_events_after_a_number(site: Site, make: Make) -> None:
    site.tell(make("rewrite_files/compact"))
    cursor = (await site.get("/api/events"))["cursor"]
    site.tell(make("rewrite_committed/native"))
    found = await site.get(f"/api/events?after={cursor}")
    [second] = found["events"]
    assert (await site.get(f"/api/events?after={found['cursor']}"))["events"] == []
    assert (second["kind"], second["table"]) == ("committed", "shop.orders")


async def test_dead_letters(site: Site, make: Make) -> None:
    site.tell(make("dead_lettered/unknown_schema"))
    [letter] = (await site.get("/api/dead-letters"))["dead_letters"]
    assert (letter["topic"], letter["offset"], letter["value_start"]) == (
        "table-commits",
        17,
        "c301ff",
    )


@pytest.mark.parametrize("query", ["limit=many", "limit=-1", "after=x"])
async def test_a_wrong_number_is_400(site: Site, query: str) -> None:
    answer = await site.client.get(f"/api/events?{query}")
    assert answer.status == 400
    assert query.partition("=")[0] in (await answer.json())["error"]


APPLICATION = Api(RedisReadModel(Redis()), int, bool).create_application()
ROUTES = [one.resource.canonical for one in APPLICATION.router.routes()
          if one.method == "GET" and one.resource]  # fmt: skip
HOSTILE = (
    *("table=shop.orders", "page=2", "Limit=3", "limit%20=3", "%00=1", "=", "utm_source=mail"),
    *("since=1", "ｌimit=3", "x" * 3_000 + "=1", "limit[]=3", "__proto__=1"),
)


@pytest.mark.parametrize("path", ROUTES)
async def test_a_parameter_that_is_not_known_is_400_at_each_address(
    site: Site, make: Make, path: str
) -> None:
    """A misspelt filter that is passed over gives all tables' rows."""
    site.tell(make("table_state/in_flight"))
    there = path.replace("{table}", "shop.orders")
    refused = {}
    for query in HOSTILE:
        if there == "/api/tasks" and query.startswith("table="):
            continue
        answer = await site.client.get(f"{there}?{query}")
        refused[query] = answer.status, (await answer.json())["error"][:10]
        assert len(await answer.text()) < 1_000
    assert set(refused.values()) == {(400, "parameter ")}


@pytest.mark.parametrize(
    "asked",
    [
        *("tables?status=nope", "tables?status=", "tables?sort=colour", "tables?sort=--debt"),
        *("tasks?status=nope", "tasks?status=ordered", "tasks?status=Failed", "tasks?table="),
        *("tasks?task=", "tables?q=", "tables?namespace=", "advice?limit=0", "events?limit=5001"),
        *("events?after=-1", "events?after=1e3", "events?after=" + "9" * 5_000),
        *("events?after=9007199254740992", "dead-letters?limit=٣", "dead-letters?limit=3&limit=4"),
        *("workers?cores=0", "workers?max=100001", "workers?drain_seconds=0.5"),
        *("events/stream?after=x", "tables?limit=+3", "tables?limit= 3"),
    ],
)
async def test_a_value_that_is_not_known_is_400_and_says_which_are(site: Site, asked: str) -> None:
    answer = await site.client.get(f"/api/{asked}")
    error = (await answer.json())["error"]
    assert answer.status == 400, error
    name = asked.partition("?")[2].partition("=")[0]
    assert (
        error.startswith(f"{name} is ") or error == f"parameter {name} is given twice: give it once"
    )
    assert len(error) < 400


async def test_every_value_that_is_named_is_taken(site: Site) -> None:
    for path in ("tables", "tasks"):
        answer = await site.client.get(f"/api/{path}?status=nope")
        text = (await answer.json())["error"]
        known = text.removeprefix("status is one of ").rpartition(", not ")[0].split(", ")
        assert len(known) >= 6
        for status in known:
            assert (await site.client.get(f"/api/{path}?status={status}")).status == 200


async def test_a_stream_that_comes_back_with_no_number_begins_anew(site: Site, make: Make) -> None:
    site.tell(make("rewrite_files/compact"))
    for wrong in ("x", "9" * 5_000, "-1", "٣"):
        headers = {"Last-Event-ID": wrong}
        async with site.client.get("/api/events/stream", headers=headers) as answer:
            assert (await frame(answer))[1]["kind"] == "order"


async def frame(answer: ClientResponse) -> tuple[str, Any]:
    """The next event of a stream; the hint about coming back, and comments, are passed over."""
    number = ""
    async for line in answer.content:
        text = line.decode().strip()
        if text.startswith("id: "):
            number = text.removeprefix("id: ")
        elif text.startswith("data: "):
            return number, json.loads(text.removeprefix("data: "))
    raise AssertionError("the stream has ended")


async def test_the_stream_begins_with_the_newest_and_goes_on(site: Site, make: Make) -> None:
    site.tell(make("rewrite_files/compact"))
    async with site.client.get("/api/events/stream") as answer:
        assert answer.content_type == "text/event-stream"
        number, event = await frame(answer)
        assert (event["kind"], number) == ("order", str(event["number"]))
        site.tell(make("rewrite_committed/native"))
        _, later = await frame(answer)
        assert later["kind"] == "committed"


async def test_a_stream_does_not_begin_with_what_is_old(site: Site, make: Make) -> None:
    """After a rebuild the newest events by time are not the last that arrived."""
    site.tell(*(make("rewrite_files/compact", task_id=str(n), ordered_at_ms=n) for n in range(150)))
    site.tell(make("rewrite_files/compact", task_id="old", ordered_at_ms=0))
    async with site.client.get("/api/events/stream") as answer:
        first = [(await frame(answer))[1] for _ in range(100)]
        assert [event["at_ms"] for event in first] == list(range(50, 150))
        site.tell(make("rewrite_committed/native"))
        assert (await frame(answer))[1]["kind"] == "committed"


async def test_a_broken_stream_goes_on_where_it_was(site: Site, make: Make) -> None:
    site.tell(make("rewrite_files/compact"))
    async with site.client.get("/api/events/stream") as answer:
        number, _ = await frame(answer)
    site.tell(make("rewrite_committed/native"))
    headers = {"Last-Event-ID": number}
    async with site.client.get("/api/events/stream", headers=headers) as answer:
        _, event = await frame(answer)
        assert event["kind"] == "committed"


async def test_redis_away_is_503(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise RetryLater("Redis: connection refused")

    for name in ("current_generation", "read_totals", "list_tables", "list_events"):
        monkeypatch.setattr(site.model, name, away)
    for path in ("/healthz", "/api/fleet", "/api/tables", "/api/events/stream"):
        answer = await site.client.get(path)
        assert answer.status == 503
        assert "connection refused" in (await answer.json())["error"]


async def test_health_is_lost_with_the_loop_or_the_view(site: Site) -> None:
    assert (await site.get("/healthz"))["healthy"]
    site.following = False
    assert (await site.client.get("/healthz")).status == 503
    site.following = True
    site.model.lose()
    assert (await site.client.get("/healthz")).status == 503


async def test_advice_is_told_by_table_and_for_the_fleet(site: Site, make: Make) -> None:
    site.tell(
        make("table_advice/tiny_partitions"),
        make("table_state/in_flight", advised=("tiny_partitions",)),
    )
    for path in ("/api/advice", "/api/tables/shop.orders/advice"):
        [word] = (await site.get(path))["advice"]
        assert (word["table"], word["rule"]) == ("shop.orders", "tiny_partitions")
        assert word["numbers"]["partitions"] == 8412
        assert word["limits"]["partitions"] == 100
    explained = await site.get("/api/tables/shop.orders/explain")
    assert [word["rule"] for word in explained["advice"]] == ["tiny_partitions"]
    assert (await site.get("/api/fleet"))["totals"]["advice"] == 1


async def test_a_table_without_advice_says_so(site: Site, make: Make) -> None:
    site.tell(make("table_state/in_flight"))
    assert (await site.get("/api/tables/shop.orders/advice"))["advice"] == []
    assert (await site.client.get("/api/tables/shop.nothing/advice")).status == 404


async def test_workers_are_wanted_by_group_also_of_one_that_is_gone(site: Site, make: Make) -> None:
    open_until = {"ordered_at_ms": NOW - 5_000, "deadline_ms": NOW + 1}
    light = {"numbers": {"rewrite_cpu_s": 100.0}, **open_until}
    heavy = {"numbers": {"delete_set_bytes": 2.0, "heavy_bytes": 1.0}, **open_until}
    site.tell(make("rewrite_files/compact", task_id="own", **light))
    for number in range(3):
        site.tell(OfGroup(make("rewrite_files/compact", task_id=f"e{number}", **light), "etl"))
    site.tell(OfGroup(make("rewrite_files/compact", task_id="h", **heavy), "etl"))
    site.tell(OfGroup(make("rewrite_files/compact", task_id="g", **light), "gone"))
    answer = await site.get("/api/workers")
    assert (answer["ordinary"]["orders"], answer["heavy"]["orders"]) == (1, 0)
    waiting = {
        group: {lane: (crew["wanted"], crew["orders"]) for lane, crew in lanes.items()}
        for group, lanes in answer["groups"].items()
    }
    assert waiting == {
        "etl": {"ordinary": (3, 3), "heavy": (1, 1), "both": (3, 4)},
        "gone": {"ordinary": (1, 1), "heavy": (0, 0), "both": (1, 1)},
    }


async def test_a_group_without_orders_wants_none(make: Make) -> None:
    """An autoscaler finds its number there, whether or not orders wait."""
    assert (
        workers_json([], WorkerCapacity(), ["adhoc"], NOW)["groups"]["adhoc"]["heavy"]["wanted"]
        == 0
    )


async def test_workers_are_wanted_where_orders_wait_and_by_lane(site: Site, make: Make) -> None:
    none = {"wanted": 0, "orders": 0, "cpu_s": 0.0, "oldest_s": 0.0}
    assert await site.get("/api/workers") == {"ordinary": none, "heavy": none, "both": none}
    open_until = {"ordered_at_ms": NOW - 5_000, "deadline_ms": NOW + 1}
    for number in range(3):
        work = {"numbers": {"rewrite_cpu_s": 100.0}, "task_id": f"t{number}", **open_until}
        site.tell(make("rewrite_files/compact", **work))
    big = {"rewrite_cpu_s": 900.0, "delete_set_bytes": 2.0, "heavy_bytes": 1.0}
    site.tell(make("rewrite_files/compact", numbers=big, task_id="big", **open_until))
    late = {"task_id": "late", "ordered_at_ms": NOW - 900_000, "deadline_ms": NOW - 1}
    site.tell(make("rewrite_files/compact", **late))
    assert await site.get("/api/workers") == {
        "ordinary": {"wanted": 3, "orders": 3, "cpu_s": 300.0, "oldest_s": 5.0},
        "heavy": {"wanted": 1, "orders": 1, "cpu_s": 900.0, "oldest_s": 5.0},
        "both": {"wanted": 4, "orders": 4, "cpu_s": 1200.0, "oldest_s": 5.0},
    }


async def test_an_autoscaler_says_how_large_its_workers_are(site: Site, make: Make) -> None:
    for number in range(9):
        work = {"numbers": {"rewrite_cpu_s": 100.0}, "task_id": f"t{number}"}
        site.tell(make("rewrite_files/compact", **work, ordered_at_ms=NOW - 1, deadline_ms=NOW + 1))
    for asked, wanted in (
        ("", 8),
        ("?cores=4", 4),
        ("?cores=4&drain_seconds=120", 2),
        ("?max=3", 3),
    ):
        assert (await site.get(f"/api/workers{asked}"))["ordinary"]["wanted"] == wanted
    assert (await site.client.get("/api/workers?cores=many")).status == 400
