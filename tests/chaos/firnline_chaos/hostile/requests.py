"""HTTP that no client of Iceberg sends, as bytes on a socket to a gateway."""

from __future__ import annotations

import gzip
import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

PATIENCE_S = 10.0
PATHS = (
    "/v1/config",
    "/v1/namespaces/hostile/tables/{table}",
    "/v1/namespaces/hostile/tables/{table}/",
    "/v1/namespaces/hostile/%74ables/{table}",
    "/v1//namespaces/hostile/tables/{table}",
    "/v1/namespaces/hostile/tables/{table}#x",
    "/v1/namespaces/hostile/tables/{table};x=1",
    "/v1/namespaces/%ff%fe/tables/%00",
    "/v1/namespaces/hostile/tables/" + "t" * 9_000,
    "/v1/transactions/commit",
    "/../other-app/v1/config",
    "/%2e%2e/other-app",
    "/..%5c..%5cother-app",
    "//evil.invalid/v1/config",
    "http://evil.invalid/v1/config",
    "@evil.invalid/",
    "*",
    "",
)
METHODS = (b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"PATCH", b"CONNECT", b"\xff\xfe", b"get")
HEADERS = (
    b"User-Agent: \xff\xfe\x80",
    b"Idempotency-Key: \xc3\x28",
    b"X-Iceberg-Access-Delegation: " + b"a" * 30_000,
    b"Content-Encoding: gzip",
    b"Content-Encoding: gzip, gzip, gzip",
    b"Content-Encoding: br",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: xchunked",
    b"Content-Length: 18446744073709551616",
    b"Content-Length: -1",
    b"Expect: 100-continue",
    b"Firnline-Hold: reads",
    b"Firnline-Hold: \x80",
    b"Host: evil.invalid",
    b"Authorization: Bearer \xff",
    b"Connection: upgrade\r\nUpgrade: websocket",
    b": no name",
    b"No-Colon",
)


@dataclass(frozen=True)
class HostileRequest:
    """Bytes to send. `half_closed`: the client stops in the middle and keeps the line."""

    kind: str
    data: bytes
    half_closed: bool = False


def draw(table: str, dice: random.Random) -> HostileRequest:
    """One request, to the tenant's table where it has one."""
    return dice.choice((_odd, _odd, _bomb, _commit, _half))(table, dice)


def send(address: str, request: HostileRequest) -> str:
    """What came back: the status line, or how the connection ended. Blocks at most 10 s."""
    where = urlsplit(address)
    try:
        with socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S) as line:
            line.sendall(request.data)
            if request.half_closed:
                line.shutdown(socket.SHUT_WR)
            answer = line.recv(4_096)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return f"closed: {type(error).__name__}"
    return answer.partition(b"\r\n")[0].decode(errors="replace") or "closed"


def _odd(table: str, dice: random.Random) -> HostileRequest:
    path = dice.choice(PATHS).format(table=table)
    body = dice.choice((b"", b"{}", b"\xff" * 50, _update(dice), b"[" * 20_000))
    lines = dice.sample(HEADERS, dice.randint(0, 3))
    return HostileRequest("odd", _bytes(dice.choice(METHODS), path, body, lines))


def _commit(table: str, dice: random.Random) -> HostileRequest:
    """A real commit of properties, spelled as nobody does."""
    spelled = [one for one in PATHS if "{table}" in one]
    lines = dice.sample(HEADERS[:3], 1)
    return HostileRequest(
        "commit", _bytes(b"POST", dice.choice(spelled).format(table=table), _update(dice), lines)
    )


def _bomb(table: str, dice: random.Random) -> HostileRequest:
    """Some hundred kB that unpack to some hundred MB."""
    body = _compress_spaces(dice.choice((10_000_000, 300_000_000)))
    path = f"/v1/namespaces/hostile/tables/{table}"
    return HostileRequest("bomb", _bytes(b"POST", path, body, [b"Content-Encoding: gzip"]))


@cache
def _compress_spaces(count: int) -> bytes:
    return gzip.compress(b" " * count, 9)


def _half(table: str, dice: random.Random) -> HostileRequest:
    """A promise of more than comes."""
    head = f"POST /v1/namespaces/hostile/tables/{table} HTTP/1.1\r\nHost: x\r\n".encode()
    ends: tuple[Callable[[], bytes], ...] = (
        lambda: b"Content-Length: 1000\r\n\r\n{",
        lambda: b"Transfer-Encoding: chunked\r\n\r\nffff\r\n{",
        lambda: b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        lambda: b"X: y",
        lambda: b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/config",
    )
    return HostileRequest("half", head + dice.choice(ends)(), half_closed=True)


def _bytes(method: bytes, path: str, body: bytes, lines: list[bytes]) -> bytes:
    given = [b"Host: x", b"Connection: close", b"Content-Type: application/json", *lines]
    if not any(one.startswith((b"Content-Length", b"Transfer-Encoding")) for one in lines):
        given.append(b"Content-Length: " + str(len(body)).encode())
    target = path.encode("latin-1", errors="replace")
    return method + b" " + target + b" HTTP/1.1\r\n" + b"\r\n".join(given) + b"\r\n\r\n" + body


def _update(dice: random.Random) -> bytes:
    """An `UpdateTableRequest` that sets a property."""
    value = dice.choice(("x", "\u202e", "y" * 50_000, str(2**70)))
    updates = [{"action": "set-properties", "updates": {f"p{dice.randrange(9)}": value}}]
    return json.dumps({"requirements": [], "updates": updates}).encode()
