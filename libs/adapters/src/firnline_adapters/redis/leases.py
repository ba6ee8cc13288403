"""Leases in Redis: `SET NX PX` with an owner; a lease only saves work."""

from __future__ import annotations

from collections.abc import Sequence

import redis
from firnline_domain.errors import RetryLater

from firnline_adapters.redis.client import redis_client

MARKS = ("finished:", "begun:")  # beside the leases: what workers remember of tasks
LOOK_S = 5.0
PREFIX = "firnline:lease:"
# The scripts compare the owner and act in one step, so a lease that has passed to another owner
# is never prolonged or deleted by the old one. Value: owner, a tab, the note. Who succeeds whom:
# `firnline_domain.identity`.
_ACQUIRE = """
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. '\t' then
  local slot, life = string.match(ARGV[1], '^([^#]+)#([^/]+)/')
  local their_slot, their_life = string.match(held, '^([^#\t]+)#([^/\t]+)/')
  if not slot or slot ~= their_slot or life == their_life then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1] .. '\t' .. ARGV[3], 'PX', ARGV[2])
return 1
"""
_RENEW = """
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. '\t' then return 0 end
if ARGV[4] == '1' then held = ARGV[1] .. '\t' .. ARGV[3] end
redis.call('SET', KEYS[1], held, 'PX', ARGV[2])
return 1
"""
_RELEASE = """
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. '\t' then
  return redis.call('DEL', KEYS[1])
end
return 0
"""


class RedisLeases:
    """`Leases` (`firnline_domain.ports`) in Redis. Methods raise redis.RedisError when Redis is
    away."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._acquire = client.register_script(_ACQUIRE)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)

    def acquire(self, name: str, owner: str, ttl_s: float, note: str = "") -> bool:
        return bool(self._acquire(keys=[PREFIX + name], args=[owner, int(ttl_s * 1000), note]))

    def renew(self, name: str, owner: str, ttl_s: float, note: str | None = None) -> bool:
        kept = "0" if note is None else "1"
        args = [owner, str(int(ttl_s * 1000)), note or "", kept]
        return bool(self._renew(keys=[PREFIX + name], args=args))

    def release(self, name: str, owner: str) -> None:
        self._release(keys=[PREFIX + name], args=[owner])

    def read_notes(self, prefix: str) -> dict[str, str]:
        names = sorted(self._client.scan_iter(match=f"{PREFIX}{prefix}*", count=500))
        values = self._client.mget(names) if names else []
        return {
            _to_text(name).removeprefix(PREFIX): _to_text(value).partition("\t")[2]
            for name, value in zip(names, values, strict=True)
            if value is not None
        }

    def read_live(self, names: Sequence[str]) -> set[str]:
        values = self._client.mget([PREFIX + name for name in names]) if names else []
        return {name for name, value in zip(names, values, strict=True) if value is not None}


def held_leases(url: str) -> list[str]:
    """Return the names of the leases that tasks hold now. Raises RetryLater, Misconfigured."""
    client = redis_client(url, socket_timeout=LOOK_S, socket_connect_timeout=LOOK_S)
    try:
        return [one for one in RedisLeases(client).read_notes("") if not one.startswith(MARKS)]
    except redis.RedisError as error:
        raise RetryLater(f"Redis does not answer: {error}") from None


def _to_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
