"""Leases over TLS, as a user who may little, and where sentinels say who the master is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
import trustme
from firnline_adapters.config.redaction import redact
from firnline_adapters.redis.client import redis_client
from firnline_adapters.redis.leases import PREFIX, RedisLeases
from firnline_domain.errors import Misconfigured
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import redis as server

from tests.kit.tls_terminator import tls_before

pytestmark = [pytest.mark.stack, pytest.mark.timeout(60)]
PASSWORD = "cAnAry/pass word"
SOON = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that lets nobody in but the user `worker`, to the keys of leases."""
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    with run_process(server.command(folder / "data", port), folder / "redis.log"):
        admin = redis.Redis(port=port)
        admin.acl_setuser(
            "worker",
            enabled=True,
            passwords=[f"+{PASSWORD}"],
            keys=[f"{PREFIX}*"],
            categories=["+@all", "-@dangerous"],
        )
        admin.acl_setuser("default", enabled=False, reset=True)
        yield port


def login(password: str = PASSWORD) -> str:
    return f"worker:{quote(password, safe='')}@"


def test_leases_over_tls_as_a_user(port: int, ca: trustme.CA, tmp_path: Path) -> None:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    with tls_before(ca, LOOPBACK, port, "redis") as secured:
        url = f"rediss://{login()}localhost:{secured}/0?ssl_ca_certs={tmp_path / 'ca.pem'}"
        client = redis_client(url, **SOON)
        leases = RedisLeases(client)
        assert leases.acquire("rewrite:u:p", "me#1/a", 5.0, "note")
        assert not leases.acquire("rewrite:u:p", "other#1/a", 5.0)
        assert leases.read_notes("rewrite:u:") == {"rewrite:u:p": "note"}
        leases.release("rewrite:u:p", "me#1/a")
        with pytest.raises(redis.ResponseError, match=r"NOPERM|No permissions"):
            client.set("other", "x")
        unknown = redis_client(f"rediss://{login()}localhost:{secured}/0", **SOON)
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            unknown.ping()


def test_a_wrong_password_is_an_error_that_does_not_have_it(port: int) -> None:
    client = redis_client(f"redis://{login('wrong-cAnAry')}localhost:{port}/0", **SOON)
    with pytest.raises(redis.AuthenticationError) as why:
        client.ping()
    assert "cAnAry" not in str(why.value)


@pytest.fixture
def sentinel(port: int, tmp_path: Path) -> Iterator[int]:
    own = free_port(frozenset({port}))
    command = server.command(tmp_path / "sentinel", own)
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {own}\nbind {LOOPBACK}\ndir {tmp_path}\n"
        f"sentinel monitor firnline {LOOPBACK} {port} 1\n"
        f'sentinel auth-user firnline worker\nsentinel auth-pass firnline "{PASSWORD}"\n'
    )
    argv = (command.argv[0], str(config), "--sentinel")
    with run_process(replace(command, argv=argv), tmp_path / "sentinel.log"):
        yield own


def test_sentinels_name_the_master(sentinel: int) -> None:
    away = free_port()
    url = f"redis+sentinel://{login()}localhost:{away},localhost:{sentinel}/firnline/0"
    leases = RedisLeases(redis_client(url, **SOON))
    deadline = time.monotonic() + 20
    while True:
        try:
            assert leases.acquire("rewrite:s:p", "me#1/a", 5.0)
            break
        except redis.ConnectionError:  # it has not looked yet
            assert time.monotonic() < deadline
            time.sleep(0.2)
    nobodys = redis_client(f"redis+sentinel://localhost:{sentinel}/nobody", **SOON)
    with pytest.raises(redis.ConnectionError, match="No master found for 'nobody'"):
        nobodys.ping()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://localhost:1", "the master's name"),
        ("redis+cluster://u:cAnAry-secret@h:1", "a cluster is not possible"),
        ("http://u:cAnAry-secret@h:1", "FIRNLINE_REDIS="),
        ("redis+sentinel://h:x/name", "invalid literal"),
    ],
)
def test_a_wrong_url_is_said(url: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as why:
        redis_client(url)
    assert "cAnAry" not in str(why.value)


def test_no_form_of_the_url_shows_its_password() -> None:
    for url in (
        "rediss://user:cAnAry-x@h:1/0?ssl_ca_certs=/ca",
        "redis+sentinel://user:cAnAry-x@h:1,h:2/name/0",
        "redis+sentinel://h:1/name?sentinel_password=cAnAry-x",
        "redis://h:1/0?password=cAnAry-x",
    ):
        assert "cAnAry" not in redact(url)
