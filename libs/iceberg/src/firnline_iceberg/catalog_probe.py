"""Does the catalog answer, and let us in? Asked at a service's start, and by `firnline doctor`.

A catalog that refuses us is somebody's to mend: the service says so and ends. One that does not
answer may come back: it waits, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import CatalogRefused, Misconfigured, RetryLater
from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from firnline_iceberg.connection.call_metrics import parse_date
from firnline_iceberg.connection.configuration import Connections
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.jars import VARIABLE
from firnline_iceberg.table.catalog_client import Tables

AGAIN_S = 10.0  # between two lines that say that we wait
TRY_S = 10.0
MAX_CHARS = 300
# Of a class that is not on the class path; Iceberg makes a FileIO by its name.
MISSING = ("NoClassDefFoundError", "ClassNotFoundException", "Missing no-arg constructor")
_PASSING = (ServerError, ServiceUnavailableError, TooManyRequestsError)


@dataclass(frozen=True)
class Cause:
    """Reason why a catalog failed a request. `may_pass`: it may succeed without any change."""

    text: str
    remedy: str
    may_pass: bool = False


def read_configuration(connection: CatalogConnection) -> Mapping[str, str]:
    """Return the connection's properties with the overrides and defaults of `/v1/config`. Raises
    what PyIceberg raises, see `cause_of`."""
    return {
        name: value
        for name, value in Tables(connection).client.properties.items()
        if isinstance(value, str)
    }


def require_catalog(
    connection: CatalogConnection, log: Log, sleep: Callable[[float], None] = time.sleep
) -> Mapping[str, str]:
    """Return a catalog's configuration; wait and retry until the catalog answers. Raises
    Misconfigured if it refuses Firnline."""
    while True:
        try:
            return read_configuration(connection)
        except Misconfigured:
            raise
        except Exception as error:
            cause = cause_of(error, connection)
        if not cause.may_pass:
            raise Misconfigured(
                f"catalog {connection.name} at {connection.uri} refuses us: {cause.text}: "
                f"{cause.remedy}"
            )
        log.warning(
            "catalog_unreached",
            catalog=connection.name,
            why=cause.text,
            then="waiting",
            see=cause.remedy,
        )
        sleep(AGAIN_S)


def require_catalogs(
    connections: Connections, log: Log, sleep: Callable[[float], None] = time.sleep
) -> list[Mapping[str, str]]:
    """Return the configurations of the catalogs that answer. Wait for a single catalog; of several,
    one answer is enough: each other one is logged once, and asked again for its first table. Raises
    Misconfigured if the only one refuses Firnline, or all of several do."""
    if len(connections) == 1:
        return [require_catalog(one, log, sleep) for one in connections.values()]
    while True:
        found, causes = list[Mapping[str, str]](), list[Cause]()
        for one in connections.values():
            try:
                found.append(read_configuration(one))
            except Misconfigured:
                raise
            except Exception as error:
                cause = cause_of(error, one)
                causes.append(cause)
                told = log.warning if cause.may_pass else log.error
                then = "serving the others" if found else "asking the others"
                told("catalog_away", catalog=one.name, why=cause.text, then=then, see=cause.remedy)
        if found:
            return found
        if not any(cause.may_pass for cause in causes):
            raise Misconfigured("no catalog lets us in: see the lines above")
        sleep(AGAIN_S)


def cause_of(error: BaseException, connection: CatalogConnection) -> Cause:
    """Return what is behind an exception of a client of PyIceberg's, and what to do."""
    # An HTTP error is only a number; what it was read as has the catalog's own words.
    chain = [one for one in _error_chain(error) if not isinstance(one, requests.HTTPError)]
    where = f"[catalogs.{connection.name}]"
    text = _error_text(next((one for one in chain if isinstance(one, RESTError)), chain[0]))
    for one in chain:
        if isinstance(one, OAuthError):
            return Cause(
                f"no token: {_error_text(one)}",
                f"credential, oauth2-server-uri and scope of {where} are not what it knows, or the "
                "secret has ended",
            )
        if isinstance(one, UnauthorizedError | AuthorizationExpiredError):
            return Cause(
                f"401, it does not take who we are ({connection.auth}): {_error_text(one)}",
                f"credential, token or header.Authorization of {where} are not, or no longer, what "
                "it knows",
            )
        if isinstance(one, ForbiddenError):
            return Cause(
                f"403, it does not let us: {_error_text(one)}",
                f"give the principal of {where} this right in the catalog; scope says as what role",
            )
        if isinstance(one, requests.exceptions.SSLError) or UNKNOWN_CA in str(one):
            return Cause(
                f"TLS: {_error_text(one)}",
                f"ssl.cabundle of {where} names a PEM file with the CA of its certificate; uri "
                "begins with https:// where it speaks TLS",
            )
        if isinstance(one, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
            break
        if isinstance(one, requests.RequestException | OSError):
            return Cause(
                _error_text(one),
                f"uri of {where} names the gateway, or the catalog; is it running, and may this "
                "host connect to it?",
                may_pass=True,
            )
        if isinstance(one, _PASSING):
            return Cause(
                _error_text(one), f"see the log of the catalog behind uri of {where}", True
            )
    if any(isinstance(one, Misconfigured) for one in chain):
        return Cause(text, f"mend {where}")
    if any(isinstance(one, CatalogRefused) for one in chain):
        return Cause(
            text,
            f"credential, token, oauth2-server-uri and scope of {where} are not, or no longer, "
            "what it knows",
        )
    if any(isinstance(one, RetryLater) for one in chain):
        return Cause(text, f"uri and oauth2-server-uri of {where}: do they answer?", may_pass=True)
    said = f"warehouse={connection.warehouse}" if connection.warehouse else "no warehouse is given"
    return Cause(
        f"{text} ({said})",
        f"warehouse of {where} is one of the catalog's, by its name there; uri is what its clients "
        "use, with its path (/api/catalog, /iceberg ...)",
    )


UNKNOWN_CA = "CERTIFICATE_VERIFY_FAILED"  # as OpenSSL says it, also of the token's server


def clock_of(connection: CatalogConnection) -> float | None:
    """Return a catalog's clock in seconds since 1970, from the date of its HTTP answer; None
    without one. Raises requests.RequestException."""
    tls = connection.pyiceberg_properties().get("ssl", {})
    client = tls.get("client", {})
    answer = requests.get(
        f"{connection.uri.rstrip('/')}/v1/config",
        timeout=TRY_S,
        verify=tls.get("cabundle", True),
        cert=(client["cert"], client.get("key")) if "cert" in client else None,
    )
    return parse_date(answer.headers)


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, then what it was raised from, the first cause last."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _error_text(error: BaseException) -> str:
    return _shorten(str(error) or type(error).__name__)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]} ..."


@contextmanager
def told_by_java(connections: Connections) -> Iterator[None]:
    """Raise Misconfigured instead of a Java exception of the block: Java reaches none of the
    catalogs that PyIceberg has reached."""
    try:
        yield
    except Py4JJavaError as error:
        first = next(iter(connections.values()))
        raise refused_by_java(error.java_exception, first) from None


def refused_by_java(throwable: Any, connection: CatalogConnection) -> Misconfigured:
    """Return the Misconfigured for a Java exception whose JVM still runs."""
    text = root_cause(throwable)
    remedy = remedy_of_java(text, connection)
    return Misconfigured(f"catalog {connection.name}, by Java: {text}: {remedy}")


def root_cause(throwable: Any) -> str:
    """Return the text of a Java exception's first cause."""
    cause = throwable
    while (deeper := cause.getCause()) is not None:
        cause = deeper
    return _shorten(str(cause.toString()))


def remedy_of_java(text: str, connection: CatalogConnection) -> str:
    """Return what to do about a Java exception of a catalog or its storage."""
    where = f"[catalogs.{connection.name}]"
    if any(name in text for name in MISSING):
        return f"run `firnline jars --s3` (--gcs, --adls) and set {VARIABLE} to what it prints"
    if "Unable to load credentials" in text:
        return f"let the catalog hand out keys to Java as well, or set s3.access-key-id in {where}"
    if "PKIX" in text or "SSLHandshake" in text or "CertPath" in text:
        return f"ssl.cabundle of {where} names a PEM file with the CA of its certificate"
    return f"compare {where} with docs/deploy/connect-a-catalog.md: PyIceberg has reached it"
