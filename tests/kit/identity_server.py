"""Who may come into a lake: an OpenID provider that signs tokens (RS256, client credentials), and
AWS's STS before an S3 server, whose roles are new keys that end. Both as far as a catalog asks."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from firnline_local.processes.ports import LOOPBACK

from tests.kit.s3_server import Keys, S3Server

CLIENT, SECRET = "firnline", "cAnAry-oidc-secret-4d"
KEY_ID = "tests"


@dataclass
class Rules:
    """May be changed at any time."""

    token_s: float = 60.0
    keys_s: float = 60.0  # of the object store
    shares_keys: bool = False  # the same ones for half of their life, which is twice as long
    secret: str = SECRET
    given: list[str] = field(default_factory=list)  # tokens, the newest last
    roles: int = 0  # that were assumed
    assumed: list[tuple[str, str]] = field(default_factory=list)  # by which key, which role


class IdentityServer(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True

    def __init__(self, store: S3Server, rules: Rules) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.store, self.rules = store, rules
        self._lock = threading.Lock()
        self._newest: tuple[Keys, float] | None = None  # and when they end
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def uri(self) -> str:
        """Issuer of the tokens, and end point of STS."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    @property
    def token_uri(self) -> str:
        return f"{self.uri}/token"

    def credentials(self) -> dict[str, str]:
        """Those of our services, in Iceberg's words."""
        return {
            "credential": f"{CLIENT}:{SECRET}",
            "oauth2-server-uri": self.token_uri,
            "scope": "catalog",
            "token-exchange-enabled": "false",  # hardly a provider knows Iceberg's use of it
        }

    def settings(self) -> dict[str, str]:
        """Those of a Nessie that asks for these tokens and hands out keys that end."""
        iam = "nessie.catalog.service.s3.default-options"
        return {
            "nessie.server.authentication.enabled": "true",
            "quarkus.oidc.auth-server-url": self.uri,
            "quarkus.oidc.client-id": "nessie",
            f"{iam}.client-iam.enabled": "true",
            f"{iam}.client-iam.assume-role": "arn:aws:iam::000000000000:role/lake",
            f"{iam}.client-iam.session-duration": f"PT{int(self.rules.keys_s)}S",
            f"{iam}.sts-endpoint": self.uri,
        }

    def role(self) -> tuple[Keys, float]:
        """Keys to the store, and when they end: a session's length from now at the earliest, or the
        catalog does not take them."""
        life_s = self.rules.keys_s * (2 if self.rules.shares_keys else 1)
        with self._lock:
            if self._newest and self.rules.shares_keys:
                keys, end_s = self._newest
                if keys.access in self.store.alive and end_s - time.time() > self.rules.keys_s + 1:
                    return self._newest
            self.rules.roles += 1
            keys = self.store.new_keys(life_s + 2)  # as true as a clock of seconds is
            self._newest = keys, time.time() + life_s + 1
            return self._newest

    def token(self) -> str:
        now = int(time.time())
        claims = {
            "iss": self.uri,
            "sub": CLIENT,
            "azp": CLIENT,
            "aud": "nessie",
            "iat": now,
            "exp": now + int(self.rules.token_s),
            "jti": secrets.token_hex(8),
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = f"{_part(json.dumps(header).encode())}.{_part(json.dumps(claims).encode())}"
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        made = f"{signed}.{_part(signature)}"
        self.rules.given.append(made)
        return made


class _Handler(BaseHTTPRequestHandler):
    server: IdentityServer

    def do_GET(self) -> None:
        uri = self.server.uri
        if self.path.startswith("/.well-known/openid-configuration"):
            self._json(
                200,
                {
                    "issuer": uri,
                    "token_endpoint": f"{uri}/token",
                    "jwks_uri": f"{uri}/jwks",
                    "authorization_endpoint": f"{uri}/authorize",
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                },
            )
        elif self.path.startswith("/jwks"):
            numbers = self.server.key.public_key().public_numbers()
            key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
            key |= {"n": _number(numbers.n), "e": _number(numbers.e)}
            self._json(200, {"keys": [key]})
        else:
            self._json(404, {"error": "not_found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        if asked.get("Action") == "AssumeRole":
            signed = self.headers.get("Authorization") or ""
            by = signed.partition("Credential=")[2].partition("/")[0]
            self.server.rules.assumed.append((by, asked.get("RoleArn", "")))
            self._role()
        elif self.path.startswith("/token"):
            self._token(asked)
        else:
            self._json(404, {"error": "not_found"})

    def _token(self, asked: Mapping[str, str]) -> None:
        rules = self.server.rules
        if asked.get("grant_type") != "client_credentials":
            self._json(400, {"error": "unsupported_grant_type"})
        elif self._who(asked) != (CLIENT, rules.secret):
            self._json(401, {"error": "invalid_client", "error_description": "unknown client"})
        else:
            answer = {"token_type": "Bearer", "expires_in": int(rules.token_s)}
            self._json(200, {**answer, "access_token": self.server.token()})

    def _who(self, asked: Mapping[str, str]) -> tuple[str, str]:
        """In a header or in the form, as clients please."""
        word = self.headers.get("Authorization") or ""
        if word.startswith("Basic "):
            user, _, secret = base64.b64decode(word[6:]).decode().partition(":")
            return unquote(user), unquote(secret)
        return asked.get("client_id", ""), asked.get("client_secret", "")

    def _role(self) -> None:
        """Without a session token, which versitygw does not know."""
        keys, end_s = self.server.role()
        ends = datetime.fromtimestamp(end_s, UTC)
        text = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleResult><Credentials><AccessKeyId>{keys.access}</AccessKeyId>
<SecretAccessKey>{keys.secret}</SecretAccessKey><SessionToken></SessionToken>
<Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleResult>
</AssumeRoleResponse>"""
        self._answer(200, "text/xml", text.encode())

    def _json(self, status: int, body: Any) -> None:
        self._answer(status, "application/json", json.dumps(body).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _part(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@contextmanager
def identity_server(store: S3Server, rules: Rules | None = None) -> Iterator[IdentityServer]:
    """Serves as long as the block runs."""
    with IdentityServer(store, rules or Rules()) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
