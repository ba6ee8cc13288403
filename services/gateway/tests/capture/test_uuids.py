"""Which table an event is of, where the call itself does not name its uuid."""

from __future__ import annotations

import asyncio
import gzip
import json
from concurrent.futures import Future
from typing import Any

import aiohttp
import pytest
from firnline_domain.records.events import TableChange
from firnline_gateway.middlewares import commit_capture as capture

from services.gateway.tests.conftest import TABLE, UUID, Bench, append, loaded, post, said

CREATED = json.dumps({"metadata": {"table-uuid": UUID}}).encode()
CREATE = json.dumps({"name": "t", "schema": {}}).encode()


@pytest.mark.parametrize(
    "answer", [said(CREATED), said(gzip.compress(CREATED), "200 OK", "Content-Encoding: gzip")]
)
async def test_a_created_table_is_named_by_its_answer(
    bench: Bench, client: aiohttp.ClientSession, answer: bytes
) -> None:
    bench.catalog.script["POST /v1/namespaces/n/tables"] = answer
    await post(client, bench, CREATE, "/v1/namespaces/n/tables")
    [event] = await bench.until(1)
    assert (event.table.uuid, event.change) == (UUID, TableChange.CREATED)


async def test_no_thread_is_waited_for_where_call_and_answer_are_short(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the client's next commit overtakes the event of the table's creation."""

    async def busy(*_: Any) -> Any:
        await asyncio.Event().wait()

    bench.catalog.script["POST /v1/namespaces/n/tables"] = said(CREATED)
    monkeypatch.setattr(capture.asyncio, "to_thread", busy)
    await post(client, bench, CREATE, "/v1/namespaces/n/tables")
    [event] = await bench.until(1)
    assert event.change is TableChange.CREATED


async def test_a_commit_that_asserts_nothing_is_named_by_the_catalog(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"?", "200 OK", "Content-Encoding: zstd")
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    await post(client, bench, append(uuid=None))
    [event] = await bench.until(1)
    assert (event.table.uuid, event.source) == (UUID, "gateway")


async def test_a_table_that_nobody_can_name_yet_is_asked_for_again(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    answers = iter([said(b"", "503 Busy"), loaded()])
    bench.catalog.script[f"POST {TABLE}"] = said(b"?", "200 OK", "Content-Encoding: zstd")
    bench.catalog.script[f"GET {TABLE}"] = lambda _: next(answers)
    await post(client, bench, append(uuid=None))
    [event] = await bench.until(1)
    assert (event.table.uuid, event.source) == (UUID, "reconciled")


async def test_a_renamed_table_is_asked_for_its_uuid(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script["POST /v1/tables/rename"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    await post(client, bench, rename("s", "t"), "/v1/tables/rename")
    [event] = await bench.until(1)
    assert (event.table.uuid, event.change) == (UUID, TableChange.RENAMED)


async def test_a_table_renamed_and_gone_again_is_known_by_its_last_commit(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    bench.catalog.script["POST /v1/tables/rename"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    await post(client, bench, append())
    await post(client, bench, rename("t", "gone"), "/v1/tables/rename")  # its GET answers 404
    _, event = await bench.until(2)
    assert (event.table.uuid, event.table.name) == (UUID, "gone")


def rename(old: str, new: str) -> bytes:
    ends = {"source": old, "destination": new}
    named = {end: {"namespace": ["n"], "name": name} for end, name in ends.items()}
    return json.dumps(named).encode()


async def test_a_table_is_asked_for_its_uuid_before_it_is_dropped(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    bench.catalog.script[f"DELETE {TABLE}?purgeRequested=true"] = said(b"", "204 No Content")
    async with client.delete(f"{bench.uri}{TABLE}?purgeRequested=true") as answer:
        assert answer.status == 204
    [event] = await bench.until(1)
    assert (event.table.uuid, event.change) == (UUID, TableChange.DROPPED)


async def test_a_drop_of_a_table_that_committed_before_needs_no_question(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    bench.catalog.script[f"DELETE {TABLE}"] = said(b"", "204 No Content")
    await post(client, bench, append())
    async with client.delete(bench.uri + TABLE):  # GET answers 404
        pass
    _, event = await bench.until(2)
    assert (event.table.uuid, event.change) == (UUID, TableChange.DROPPED)


async def test_a_drop_whose_answer_was_lost_is_known_by_the_tables_absence(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    answers = iter([loaded(), said(b"", "404 Gone")])
    bench.catalog.script[f"GET {TABLE}"] = lambda _: next(answers)
    bench.catalog.script[f"DELETE {TABLE}"] = None
    async with client.delete(bench.uri + TABLE) as answer:
        assert answer.status == 502
    [event] = await bench.until(1)
    assert (event.table.uuid, event.change) == (UUID, TableChange.DROPPED)


async def test_the_intent_of_a_drop_already_names_its_table(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash in the middle of the drop nobody could ask for the uuid any more."""
    journal = bench.journal
    opened: list[capture.Call] = []
    original = journal.open_call

    def recording(call: capture.Call) -> Future[None]:
        opened.append(call)
        return original(call)

    monkeypatch.setattr(journal, "open_call", recording)
    monkeypatch.setattr(capture, "PATIENCE_S", 20.0)
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    bench.catalog.script[f"DELETE {TABLE}"] = said(b"", "204 No Content")
    async with client.delete(bench.uri + TABLE):
        pass
    assert [call.known_uuid for call in opened] == [UUID]


async def test_a_uuid_that_came_late_is_still_kept_for_a_drop_in_doubt(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "PATIENCE_S", 0.0)
    await test_a_drop_whose_answer_was_lost_is_known_by_the_tables_absence(bench, client)


async def test_a_drop_is_sent_once(bench: Bench, client: aiohttp.ClientSession) -> None:
    """aiohttp would send it again on a new connection; the second answer would be 404."""
    bench.catalog.script[f"DELETE {TABLE}"] = None
    async with client.delete(bench.uri + TABLE) as answer:
        assert answer.status == 502
    assert bench.catalog.lines().count(f"DELETE {TABLE}") == 1
