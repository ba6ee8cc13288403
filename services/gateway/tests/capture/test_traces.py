"""The trace id of a request, from its header to its event."""

from __future__ import annotations

import logging

import aiohttp
import pytest
from firnline_adapters.observability import traces

from services.gateway.tests.conftest import TABLE, Bench, append, loaded, post, said

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("given", [TRACE, "", "forged"])
async def test_an_event_has_the_trace_id_of_its_request(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    sent = {traces.HEADER: f"00-{given}-00f067aa0ba902b7-01"} if given else {}
    with caplog.at_level(logging.INFO, "firnline.gateway"):
        await post(client, bench, append(), **sent)
        await bench.until(1)
    [headers] = bench.broker.headers.values()
    trace = traces.trace_in(headers)
    assert trace == given if given == TRACE else len(trace) == 32
    [line] = [line for line in caplog.messages if "action=committed" in line]
    assert f"trace={trace}" in line.split()
    if given:  # passed on as it came
        assert sent[traces.HEADER].encode() in bench.catalog.seen[-1]


async def test_a_doubtful_call_keeps_its_trace_id(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"why", "503 X")
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    with caplog.at_level(logging.INFO, "firnline.gateway"):
        await post(client, bench, append(), **{traces.HEADER: f"00-{TRACE}-00f067aa0ba902b7-01"})
        await bench.until(1)
    [headers] = bench.broker.headers.values()
    assert traces.trace_in(headers) == TRACE
    ours = [line.split()[0] for line in caplog.messages if f"trace={TRACE}" in line]
    assert ours == [f"action={one}" for one in ("outcome_unknown", "reconciled", "committed")]
