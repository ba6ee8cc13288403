"""The source on a real NATS server: events that a publisher sends without JetStream, as Lakekeeper
does, come from a stream that takes their subject up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_listener.port import Doorbell, DoorbellSource, Surroundings
from firnline_listener.sources.registry import open_source
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process

from tests.integration.listener.conftest import collect, names_of
from tests.kit.nats_server import nats_command, nats_uri
from tests.kit.recorded_events import RECORDED

pytestmark = pytest.mark.stack
SUBJECT = "lakekeeper"
OpenNats = Callable[..., DoorbellSource]


@pytest.fixture(scope="module")
def port(servers: Path) -> Iterator[int]:
    found = free_port()
    with run_process(nats_command(servers / "nats", found), servers / "nats.log"):
        yield found


@pytest.fixture
def subject(port: int, request: pytest.FixtureRequest) -> str:
    """A subject of this test alone, which a stream takes up."""
    name = f"{SUBJECT}-{request.node.name.replace('[', '-').replace(']', '')}"
    ask_server(port, lambda client: client.jetstream().add_stream(name=name, subjects=[name]))
    return name


@pytest.fixture
def open_nats(port: int, subject: str) -> Iterator[OpenNats]:
    opened = list[DoorbellSource]()

    def open_one(**given: str) -> DoorbellSource:
        properties = {"type": "nats", "url": nats_uri(port), "subject": subject}
        where = Surroundings("n", ["lake"], "nowhere:1", Log("test"), ListenAddress("127.0.0.1", 0))
        opened.append(open_source({**properties, "payload": "lakekeeper", **given}, where))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def ask_server(port: int, act: Callable[[Any], Any]) -> None:
    async def run() -> None:
        async with await nats.connect(nats_uri(port)) as client:
            await act(client)
            await client.flush()

    asyncio.run(run())


def event_about(name: str) -> bytes:
    """The recorded event in structured mode, as Lakekeeper sends it to NATS."""
    headers = json.loads((RECORDED / "lakekeeper_headers.json").read_text())
    attributes = {key[3:]: one for key, one in headers.items() if key.startswith("ce_")}
    data = json.loads((RECORDED / "lakekeeper.json").read_text())
    return json.dumps({**attributes, "name": name, "data": data}).encode()


def publish(port: int, subject: str, names: Sequence[str]) -> None:
    async def send(client: Any) -> None:
        for one in names:
            await client.publish(subject, event_about(one))

    ask_server(port, send)


def names(bells: Sequence[Doorbell]) -> list[str]:
    return [one.rpartition(".")[2] for one in names_of(bells)]


def test_each_event_rings_in_order(port: int, subject: str, open_nats: OpenNats) -> None:
    publish(port, subject, ["before"])
    source = open_nats()
    assert names(collect(source, 1)) == ["before"]
    publish(port, subject, ["a", "b", "a"])
    bells = collect(source, 3)
    assert names(bells) == ["a", "b", "a"]
    assert (bells[0].namespace, bells[0].snapshot_id) == (("db", "sub"), 2)


def test_only_what_is_not_settled_comes_again(port: int, subject: str, open_nats: OpenNats) -> None:
    source = open_nats()
    publish(port, subject, ["a", "b", "c"])
    first, *_ = collect(source, 3)
    source.settle(first.position)
    source.close()
    assert names(collect(open_nats(), 2)) == ["b", "c"]


def test_an_event_that_is_none_is_left_out(port: int, subject: str, open_nats: OpenNats) -> None:
    source = open_nats()
    ask_server(port, lambda client: client.publish(subject, b"{"))
    publish(port, subject, ["a"])
    [found] = collect(source, 1)
    source.settle(found.position)
    source.close()
    assert open_nats().poll(1.0) == []


def test_a_server_that_restarts_is_met_again(tmp_path: Path) -> None:
    port = free_port()
    where = Surroundings("n", ["lake"], "nowhere:1", Log("test"), ListenAddress("127.0.0.1", 0))
    given = {"type": "nats", "url": nats_uri(port), "subject": "s", "payload": "lakekeeper"}
    source = open_source(given, where)
    with pytest.raises(RetryLater):
        source.poll(0.1)
    with run_process(nats_command(tmp_path / "nats", port), tmp_path / "nats.log"):
        ask_server(port, lambda client: client.jetstream().add_stream(name="s", subjects=["s"]))
        publish(port, "s", ["a", "b"])
        [first, _] = collect(source, 2)
        source.settle(first.position)
    with pytest.raises(RetryLater):
        source.poll(0.1)
    command = nats_command(tmp_path / "nats", port)
    with run_process(replace(command, name="again"), tmp_path / "nats.log"):
        publish(port, "s", ["c"])
        assert names(collect(source, 1)) == ["c"]
    source.close()


def test_a_subject_without_a_stream_says_what_to_make(open_nats: OpenNats) -> None:
    with pytest.raises(RetryLater, match="nats stream add NAME --subjects elsewhere"):
        open_nats(subject="elsewhere").poll(0.1)


@pytest.mark.parametrize("given", [{"url": ""}, {"payload": "x"}, {"subject": ""}, {"topic": "t"}])
def test_a_section_that_is_wrong_is_refused(open_nats: OpenNats, given: Any) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources.n\]"):
        open_nats(**given)
