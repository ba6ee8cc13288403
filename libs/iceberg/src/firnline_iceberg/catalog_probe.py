"""Does the catalog answer, and let us in? Asked at a service's start, and by `firnline doctor`.

A catalog that refuses us is somebody's to mend: the service says so and ends. One that does not
answer may come back: it waits, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import requests
from firnline_adapters.logs import Log
from firnline_domain.errors import Misconfigured
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    OAuthError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from firnline_iceberg.connection import CatalogConnection
from firnline_iceberg.tables import Tables

AGAIN_S = 10.0  # between two lines that say that we wait
TRY_S = 10.0
MAX_CHARS = 300
_PASSING = (ServerError, ServiceUnavailableError, TooManyRequestsError)


@dataclass(frozen=True)
class Cause:
    """Why a catalog did not do what it was asked for. `may_pass`: nobody has to change anything."""

    text: str
    remedy: str
    may_pass: bool = False


def configuration(connection: CatalogConnection) -> Mapping[str, str]:
    """Our properties with what `/v1/config` says over and under them. Raises what PyIceberg
    raises, see `cause_of`."""
    return {
        name: value
        for name, value in Tables(connection).client.properties.items()
        if isinstance(value, str)
    }


def require_catalog(
    connection: CatalogConnection, log: Log, sleep: Callable[[float], None] = time.sleep
) -> Mapping[str, str]:
    """Its configuration, once it has answered. Raises Misconfigured where it refuses us."""
    while True:
        try:
            return configuration(connection)
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


def cause_of(error: BaseException, connection: CatalogConnection) -> Cause:
    """What is behind an exception of a client of PyIceberg's, and what to do."""
    where, chain = f"[catalogs.{connection.name}]", list(_chain(error))
    text = f"{_said(chain[-1])}"
    for one in chain:
        if isinstance(one, OAuthError):
            return Cause(
                f"no token: {_said(one)}",
                f"credential, oauth2-server-uri and scope of {where} are not what it knows, or the "
                "secret has ended",
            )
        if isinstance(one, UnauthorizedError | AuthorizationExpiredError):
            return Cause(
                f"401, it does not take who we are ({connection.auth}): {_said(one)}",
                f"credential, token or header.Authorization of {where} are not, or no longer, what "
                "it knows",
            )
        if isinstance(one, ForbiddenError):
            return Cause(
                f"403, it does not let us: {_said(one)}",
                f"give the principal of {where} this right in the catalog; scope says as what role",
            )
        if isinstance(one, requests.exceptions.SSLError):
            return Cause(
                f"TLS: {_said(one)}",
                f"ssl.cabundle of {where} names a PEM file with the CA of its certificate; uri "
                "begins with https:// where it speaks TLS",
            )
        if isinstance(one, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
            break
        if isinstance(one, requests.RequestException | OSError):
            return Cause(
                _said(one),
                f"uri of {where} names the gateway, or the catalog; is it running, and may this "
                "host connect to it?",
                may_pass=True,
            )
        if isinstance(one, _PASSING):
            return Cause(_said(one), f"see the log of the catalog behind uri of {where}", True)
    said = f"warehouse={connection.warehouse}" if connection.warehouse else "no warehouse is given"
    return Cause(
        f"{text} ({said})",
        f"warehouse of {where} is one of the catalog's, by its name there; uri is what its clients "
        "use, with its path (/api/catalog, /iceberg ...)",
    )


def clock_of(connection: CatalogConnection) -> float | None:
    """Its clock, in seconds since 1970, as the HTTP answer is dated; None where it is not. Raises
    requests.RequestException."""
    tls = connection.pyiceberg().get("ssl", {})
    answer = requests.get(
        f"{connection.uri.rstrip('/')}/v1/config", timeout=TRY_S, verify=tls.get("cabundle", True)
    )
    return date_of(answer.headers)


def date_of(headers: Mapping[str, str]) -> float | None:
    """Of HTTP's `Date`."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Itself, then what it was raised from, the first cause last."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} ..."
