"""Iceberg's reference catalog as a lake of today has it: who calls must say who they are, tokens
end, and keys to the storage are handed out by the catalog alone, for a while.

A server before the embedded one. What it hands out, and to whom it says no, tests decide while it
runs.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

from firnline_iceberg.connection.connection import CatalogConnection
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins
from firnline_local.servers.repository import repository_root

from tests.kit.s3_server import BUCKET, Keys, S3Server

CREDENTIAL = "firnline:cAnAry-client-secret-9f"
BASIC = ("firnline", "cAnAry-password-3k")
STATIC = "cAnAry-api-key-71"
AWS_JARS = (  # of the catalog's own version
    PinnedArtifact("4cfe4a7ba3a4fb247a29e60c614678c3b7a1e9b4b91f54e0ca3406419c9338f0",
        "org/apache/iceberg/iceberg-aws/1.11.0/iceberg-aws-1.11.0.jar"),
    PinnedArtifact("2c5dc879a6dac7ea3a7b29d795e27bd49b8e7908b05c2f3e56053c19d79850f5",
        "dev/failsafe/failsafe/3.3.2/failsafe-3.3.2.jar"),
    PinnedArtifact("38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
        "org/apache/iceberg/iceberg-aws-bundle/1.11.0/iceberg-aws-bundle-1.11.0.jar"),
)  # fmt: skip
_TABLE = re.compile(r"/v1/namespaces/([^/]+)/tables(?:/([^/?]+))?(/credentials)?$")
_HOP = frozenset({"host", "connection", "content-length", "accept-encoding", "transfer-encoding"})


@dataclass
class Rules:
    """What the catalog asks for and hands out; may be changed at any time."""

    auth: str = "oauth2"  # none, oauth2, basic, header, or sigv4
    token_s: float = 60.0
    exchange: bool = False  # tokens are exchanged for others
    keys_s: float | None = None  # vended keys end after it; None: none are handed out
    credentials_in: str = "storage-credentials"  # or "config"
    vends_expiry: bool = True
    shares_keys: bool = False  # the same ones for the first half of their life, as catalogs do
    forbidden: set[str] = field(default_factory=set)  # tables that nobody may load
    closed: set[str] = field(default_factory=set)  # namespaces that our services may not read
    tokens: dict[str, float] = field(default_factory=dict)  # token -> when it ends
    warehouse: str | None = None  # /v1/config must name it


class LakeCatalog(ThreadingHTTPServer):
    """The server; `uri` is its base."""

    daemon_threads = True

    def __init__(self, upstream: str, rules: Rules, store: S3Server | None) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.upstream, self.rules, self.store = upstream, rules, store
        self.scheme = "http"
        self.seen: list[tuple[str, str, Mapping[str, str]]] = []  # method, path, headers
        self.asked_for_tokens: list[dict[str, str]] = []
        self.handed_out: list[Keys] = []
        self.refused = Counter[int]()  # answers by status: 401, 403
        self._lock = threading.Lock()
        self._newest: tuple[Keys, float] | None = None  # and when they end

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that has gone, a catalog or a store that was killed: said by their own logs."""
        if not isinstance(sys.exception(), OSError | HTTPException):
            super().handle_error(request, client_address)

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{LOOPBACK}:{self.server_address[1]}"

    def properties(self) -> dict[str, str]:
        """How it is reached, in Iceberg's words."""
        found = {"uri": self.uri}
        if self.rules.auth == "oauth2":
            found["credential"] = CREDENTIAL
        if self.rules.auth == "basic":
            found |= dict(
                zip(("rest.auth.basic.username", "rest.auth.basic.password"), BASIC, strict=True)
            )
        if self.rules.auth == "header":
            found["header.X-Api-Key"] = STATIC
        if self.rules.warehouse:
            found["warehouse"] = self.rules.warehouse
        return found

    def connection(self, **more: str) -> CatalogConnection:
        """That of our services."""
        return CatalogConnection("lake", {**self.properties(), **more})

    def revoke_all(self) -> None:
        """No token that was given counts any more."""
        self.rules.tokens.clear()

    def count(self, ending: str) -> int:
        """Calls whose path ends so."""
        return sum(urlsplit(path).path.endswith(ending) for _, path, _ in self.seen)

    def vended(self, location: str) -> dict[str, Any]:
        """What an answer for a table holds more: new keys."""
        assert self.store is not None
        assert self.rules.keys_s is not None
        keys, end_s = self._keys(self.store, self.rules.keys_s)
        config = keys.properties()
        if self.rules.vends_expiry:
            config["s3.session-token-expires-at-ms"] = str(int(end_s * 1000))
        if self.rules.credentials_in == "config":
            return {"config": config}
        wrong = {"s3.access-key-id": "AKWRONG", "s3.secret-access-key": "shorter-prefix-loses"}
        return {
            "storage-credentials": [
                {"prefix": "s3://", "config": wrong},
                {"prefix": location, "config": config},
            ]
        }

    def _keys(self, store: S3Server, life_s: float) -> tuple[Keys, float]:
        with self._lock:
            if self._newest and self.rules.shares_keys:
                keys, end_s = self._newest
                if keys.access in store.alive and end_s - time.time() > life_s / 2:
                    return self._newest
            end_s = time.time() + life_s
            keys = store.new_keys(life_s)
            self.handed_out.append(keys)
            self._newest = keys, end_s
            return self._newest


class _Handler(BaseHTTPRequestHandler):
    server: LakeCatalog
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"")

    do_HEAD = do_DELETE = do_GET  # noqa: N815

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes) -> None:
        self.server.seen.append((self.command, self.path, dict(self.headers.items())))
        parts = urlsplit(self.path)
        if parts.path == "/v1/oauth/tokens":
            self._token(body)
            return
        if not self._is_known(body):
            self._say(401, _error(401, "NotAuthorizedException", "who are you?"))
            return
        named = _TABLE.fullmatch(parts.path)
        ours = "Firnline-Maintenance" in self.headers
        rules = self.server.rules
        if named and (named[2] in rules.forbidden or (ours and named[1] in rules.closed)):
            self._say(403, _error(403, "ForbiddenException", f"not allowed: {named[2]}"))
            return
        wanted = self.server.rules.warehouse
        asked = parse_qs(parts.query).get("warehouse")
        if parts.path == "/v1/config" and wanted and asked != [wanted]:
            self._say(400, _error(400, "BadRequestException", "Please specify a warehouse"))
            return
        self._pass_on(body, named)

    def _pass_on(self, body: bytes, named: re.Match[str] | None) -> None:
        path = self.path
        if named and named[3]:
            path = path.partition("/credentials")[0]
        headers = {name: one for name, one in self.headers.items() if name.lower() not in _HOP}
        call = Request(self.server.upstream + path, body or None, headers, method=self.command)
        try:
            with urlopen(call, timeout=60) as answer:
                status, kind, found = (
                    answer.status,
                    answer.headers.get("Content-Type"),
                    answer.read(),
                )
        except HTTPError as error:
            status, kind, found = error.code, error.headers.get("Content-Type"), error.read()
        if status == 200 and named and self.command in ("GET", "POST") and found:
            found = self._with_keys(named, found)
        if status == 200 and self.path.startswith("/v1/config") and self.server.store:
            content = json.loads(found)
            content["overrides"] = {**content.get("overrides", {}), **self.server.store.properties}
            found = json.dumps(content).encode()
        self._say(status, found, kind or "application/json")

    def _with_keys(self, named: re.Match[str], found: bytes) -> bytes:
        asks = "vended-credentials" in self.headers.get("X-Iceberg-Access-Delegation", "")
        content = json.loads(found)
        if self.server.rules.keys_s is None or not asks or "metadata" not in content:
            return found
        vended = self.server.vended(content["metadata"]["location"])
        if named[3]:
            only = vended.get("storage-credentials") or [
                {"prefix": content["metadata"]["location"], "config": vended["config"]}
            ]
            return json.dumps({"storage-credentials": only}).encode()
        content["config"] = {**content.get("config", {}), **vended.pop("config", {})}
        return json.dumps({**content, **vended}).encode()

    def _is_known(self, body: bytes) -> bool:
        rules, said = self.server.rules, self.headers.get("Authorization", "")
        if rules.auth == "oauth2":
            return rules.tokens.get(said.removeprefix("Bearer "), 0.0) > time.time()
        if rules.auth == "basic":
            word = base64.b64encode(":".join(BASIC).encode()).decode()
            return said == f"Basic {word}"
        if rules.auth == "header":
            return self.headers.get("X-Api-Key") == STATIC
        return rules.auth == "none" or signed_by_us(self, body)

    def _token(self, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.server.asked_for_tokens.append(form)
        rules = self.server.rules
        if form.get("grant_type") == "client_credentials":
            known = f"{form.get('client_id')}:{form.get('client_secret')}" == CREDENTIAL
        else:
            old = form.get("subject_token", "")
            known = rules.exchange and rules.tokens.get(old, 0.0) > time.time()
        if not known:
            self._say(401, b'{"error": "invalid_client", "error_description": "no such client"}')
            return
        token = f"cAnAry-token-{secrets.token_hex(12)}"
        rules.tokens[token] = time.time() + rules.token_s
        answer = {"access_token": token, "token_type": "bearer", "expires_in": int(rules.token_s),
                  "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}  # fmt: skip
        self._say(200, json.dumps(answer).encode())

    def _say(self, status: int, body: bytes, kind: str = "application/json") -> None:
        if status in (401, 403):
            self.server.refused[status] += 1
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests look at `seen`."""


SIGV4_KEYS = Keys("AKIDLAKE", "cAnAry-sigv4-secret-5p")


def signed_by_us(call: BaseHTTPRequestHandler, body: bytes) -> bool:
    """Whether botocore makes the same signature of what came, with the secret that we know."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    said = call.headers.get("Authorization", "")
    parts = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request, ?"
        r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)",
        said,
    )
    if parts is None or parts[1] != SIGV4_KEYS.access:
        return False
    url = f"http://{call.headers['Host']}{call.path}"
    named = {name: call.headers[name] for name in parts[4].split(";")}
    request = AWSRequest(method=call.command, url=url, data=body, headers=named)
    auth = SigV4Auth(Credentials(SIGV4_KEYS.access, SIGV4_KEYS.secret), parts[3], parts[2])
    request.context["timestamp"] = call.headers["X-Amz-Date"]
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return bool(auth.signature(text, request) == parts[5])


def _error(code: int, kind: str, text: str) -> bytes:
    return json.dumps({"error": {"message": text, "type": kind, "code": code}}).encode()


def s3_catalog(folder: Path, port: int, store: S3Server) -> Command:
    """The embedded catalog with its warehouse on S3, by the store's own keys."""
    plain = catalog.command(folder, port)
    jars = fetch_pins(AWS_JARS, cache_root(), repository_root)
    argv = list(plain.argv)
    at = argv.index("-cp") + 1
    argv[at] = ":".join([argv[at], *map(str, jars)])

    def prepare() -> None:
        plain.prepare()
        file = folder / "catalog.xml"
        given = {
            "warehouse": f"s3://{BUCKET}/wh",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.access-key-id": store.root.access,
            "s3.secret-access-key": store.root.secret,
            **store.properties,
        }
        entries = "".join(
            f"<Entry><Item>{name}</Item><Item>{one}</Item></Entry>" for name, one in given.items()
        )
        text = re.sub(r"<Entry><Item>warehouse</Item>.*?</Entry>", entries, file.read_text())
        file.write_text(text)

    return Command(plain.name, tuple(argv), plain.cwd, plain.ready, plain.env, prepare)


@contextmanager
def lake_catalog(
    folder: Path,
    rules: Rules | None = None,
    store: S3Server | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[LakeCatalog]:
    """A catalog of its own behind the server, on S3 where there is a store. `tls`: the server's."""
    port = free_port()
    command = s3_catalog(folder, port, store) if store else catalog.command(folder, port)
    with (
        run_process(command, folder / "catalog.log"),
        lake_front(catalog.uri(port), rules or Rules(), store, tls) as server,
    ):
        yield server


@contextmanager
def lake_front(
    upstream: str,
    rules: Rules,
    store: S3Server | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[LakeCatalog]:
    """The server before a catalog that runs."""
    with LakeCatalog(upstream, rules, store) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
