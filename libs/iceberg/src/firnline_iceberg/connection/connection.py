"""Describe how a catalog and its storage are reached: one description, and what it is for
PyIceberg, for Iceberg's Java client and for Spark.

What Firnline decides itself is in all three: who reads (`MARK`), that all snapshots are wanted,
that the catalog hands out credentials of the storage."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from firnline_adapters.config.redaction import MASK, SECRET_NAME, redact
from firnline_domain.commits.load_header import MARK
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import canonical_prefix

from firnline_iceberg.connection import properties as words

NAME: Final = "lake"  # of a catalog that is given by its URI alone
SPARK_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
UNREPORTED: Final = "rest-metrics-reporting-enabled"  # Iceberg's clients say `true` unless told
WHOLE: Final = ("snapshot-loading-mode", "all")
"""A catalog's defaults may say `refs`. Where its overrides do, Java loads the rest of the snapshots
when it needs them, which PyIceberg does not (`table.catalog_client`)."""
_ANONYMOUS = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
_JAVA_NAMES = {
    "adls.account-name": "adls.auth.shared-key.account.name",
    "adls.account-key": "adls.auth.shared-key.account.key",
    "s3.proxy-uri": "http-client.proxy-endpoint",
}
_OF_SERVICE = ("ssl.", "rest.auth.", "header.authorization", "firnline.")
_PYTHON_ALONE = ("ssl.", "py-io-impl", "hdfs.", "s3.resolve-region", "s3.request-timeout")


@dataclass(frozen=True)
class CatalogConnection:
    """One catalog: its name in Firnline, and properties in Iceberg's words (`properties`).
    Secrets are not shown. Raises Misconfigured."""

    name: str
    properties: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.properties.get("uri"):
            raise Misconfigured("uri is missing: the address of the REST catalog, or of a gateway")
        object.__setattr__(self, "properties", words.normalize(self.properties))

    @property
    def uri(self) -> str:
        """Return the URI without user and password."""
        return self._place_and_user[0]

    @property
    def warehouse(self) -> str | None:
        """Return the warehouse that is sent to `/v1/config`."""
        return self.properties.get("warehouse")

    @property
    def token_server(self) -> str:
        """Return the server of OAuth2's tokens: the catalog itself where none is set."""
        own = f"{self.uri.rstrip('/')}/v1/oauth/tokens"
        return self.properties.get("oauth2-server-uri") or own

    @property
    def auth(self) -> str:
        """Return the kind of authentication: none, basic, oauth2 or sigv4."""
        given = self.properties
        if given.get(words.SIGV4) == "true":
            return "sigv4"
        if said := given.get(words.AUTH_TYPE):
            return said
        if given.get("credential") or given.get("token"):
            return "oauth2"
        return "basic" if given.get(words.USERNAME) else "none"

    @cached_property
    def _place_and_user(self) -> tuple[str, str]:
        """A URI ends up in error texts and in Spark's settings, and Java's clients refuse one that
        names a user."""
        parts = urlsplit(self.properties["uri"])
        user, _, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=host).geturl() if user else self.properties["uri"], user

    @property
    def place(self) -> tuple[str, str, str]:
        """Name, address and prefix: where one name is one table, and its keys are one table's."""
        return self.name, self.uri, self.properties.get("prefix", "")

    @property
    def other_prefixes(self) -> tuple[str, ...]:
        """`firnline.prefixes`, each as tables have it."""
        texts = self.properties.get(words.OTHER_PREFIXES, "").split(",")
        return tuple(filter(None, (canonical_prefix(one.strip()) for one in texts)))

    def with_properties(self, **properties: str) -> CatalogConnection:
        """Return the same catalog with these properties replaced."""
        return replace(self, properties={**self.properties, **properties})

    def at_uri(self, uri: str) -> CatalogConnection:
        """Return the same catalog by another way to it."""
        return replace(self, properties={**self.properties, "uri": uri})

    def behind_gateway(self, uri: str) -> CatalogConnection:
        """Return the same catalog at this URI for the gateway. If the gateway signs its calls,
        without the service's own identity and with the gateway's."""
        if not self.signs_upstream:
            return self.at_uri(uri)
        given = {name: one for name, one in self.properties.items() if not _is_of_service(name)}
        own = {
            name.removeprefix(words.OF_UPSTREAM): one
            for name, one in self.properties.items()
            if name.startswith(words.OF_UPSTREAM)
        }
        return CatalogConnection(self.name, {**given, **own, "uri": uri})

    @property
    def signs_upstream(self) -> bool:
        """Return True if the gateway signs what it passes on to this catalog (decision 0100)."""
        return self.properties.get(words.UPSTREAM_SIGNS) == "true"

    def request_headers(self) -> dict[str, str]:
        """Return the HTTP headers of every request, besides those of an identity (`auth`)."""
        given = self._common_properties()
        return {name[7:]: one for name, one in given.items() if name.startswith("header.")}

    def basic_header(self) -> dict[str, str]:
        """Return the header of a user and password; {} if it has none."""
        user, password = (self.properties.get(one) for one in (words.USERNAME, words.PASSWORD))
        return {"Authorization": _basic_value(f"{user}:{password}")} if user else {}

    def pyiceberg_properties(self) -> dict[str, Any]:
        """Return the properties of PyIceberg's `RestCatalog`; `auth` and `ssl` are mappings."""
        given = self._common_properties()
        found: dict[str, Any] = {
            name: one for name, one in given.items() if not name.startswith(("ssl.", "rest.auth."))
        }
        if words.REGION in given:
            found["s3.region"] = given[words.REGION]
        if (style := given.get(words.PATH_STYLE)) is not None:
            found["s3.force-virtual-addressing"] = str(style.lower() == "false").lower()
        if self.auth == "basic":
            user = {"username": given[words.USERNAME], "password": given[words.PASSWORD]}
            found["auth"] = {"type": "basic", "basic": user}
        if self.auth == "sigv4":
            found[words.SIGV4] = "true"
            for name in ("access-key-id", "secret-access-key", "session-token"):
                if own := given.get(f"rest.{name}"):
                    found[f"client.{name}"] = own
        if tls := self._tls_properties():
            found["ssl"] = tls
        if found[words.DELEGATION] == words.NOT_ASKED:
            found[words.DELEGATION] = None  # PyIceberg would send its own word
        return found

    def java_properties(self) -> dict[str, str]:
        """Return the properties of Iceberg's Java `RESTCatalog`, without TLS files, which are
        settings of the JVM (`java.tls`)."""
        given = self._common_properties()
        found = {
            _JAVA_NAMES.get(name, name): one
            for name, one in given.items()
            if not name.startswith(_PYTHON_ALONE)
        }
        found |= {"type": "rest", UNREPORTED: "false", WHOLE[0]: WHOLE[1]}
        found[words.AUTH_TYPE] = self.auth
        found.pop(words.SIGV4, None)
        if "credential" in found:  # ask again with it, which every server understands
            found.setdefault("token-exchange-enabled", "false")
        if self.auth == "oauth2":
            found.setdefault("oauth2-server-uri", self.token_server)
        if found[words.DELEGATION] == words.NOT_ASKED:
            del found[words.DELEGATION]
        if virtual := found.pop("s3.force-virtual-addressing", None):
            found[words.PATH_STYLE] = str(virtual.lower() == "false").lower()
        if "s3.endpoint" in found:  # Arrow's way with an endpoint of one's own
            found.setdefault(words.PATH_STYLE, "true")
        if role := found.pop("s3.role-arn", None):
            found |= {words.FACTORY: words.ASSUME_ROLE, "client.assume-role.arn": role}
            if words.REGION in found:
                found.setdefault(words.ROLE_REGION, found[words.REGION])
        if session := found.pop("s3.role-session-name", None):
            found["client.assume-role.session-name"] = session
        if found.pop("s3.anonymous", "").lower() == "true":
            found["client.credentials-provider"] = _ANONYMOUS
        if token := found.pop("adls.sas-token", None):
            account = found.get("adls.auth.shared-key.account.name", "")
            found[f"adls.sas-token.{account}".rstrip(".")] = token
        return found

    def spark_settings(self) -> dict[str, str]:
        """Return the settings of a Spark session in which the catalog has its name. They hold
        secrets, so set them in the running session, never on a command line."""
        prefix = f"spark.sql.catalog.{self.name}"
        settings = {
            **self.java_properties(),
            "cache-enabled": "false",
        }  # each task sees the table as it is
        return {prefix: SPARK_CATALOG} | {f"{prefix}.{one}": settings[one] for one in settings}

    def _common_properties(self) -> dict[str, str]:
        place, user = self._place_and_user
        given = {**MARK, words.DELEGATION: words.VENDED, **self.properties, "uri": place}
        if user:
            given["header.Authorization"] = _basic_value(unquote(user))
        return {name: one for name, one in given.items() if not name.startswith("firnline.")}

    def _tls_properties(self) -> dict[str, Any]:
        given = self.properties
        client = {
            name: given[word]
            for name, word in (("cert", words.CLIENT_CERT), ("key", words.CLIENT_KEY))
            if word in given
        }
        found: dict[str, Any] = {"client": client} if client else {}
        if words.CA_BUNDLE in given:
            found["cabundle"] = given[words.CA_BUNDLE]
        return found

    def __str__(self) -> str:
        shown = " ".join(
            f"{one}={_shown_value(one, self.properties[one])}" for one in self.properties
        )
        return f"{self.name}: {shown}"

    def __repr__(self) -> str:
        return f"CatalogConnection({self})"


Catalog = CatalogConnection | str  # a text: the URI of a catalog that asks for nothing


def connection_of(catalog: Catalog) -> CatalogConnection:
    """Return the connection of a URI; a connection is returned as it is."""
    return CatalogConnection(NAME, {"uri": catalog}) if isinstance(catalog, str) else catalog


def _basic_value(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


def _is_of_service(name: str) -> bool:
    """Return True for properties that services send to a gateway that signs, and that are the
    service's and not the catalog's."""
    return name in words.OF_OAUTH2 or name.lower().startswith(_OF_SERVICE)


def _shown_value(name: str, value: str) -> str:
    if SECRET_NAME.search(name) or name.startswith("header.") or name == words.CALLERS:
        return MASK
    return redact(value)
