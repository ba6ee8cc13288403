"""A gateway that signs what it passes on: whom it serves, and what the catalog gets to see."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from firnline_adapters.config.config_file import learn_properties
from firnline_adapters.config.redaction import redact
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_gateway import bootstrap
from firnline_gateway.middlewares.upstream_signer import Callers
from firnline_gateway.proxy.body_memory import MemoryBudget
from firnline_iceberg.connection.auth import SigV4

from services.gateway.tests.conftest import (
    LIMIT,
    TABLE,
    Bench,
    Client,
    append,
    head,
    in_time,
    not_found,
    post,
    said,
)

TOKEN = "0123456789abcdef0123456789abcdef"
FLINK = {"Authorization": f"Bearer {TOKEN}"}
OWN = f"""
firnline.upstream.rest.sigv4-enabled = "true"
firnline.upstream.rest.signing-name = "glue"
firnline.upstream.rest.signing-region = "eu-west-1"
firnline.upstream.rest.access-key-id = "AKIDGATEWAY"
firnline.upstream.rest.secret-access-key = "gateway-secret"
firnline.callers = '''
# who may call
flink {TOKEN}
spark another-{TOKEN}
'''
"""


@pytest.fixture
async def signing(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    """A gateway that keeps little, and signs."""
    made = make_bench(body_bytes=LIMIT, bodies_bytes=4 * LIMIT, own=OWN)
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")) as gateway:
        made.gateway = gateway.catalogs["lake"]
        await in_time(lambda: bool(made.catalog.seen))  # the gateway's own question for the config
        yield made


def headers_of(request: bytes) -> dict[str, str]:
    lines = request.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Authorization": "Bearer 0123456789abcdef0123456789abcdee"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261125/eu-west-1/glue/aws4_request"},
        {"Authorization": "Bearer flink"},
        {"Authorization": "Bearer "},
    ],
)
async def test_nobody_calls_in_the_name_of_the_gateway_without_a_token(
    sent: dict[str, str], signing: Bench, client: Client
) -> None:
    seen = len(signing.catalog.seen)
    for path in (TABLE, "/v1/config", "/lake/v1/config", "/nobody-knows"):
        async with client.get(signing.uri + path, headers=sent) as answer:
            assert answer.status == 401
            assert "firnline.callers" in await answer.text()
    assert (await post(client, signing, append(), **sent))[0] == 401
    assert len(signing.catalog.seen) == seen
    assert not signing.events()


async def test_a_commit_goes_out_as_the_gateways_own_and_its_event_names_the_caller(
    signing: Bench, client: Client
) -> None:
    signing.catalog.script[f"POST {TABLE}"] = said(b"{}")
    signing.catalog.script[f"GET {TABLE}"] = head()
    theirs = {"X-Amz-Date": "19990101T000000Z", "X-Amz-Security-Token": "theirs"}
    assert (await post(client, signing, append(), **FLINK, **theirs))[0] == 200
    commit = next(one for one in signing.catalog.seen if one.startswith(b"POST"))
    told = headers_of(commit)
    assert told["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDGATEWAY/")
    assert "/eu-west-1/glue/aws4_request" in told["authorization"]
    assert not told["x-amz-date"].startswith("1999")
    assert "x-amz-security-token" not in told
    assert TOKEN.encode() not in b"".join(signing.catalog.seen)
    [event] = await signing.until(1)
    assert event.principal == "flink"


async def test_a_body_in_pieces_is_signed_as_a_whole(signing: Bench, client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"namespace":'
        yield b'["n"]}'

    line = "POST /v1/namespaces"
    signing.catalog.script[line] = said(b"{}")
    async with client.post(f"{signing.uri}/v1/namespaces", data=pieces(), headers=FLINK) as answer:
        assert answer.status == 200
    made = next(one for one in signing.catalog.seen if one.startswith(line.encode()))
    assert made.endswith(b'\r\n\r\n{"namespace":["n"]}')
    assert headers_of(made)["authorization"].startswith("AWS4-HMAC-SHA256 ")


@pytest.mark.parametrize("path", [TABLE, "/v1/namespaces"])
async def test_a_body_that_cannot_be_signed_is_refused(
    path: str, signing: Bench, client: Client
) -> None:
    seen = len(signing.catalog.seen)
    status, text = await post(client, signing, b"x" * (LIMIT + 1), path, **FLINK)
    assert status == 413
    assert b"nothing was sent" in text
    assert f"{LIMIT:,} bytes".encode() in text
    assert len(signing.catalog.seen) == seen
    assert signing.budget.taken == 0


async def test_without_keys_a_call_may_be_sent_again(
    signing: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(signing.upstream.identity, SigV4)
    monkeypatch.setattr(signing.upstream.identity, "_credentials", None)
    status, text = await post(client, signing, append(), **FLINK)
    assert status == 503
    assert b"no AWS credentials" in text
    assert not any(one.startswith(b"POST") for one in signing.catalog.seen)


async def test_catalogs_that_judge_their_callers_themselves_are_passed_what_these_say(
    bench: Bench, client: Client
) -> None:
    bench.catalog.script[f"GET {TABLE}"] = not_found
    async with client.get(bench.uri + TABLE, headers=FLINK) as answer:
        assert answer.status == 404
    assert headers_of(bench.catalog.seen[-1])["authorization"] == FLINK["Authorization"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the list is empty"),
        ("# flink\n", "the list is empty"),
        ("flink", "line 1: write a name"),
        (f"flink {TOKEN} x", "line 1: write a name"),
        (f"\nflink {TOKEN}\nspark short", "line 3: the token of spark is too short"),
        (f"flink {TOKEN}\nspark {TOKEN}", "line 2: the token of spark is also that of flink"),
        (f"flink ä{TOKEN}", "not ASCII"),
        (f"{'f' * 300} {TOKEN}", "256 printable"),
    ],
)
def test_what_is_wrong_with_the_callers_is_said_without_a_token(text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why) as caught:
        Callers(text)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_tokens_are_masked_from_the_start(blank: str) -> None:
    token = f"{uuid.uuid4().hex}-masked"
    learn_properties({"firnline.callers": f"# a writer\n\nflink{blank}{token}  "})
    assert redact(f"a writer may got {token}") == "a writer may got ***"


def test_a_caller_may_have_two_tokens_while_one_is_replaced() -> None:
    callers = Callers(f"flink {TOKEN}\nflink new-{TOKEN}")
    assert callers.name_of(f"Bearer {TOKEN}") == "flink"
    assert callers.name_of(f"bearer new-{TOKEN}") == "flink"


SPARK = {"Authorization": f"Bearer another-{TOKEN}"}


async def uploads(made: Bench, count: int, size: int, headers: dict[str, str]) -> list[Any]:
    """Bodies of which all but the last byte has come."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection(*made.address)
        lines = [f"POST {TABLE} HTTP/1.1", "Host: x", f"Content-Length: {size}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + b" " * (size - 1))
        await writer.drain()
        writers.append(writer)
    return writers


async def test_slow_uploads_of_one_caller_leave_room_for_the_commits_of_the_others(
    signing: Bench, client: Client
) -> None:
    budget = signing.budget
    signing.catalog.script[f"POST {TABLE}"] = said(b"{}")
    signing.catalog.script[f"GET {TABLE}"] = head()
    writers = await uploads(signing, 8, LIMIT, FLINK)  # of a budget of 4
    await in_time(lambda: budget.taken >= LIMIT - 1)  # a second one finds no room
    status, text = await post(client, signing, b" " * LIMIT, **FLINK)
    assert status == 503  # it may come again
    assert b"send the call again; nothing was sent" in text
    async with client.post(signing.uri + TABLE, data=b" " * LIMIT, headers=FLINK) as answer:
        assert answer.headers["Retry-After"] == "1"
    assert (await post(client, signing, append(), **SPARK))[0] == 200
    assert (await post(client, signing, append() + b" " * (LIMIT // 2), **SPARK))[0] == 200
    assert (await post(client, signing, append(), **FLINK))[0] == 200  # small ones have their own
    for writer in writers:
        writer.transport.abort()
    await in_time(lambda: budget.taken == 0)


async def test_many_small_slow_uploads_take_no_more_than_a_large_one(
    signing: Bench, client: Client
) -> None:
    signing.catalog.script[f"POST {TABLE}"] = said(b"{}")
    size = 60 * 1024
    writers = await uploads(signing, 4 * LIMIT // size, size, FLINK)
    await in_time(lambda: signing.budget.taken > LIMIT)
    assert (await post(client, signing, append() + b" " * size, **SPARK))[0] == 200
    for writer in writers:
        writer.transport.abort()


def test_each_of_many_callers_finds_half_of_what_is_left() -> None:
    budget = MemoryBudget(1_000_000)
    sizes = []
    for number in range(50):
        held = budget.create_reservation(f"caller-{number}")
        while held.grow(1_000):
            pass
        sizes.append(held._size)
    assert sizes[0] == 375_000
    assert min(sizes[:5]) >= 1_000_000 // 64
    assert budget.taken < 1_000_000
