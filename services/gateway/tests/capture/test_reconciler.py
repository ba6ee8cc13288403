"""When the reconciler looks, and when it gives up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.errors import CatalogUnreachable, RetryLater
from firnline_domain.identity import CATALOG
from firnline_gateway.capture.reconciler import GIVE_UP_MS, Reconciler
from firnline_gateway.capture.recorder import EventRecorder
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.rest.call import Call

from tests.kit.counted import counted

TABLE = "/v1/namespaces/n/tables/t"
APPEND = {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "timestamp-ms": 1}}
MOVE = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
PROPERTIES = {"action": "set-properties", "updates": {}}


class Tables:
    """Twin of the catalog's read side: metadata per path; an exception is raised."""

    name = CATALOG

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.asked = 0
        self.hung = ""

    async def read_metadata(self, path: str, refs_only: bool = False) -> dict[str, Any] | None:
        self.asked += 1
        if path == self.hung:
            await asyncio.Event().wait()
        found = self.found.get(path)
        if isinstance(found, Exception):
            raise found
        return found


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Scene:
    """A reconciler over its twin of a catalog."""

    def __init__(self, journal: OutboxJournal, clock: Clock) -> None:
        self.tables = Tables()
        self.clock = clock
        self.journal = journal
        log = Log("gateway")
        upstream: Any = self.tables
        recorder = EventRecorder(journal, log, clock)
        self.reconciler = Reconciler(journal, upstream, recorder, log, clock)

    def doubt(self, *updates: dict[str, Any], call_id: str = "c") -> None:
        body = json.dumps({"updates": updates}).encode()
        self.journal.doubt_call(Call(call_id, "POST", TABLE, body, self.clock.now)).result(20)

    def doubt_unread(self, accepted: bool) -> None:
        call = Call("c", "POST", TABLE, None, self.clock.now, accepted=accepted)
        self.journal.doubt_call(call).result(20)

    async def look_after(self, ms: int) -> list[Any]:
        """Let time pass, look, and say all events so far."""
        self.clock.now += ms
        await asyncio.gather(*await self.reconciler._start_examinations())
        codec = RecordCodec()
        return [codec.decode(r.payload) for r in self.journal.read_waiting(100).result(20).records]

    def in_doubt(self) -> int:
        return len(self.journal.doubtful_calls().result(20))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[OutboxJournal]:
    journal = OutboxJournal(SqliteOutbox(tmp_path / "outbox.db"), Log("gateway"), lambda: 1)
    yield journal
    journal.stop(20)


@pytest.fixture
async def scene(journal: OutboxJournal) -> Scene:
    return Scene(journal, Clock())


def metadata(*snapshots: int, main: int | None = None) -> dict[str, Any]:
    return {
        "table-uuid": "u",
        "snapshots": [{"snapshot-id": snapshot} for snapshot in snapshots],
        "refs": {"main": {"snapshot-id": main}} if main else {},
    }


async def test_what_happened_is_an_event_at_once(scene: Scene) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata(7)
    [event] = await scene.look_after(0)
    assert (event.source, event.snapshots[0].snapshot_id) == ("reconciled", 7)
    assert scene.in_doubt() == 0


async def test_what_has_not_happened_may_still_happen(scene: Scene) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata()
    assert await scene.look_after(0) == []
    scene.tables.found[TABLE] = metadata(7)
    assert len(await scene.look_after(GIVE_UP_MS // 2)) == 1


async def test_what_left_no_trace_for_long_did_not_happen(scene: Scene) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata()
    assert await scene.look_after(0) == []
    assert await scene.look_after(GIVE_UP_MS + 1) == []
    assert scene.in_doubt() == 0


async def test_a_catalog_that_is_away_is_asked_for_ever(scene: Scene) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = CatalogUnreachable("away")
    before = counted("dependency_errors", dependency="catalog")
    for _ in range(3):
        assert await scene.look_after(GIVE_UP_MS) == []
    assert counted("dependency_errors", dependency="catalog") == before + 3
    assert scene.in_doubt() == 1
    scene.tables.found[TABLE] = metadata(7)
    assert len(await scene.look_after(GIVE_UP_MS)) == 1


async def test_one_doubt_does_not_hold_up_another(scene: Scene) -> None:
    scene.doubt(PROPERTIES, call_id="first")
    scene.clock.now += 1
    scene.doubt(APPEND, call_id="second")
    scene.tables.found[TABLE] = metadata(7)
    assert [event.snapshots[0].snapshot_id for event in await scene.look_after(0)] == [7]


async def test_a_ref_that_moved_on_is_told_as_it_stands(scene: Scene) -> None:
    scene.doubt(MOVE)
    scene.tables.found[TABLE] = metadata(7, 8, main=8)
    assert await scene.look_after(0) == []
    [event] = await scene.look_after(GIVE_UP_MS + 1)
    assert [(ref.ref, ref.snapshot_id) for ref in event.refs] == [("main", 8)]


async def test_looks_become_rarer(scene: Scene) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata()
    for _ in range(60):
        await scene.look_after(1000)
    assert 5 <= scene.tables.asked <= 8  # after 1, 2, 4, 8, 16, 32 s


def at(head: int, moment_ms: int) -> dict[str, Any]:
    """A table whose head was committed at that moment."""
    return {
        "table-uuid": "u",
        "last-updated-ms": moment_ms,
        "snapshots": [{"snapshot-id": head, "timestamp-ms": moment_ms, "manifest-list": "m"}],
        "refs": {"main": {"snapshot-id": head, "type": "branch"}},
    }


async def test_an_accepted_call_that_cannot_be_read_is_told_by_its_table(scene: Scene) -> None:
    scene.doubt_unread(accepted=True)
    scene.tables.found[TABLE] = at(7, scene.clock.now)
    [event] = await scene.look_after(0)
    assert [(ref.ref, ref.snapshot_id) for ref in event.refs] == [("main", 7)]
    assert [(new.snapshot_id, new.manifest_list) for new in event.snapshots] == [(7, "m")]
    assert (event.table.uuid, event.metadata_changed, event.source) == ("u", True, "reconciled")
    assert scene.in_doubt() == 0


async def test_an_accepted_call_waits_until_its_table_can_be_read(scene: Scene) -> None:
    scene.doubt_unread(accepted=True)
    scene.tables.found[TABLE] = RetryLater("away")
    assert await scene.look_after(0) == []
    scene.tables.found[TABLE] = at(7, scene.clock.now)
    assert len(await scene.look_after(2 * GIVE_UP_MS)) == 1


async def test_a_call_that_cannot_be_read_and_of_which_nobody_knows_is_told_when_seen(
    scene: Scene,
) -> None:
    scene.doubt_unread(accepted=False)
    scene.tables.found[TABLE] = at(6, scene.clock.now - 3_600_000)
    assert await scene.look_after(0) == []  # nothing has happened to the table lately
    scene.tables.found[TABLE] = at(7, scene.clock.now)
    assert [event.refs[0].snapshot_id for event in await scene.look_after(5_000)] == [7]
    assert len(await scene.look_after(60_000)) == 1  # the same state is told once
    scene.tables.found[TABLE] = at(8, scene.clock.now)
    found = await scene.look_after(60_000)
    assert sorted(event.refs[0].snapshot_id for event in found) == [7, 8]
    assert scene.in_doubt() == 1  # the catalog may still be at work on it
    await scene.look_after(GIVE_UP_MS)
    assert scene.in_doubt() == 0


async def test_a_strange_answer_ends_nobody_elses_doubt(
    scene: Scene, journal: OutboxJournal
) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata(7)
    strange = "/v1/namespaces/n/tables/strange"
    body = json.dumps({"updates": [APPEND]}).encode()
    journal.doubt_call(Call("s", "POST", strange, body, scene.clock.now)).result(20)
    scene.tables.found[strange] = {"table-uuid": "u2", "snapshots": [{"no": "id"}]}
    assert [event.table.uuid for event in await scene.look_after(0)] == ["u"]
    await scene.look_after(2 * GIVE_UP_MS)
    assert scene.in_doubt() == 0


async def test_a_table_that_hangs_holds_up_no_other(scene: Scene, journal: OutboxJournal) -> None:
    scene.doubt(APPEND)
    scene.tables.found[TABLE] = metadata(7)
    body = json.dumps({"updates": [APPEND]}).encode()
    hung = "/v1/namespaces/n/tables/hung"
    journal.doubt_call(Call("h", "POST", hung, body, 0)).result(20)  # the oldest: its turn is first
    scene.tables.hung = hung
    running = asyncio.create_task(scene.reconciler.run())
    async with asyncio.timeout(20):
        while scene.in_doubt() > 1:
            await asyncio.sleep(0.01)
        scene.doubt(APPEND, call_id="next")  # nor one that comes meanwhile
        while scene.in_doubt() > 1:
            await asyncio.sleep(0.01)
    running.cancel()
