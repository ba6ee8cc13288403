"""A client of the Redis or Valkey that FIRNLINE_REDIS names, whichever way it is reached.

| URL | |
| --- | --- |
| `redis://[user:password@]host:port/db` | one server |
| `rediss://...?ssl_ca_certs=/path` | the same over TLS |
| `redis+sentinel://[user:password@]host:port,host:port/name/db` | the master that sentinels name |
| `rediss+sentinel://...` | servers and sentinels over TLS |

Sentinels with a password of their own: `?sentinel_username=...&sentinel_password=...`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import redis
from firnline_domain.errors import Misconfigured
from redis.connection import parse_url
from redis.sentinel import Sentinel

from firnline_adapters.config.redaction import redact

SENTINEL = "+sentinel"
SENTINEL_PORT = 26379
OF_SENTINELS = ("sentinel_username", "sentinel_password")
VARIABLE = "FIRNLINE_REDIS"


def redis_client(url: str, **options: Any) -> redis.Redis:
    """Return a client that has no connection yet. `options`: of redis.Redis. Raises
    Misconfigured."""
    try:
        if urlsplit(url).scheme.endswith(SENTINEL):
            return _connect_by_sentinels(url, options)
        return redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise Misconfigured(f"{VARIABLE}={redact(url)}: {_safe_error(error, url)}") from None


def _safe_error(error: ValueError, url: str) -> str:
    if "+cluster" in url:
        return "a cluster is not possible, leases and views are of many keys: take Sentinel"
    return redact(str(error))


def _connect_by_sentinels(url: str, options: Mapping[str, Any]) -> redis.Redis:
    """Return a client of the master that the sentinels of a `redis+sentinel://` URL name. `options`
    take precedence over those in the URL. Raises ValueError."""
    parts = urlsplit(url)
    scheme = parts.scheme.removesuffix(SENTINEL)
    login, _, hosts = parts.netloc.rpartition("@")
    name, _, number = parts.path.strip("/").partition("/")
    if not name or not hosts:
        raise ValueError("write sentinels and the master's name: redis+sentinel://host:26379/name")
    query = dict(parse_qsl(parts.query))
    own = {one.removeprefix("sentinel_"): query.pop(one) for one in OF_SENTINELS if one in query}
    # The options as redis-py reads them from a URL; host and class are the master's.
    plain = (scheme, f"{login}@h" if login else "h", f"/{number or 0}", urlencode(query), "")
    found: dict[str, Any] = parse_url(urlunsplit(plain))  # type: ignore[no-untyped-call]
    for given in ("host", "connection_class"):
        found.pop(given, None)
    if scheme == "rediss":
        found["ssl"] = True
    tls = {key: value for key, value in found.items() if key.startswith("ssl")}
    waits = {key: value for key, value in options.items() if key.startswith("socket_")}
    sentinels = Sentinel(  # type: ignore[no-untyped-call]
        [_host_and_port(host) for host in hosts.split(",")],
        sentinel_kwargs={**tls, **waits, **{key: unquote(one) for key, one in own.items()}},
        **{**found, **options},
    )
    client: redis.Redis = sentinels.master_for(name)  # type: ignore[no-untyped-call]
    return client


def _host_and_port(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return (name.strip("[]"), int(port)) if name else (host, SENTINEL_PORT)
