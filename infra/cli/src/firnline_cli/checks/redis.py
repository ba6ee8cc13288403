"""Checks Redis or Valkey: reach it, take and give back a lease, write what the console writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from firnline_cli.checks.findings import Check, Failed
from firnline_cli.checks.settings import OF_REDIS, Given

T = TypeVar("T")
TRY_S = 5.0
ACL = (
    "give its user the rights ~firnline:* +@all -@dangerous -@admin "
    "(docs/deploy/secure-kafka-and-redis.md)"
)
VIEW = "firnline:view:doctor"  # below the console's prefix


def redis_checks(given: Given) -> Iterator[Check]:
    """Yield the checks that concern the given services."""
    if not given.concerns(OF_REDIS):
        return
    made = RedisChecks(given)
    yield Check("redis.reach", f"PING {given.told.redis or 'FIRNLINE_REDIS'}", made.reach)
    if given.concerns(("worker",)):
        yield Check(
            "redis.leases", "take a lease and give it back", made.try_lease, ("redis.reach",)
        )
    if given.concerns(("console",)):
        yield Check("redis.view", f"write {VIEW}", made.write_view_key, ("redis.reach",))


class RedisChecks:
    """The checks of one Redis."""

    def __init__(self, given: Given) -> None:
        self._url = given.told.redis

    def client(self) -> Any:
        """Return a client. Raises Failed."""
        from firnline_adapters.redis.client import redis_client
        from firnline_domain.errors import Misconfigured

        if not self._url:
            raise Failed("it is not set", "FIRNLINE_REDIS names host and port: redis://host:6379/0")
        try:
            return redis_client(self._url, socket_timeout=TRY_S, socket_connect_timeout=TRY_S)
        except Misconfigured as error:
            raise Failed(error, "see docs/deploy/secure-kafka-and-redis.md#redis") from None

    def reach(self) -> str:
        """Send PING, and return which server answers."""
        client = self.client()
        _ask(client.ping)
        try:
            about = client.info("server")
        except Exception:  # not allowed: it is of no importance
            return "it answers"
        return f"it answers: {about.get('server_name', 'redis')} {about.get('redis_version', '')}"

    def try_lease(self) -> str:
        """Acquire, renew and release a lease by scripts, as a worker does."""
        from firnline_adapters.redis.leases import RedisLeases

        leases, name = RedisLeases(self.client()), f"doctor:{uuid.uuid4().hex}"
        owner = f"doctor.0.0#{uuid.uuid4().hex[:8]}/a"
        taken = _ask(lambda: leases.acquire(name, owner, TRY_S))
        kept = _ask(lambda: leases.renew(name, owner, TRY_S))
        _ask(lambda: leases.release(name, owner))
        if not (taken and kept):
            raise Failed("a free lease was not granted", "is this a replica? name a master")
        return "taken, kept and given back"

    def write_view_key(self) -> str:
        """Write a key of the console's, which expires by itself (1 s)."""
        client = self.client()
        _ask(lambda: client.set(VIEW, "x", px=1000))
        return "written; it ends by itself"

    def now_s(self) -> float:
        """Return the time of Redis' clock. Raises Failed."""
        client = self.client()
        seconds, micros = _ask(client.time)
        return float(seconds) + float(micros) / 1e6


def _ask(call: Callable[[], T]) -> T:
    """Return what Redis returns. Raises Failed, with the remedy for its error."""
    try:
        return call()
    except Exception as error:
        raise Failed(error, _redis_remedy(type(error).__name__, str(error))) from None


def _redis_remedy(kind: str, text: str) -> str:
    if kind == "AuthenticationError" or "NOAUTH" in text or "WRONGPASS" in text:
        return "the user and password in FIRNLINE_REDIS are not those of Redis"
    if kind == "NoPermissionError" or "NOPERM" in text:
        return ACL
    if kind == "ReadOnlyError":
        return "this is a replica: name the master, or redis+sentinel://"
    if kind == "OutOfMemoryError":
        return "its maxmemory is reached: give it more; the page takes about 2 kB a table"
    if "certificate verify failed" in text:
        return "?ssl_ca_certs= of FIRNLINE_REDIS names a PEM file with the CA of its certificate"
    if "SSL" in text:
        return "rediss:// is for a port that speaks TLS, redis:// for one that does not"
    return (
        "FIRNLINE_REDIS names host and port, with rediss:// where they speak TLS; is it running, "
        "and may this host connect to it?"
    )
