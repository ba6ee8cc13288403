"""Authenticate each request to a catalog: nothing, a header, an OAuth2 token that is renewed, or a
signature.

One identity of a connection serves the whole process: a token is asked for once, however many
clients and threads there are. It is renewed before it ends, and when a catalog refuses it."""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import requests
from firnline_adapters.config.redaction import mask_secrets
from firnline_adapters.observability.health import Check, http_answers
from firnline_domain.errors import CatalogRefused, CatalogUnreachable, Misconfigured
from requests.auth import AuthBase

from firnline_iceberg.connection import properties as words
from firnline_iceberg.connection.connection import CatalogConnection

TOKEN_TIMEOUT_S: Final = 30.0
RENEW_AT: Final = 0.8  # of a token's life; Java's clients renew at 0.9
LEAST_LEFT_S: Final = 2.0
LATEST_S: Final = 300.0  # before its end at the latest
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_REFUSALS = (400, 401, 403)


class CatalogIdentity(Protocol):
    """Identity of one connection."""

    def auth_headers(
        self, method: str, url: str, body: bytes | str | None = None
    ) -> Mapping[str, str]:
        """Return the headers to send with this request. Raises RetryLater if a token cannot be
        had."""

    def renew_after(self, sent: Mapping[str, str]) -> bool:
        """Return whether there is something else to try after the catalog has refused these
        headers. Raises RetryLater."""


class Static:
    """The same with every request; `auth_headers` of the connection are sent anyway."""

    def __init__(self, headers: Mapping[str, str] = {}) -> None:
        self._headers = headers

    def auth_headers(
        self, method: str, url: str, body: bytes | str | None = None
    ) -> Mapping[str, str]:
        return self._headers

    def renew_after(self, sent: Mapping[str, str]) -> bool:
        return False


class OAuth2:
    """A token by client credentials, or one that was given and is exchanged for the next."""

    def __init__(self, connection: CatalogConnection, now: Callable[[], float] = time.time) -> None:
        given = connection.properties
        self._name, self._now = connection.name, now
        self._credential = given.get("credential")
        self._server = connection.token_server
        self._parameters = {"scope": given.get("scope") or "catalog"}
        self._parameters |= {one: given[one] for one in ("audience", "resource") if one in given}
        self._may_exchange = given.get("token-exchange-enabled", "true").lower() == "true"
        self._life_s = int(given.get("token-expires-in-ms") or 3_600_000) / 1000
        self._tls = connection.pyiceberg_properties().get("ssl", {})
        self._lock = threading.Lock()
        self._token = given.get("token")
        self._ends_s, self._due_s = self._token_times(self._token, None, now())

    def auth_headers(
        self, method: str, url: str, body: bytes | str | None = None
    ) -> Mapping[str, str]:
        with self._lock:
            if self._token is None or self._now() >= self._due_s:
                self._renew_if_possible()
            return self._token_header()

    def renew_after(self, sent: Mapping[str, str]) -> bool:
        """Get one new token for all threads that were refused with the same one."""
        with self._lock:
            if sent == self._token_header():
                if self._credential is None:
                    return False  # what is refused cannot be exchanged either
                self._request_token()
            return sent != self._token_header()

    def _token_header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _renew_if_possible(self) -> None:
        try:
            self._request_token()
        except (CatalogRefused, CatalogUnreachable):
            if self._token is None or self._now() >= self._ends_s:
                raise
            left_s = self._ends_s - self._now()  # it is good for as long yet; try again then
            self._due_s = self._now() + min(left_s / 2, LATEST_S)

    def _request_token(self) -> None:
        """Request a token. Raises CatalogRefused, CatalogUnreachable."""
        form = self._token_form()
        if form is None:
            self._due_s = float("inf")  # a token that nobody can renew: the catalog will say so
            return
        began_s = self._now()
        answer = self._post_form({**form, **self._parameters})
        token = str(answer["access_token"])
        mask_secrets([token])
        self._token = token
        expires = answer.get("expires_in")
        self._ends_s, self._due_s = self._token_times(
            token, None if expires is None else float(expires), began_s
        )

    def _token_form(self) -> dict[str, str] | None:
        if self._credential is not None:
            client, colon, secret = self._credential.partition(":")
            known = {"client_id": client, "client_secret": secret}
            return {
                "grant_type": "client_credentials",
                **(known if colon else {"client_secret": client}),
            }
        if self._token is None or not self._may_exchange:
            return None
        return {
            "grant_type": _EXCHANGE,
            "subject_token": self._token,
            "subject_token_type": _ACCESS_TOKEN,
        }

    def _post_form(self, form: Mapping[str, str]) -> dict[str, Any]:
        client = self._tls.get("client", {})
        where = f"catalog {self._name}: token server {self._server}"
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if self._credential is not None:
            headers = {}
        try:
            answer = requests.post(
                self._server,
                data=form,
                headers=headers,
                timeout=TOKEN_TIMEOUT_S,
                verify=self._tls.get("cabundle", True),
                cert=(client["cert"], client["key"]) if "key" in client else client.get("cert"),
            )
        except requests.RequestException as error:
            raise CatalogUnreachable(f"{where}: {error}") from None
        if answer.status_code in _REFUSALS:
            text = f"{where} refuses us: {answer.status_code} {_error_text(answer)}"
            raise CatalogRefused(text, self._name)
        try:
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            found["access_token"]
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise CatalogUnreachable(f"{where}: no token: {error!r}") from None
        return found

    def _token_times(
        self, token: str | None, expires_s: float | None, began_s: float
    ) -> tuple[float, float]:
        """Return (when it ends, when to renew it), by the server's answer, else the token itself,
        else the setting, like Java."""
        ends_s = _end_of(token) if token else None
        if expires_s is not None:
            ends_s = began_s + expires_s
        if ends_s is None:
            ends_s = began_s + self._life_s
        life_s = max(ends_s - began_s, 0.0)
        ahead_s = min(max(life_s * (1 - RENEW_AT), LEAST_LEFT_S), LATEST_S, life_s / 2)
        return ends_s, ends_s - ahead_s


def _end_of(token: str) -> float | None:
    """Return when a JSON web token ends (`exp`), in seconds since 1970; None for any other
    token."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, binascii.Error):
        return None


def _error_text(answer: requests.Response) -> str:
    try:
        body = answer.json()
        known = ("error", "error_description")
        return " ".join(str(body[name]) for name in known if name in body) or answer.reason
    except (ValueError, TypeError):
        return answer.reason


class SigV4:
    """Signs each request as AWS does, with keys of our own or with those of the environment: those
    of an instance or a pod are renewed by botocore."""

    def __init__(self, connection: CatalogConnection) -> None:
        import boto3  # 0.3 s that only this identity needs
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        given = connection.properties
        session = boto3.Session(
            aws_access_key_id=given.get("rest.access-key-id"),
            aws_secret_access_key=given.get("rest.secret-access-key"),
            aws_session_token=given.get("rest.session-token"),
            region_name=given.get(words.REGION),
        )
        self._name = connection.name
        self._credentials = session.get_credentials()
        self._region = given.get("rest.signing-region") or session.region_name or "us-east-1"
        self._service = given.get("rest.signing-name") or "execute-api"
        self._auth, self._request = SigV4Auth, AWSRequest
        self._error: type[Exception] = BotoCoreError

    def auth_headers(
        self, method: str, url: str, body: bytes | str | None = None
    ) -> Mapping[str, str]:
        if self._credentials is None:
            text = f"catalog {self._name}: no AWS credentials to sign with: set rest.access-key-id"
            raise CatalogRefused(text, self._name)
        request = self._request(method=method, url=url, data=body or b"")
        try:
            frozen = self._credentials.get_frozen_credentials()
        except self._error as error:  # those of an instance or a pod cannot be renewed now
            raise CatalogUnreachable(f"catalog {self._name}: no AWS credentials: {error}") from None
        self._auth(frozen, self._service, self._region).add_auth(request)
        found: dict[str, str] = {name: str(one) for name, one in request.headers.items()}
        return found

    def renew_after(self, sent: Mapping[str, str]) -> bool:
        return False


class RequestsAuth(AuthBase):
    """An identity for the sessions of one client of one thread."""

    def __init__(self, identity: CatalogIdentity) -> None:
        self._identity = identity
        self._sent: Mapping[str, str] = {}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body: Any = request.body  # never a stream: PyIceberg sends texts
        self._sent = self._identity.auth_headers(str(request.method), str(request.url), body)
        request.headers.update(self._sent)
        return request

    def renew(self) -> bool:
        """Renew what was sent last, because it is refused. Raises RetryLater."""
        return self._identity.renew_after(self._sent)


_identities: dict[tuple[str, tuple[tuple[str, str], ...]], CatalogIdentity] = {}
_lock = threading.Lock()


def identity_of(connection: CatalogConnection) -> CatalogIdentity:
    """Return the process' identity for a connection, created once. It has headers in addition to
    those of `connection.properties`."""
    key = (connection.name, tuple(sorted(connection.properties.items())))
    with _lock:
        if key not in _identities:
            _identities[key] = _make_identity(connection)
        return _identities[key]


def _make_identity(connection: CatalogConnection) -> CatalogIdentity:
    if connection.auth == "oauth2":
        return OAuth2(connection)
    if connection.auth == "sigv4":
        return SigV4(connection)
    return Static(connection.basic_header())


def tls_context(connection: CatalogConnection) -> ssl.SSLContext | None:
    """Return the context of its files; None if it names none. Raises Misconfigured."""
    given = connection.properties
    bundle, cert = given.get(words.CA_BUNDLE), given.get(words.CLIENT_CERT)
    if bundle is None and cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=bundle)
        if cert is not None:
            context.load_cert_chain(cert, given.get(words.CLIENT_KEY))
    except OSError as error:  # of a file that is none, too
        raise Misconfigured(f"[catalogs.{connection.name}] ssl: {error}") from None
    return context


def catalog_answers(connection: CatalogConnection) -> Check:
    """Return a check for `/readyz` whether it answers."""
    return http_answers(connection.uri, tls_context(connection))
