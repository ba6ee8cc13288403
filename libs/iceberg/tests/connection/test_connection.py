"""One description of a catalog, in the words of three clients."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.errors import Misconfigured
from firnline_iceberg.connection.connection import CatalogConnection, connection_of
from firnline_iceberg.connection.properties import ALIASES, NAMES

URI = "http://g:8181"
TOKEN = {"rest.auth.type": "oauth2"}  # what Java is told besides
# What is given -> what PyIceberg is told, what Java is told.
SAME: dict[str, str] = {
    "warehouse": "prod",
    "prefix": "main",
    "namespace-separator": "%2E",
    "header.X-Tenant": "a b",
    "s3.endpoint": "http://s3:7070",
    "s3.access-key-id": "AK",
    "s3.secret-access-key": "SK",
    "s3.session-token": "ST",
    "client.region": "eu-west-1",
    "gcs.oauth2.token": "g",
    "gcs.oauth2.token-expires-at": "17",
    "gcs.project-id": "p",
    "gcs.service.host": "http://gcs:4443",
    "rest-page-size": "10",
    "view-endpoints-supported": "false",
    "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
}
OAUTH = {
    "credential": "id:secret",
    "oauth2-server-uri": "http://idp/token",
    "scope": "PRINCIPAL_ROLE:ALL",
    "audience": "lake",
    "resource": "http://lake",
    "token": "t",
    "token-expires-in-ms": "3600000",
    "token-refresh-enabled": "true",
    "token-exchange-enabled": "false",
}
CASES: list[tuple[dict[str, str], dict[str, Any], dict[str, str]]] = [
    *(({name: one}, {name: one}, {name: one}) for name, one in SAME.items()),
    (OAUTH, OAUTH, {**OAUTH, **TOKEN}),
    ({"token": "t"}, {"token": "t"}, {"token": "t", **TOKEN}),
    ({"credential": "a:b"}, {"credential": "a:b"}, {"token-exchange-enabled": "false"}),
    ({"client.region": "r"}, {"s3.region": "r"}, {"client.region": "r"}),
    (
        {"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"},
        {"auth": {"type": "basic", "basic": {"username": "u", "password": "p"}}},
        {"rest.auth.type": "basic", "rest.auth.basic.username": "u"},
    ),
    (
        {
            "rest.sigv4-enabled": "true",
            "rest.signing-region": "r",
            "rest.signing-name": "glue",
            "rest.access-key-id": "ak",
        },
        {
            "rest.sigv4-enabled": "true",
            "rest.signing-region": "r",
            "rest.signing-name": "glue",
            "client.access-key-id": "ak",
        },
        {
            "rest.auth.type": "sigv4",
            "rest.signing-region": "r",
            "rest.signing-name": "glue",
            "rest.access-key-id": "ak",
        },
    ),
    (
        {"ssl.cabundle": "/ca", "ssl.client.cert": "/c", "ssl.client.key": "/k"},
        {"ssl": {"cabundle": "/ca", "client": {"cert": "/c", "key": "/k"}}},
        {},  # the JVM's
    ),
    ({"s3.endpoint": "http://s3"}, {}, {"s3.path-style-access": "true"}),
    (
        {"s3.path-style-access": "false"},
        {"s3.force-virtual-addressing": "true"},
        {"s3.path-style-access": "false"},
    ),
    (
        {"s3.force-virtual-addressing": "true"},
        {"s3.force-virtual-addressing": "true"},
        {"s3.path-style-access": "false"},
    ),
    (
        {"s3.role-arn": "arn", "s3.role-session-name": "me", "s3.region": "r"},
        {"s3.role-arn": "arn", "s3.role-session-name": "me"},
        {
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.assume-role.arn": "arn",
            "client.assume-role.session-name": "me",
            "client.assume-role.region": "r",
        },
    ),
    (  # as Iceberg's documentation has it
        {
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.assume-role.arn": "arn",
            "client.assume-role.region": "r",
        },
        {"s3.role-arn": "arn"},
        {
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.assume-role.arn": "arn",
            "client.assume-role.region": "r",
        },
    ),
    (
        {"s3.anonymous": "true"},
        {"s3.anonymous": "true"},
        {
            "client.credentials-provider": (
                "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
            )
        },
    ),
    ({"s3.proxy-uri": "http://p"}, {"s3.proxy-uri": "http://p"}, {"http-client.proxy-endpoint": "http://p"}),
    (
        {"adls.account-name": "a", "adls.account-key": "k"},
        {"adls.account-name": "a", "adls.account-key": "k"},
        {"adls.auth.shared-key.account.name": "a", "adls.auth.shared-key.account.key": "k"},
    ),
    (
        {"adls.account-name": "a", "adls.sas-token": "s"},
        {"adls.account-name": "a", "adls.sas-token": "s"},
        {"adls.sas-token.a": "s"},
    ),
    ({"type": "rest"}, {}, {"type": "rest"}),
    ({"py-io-impl": "x.Y"}, {"py-io-impl": "x.Y"}, {}),
    ({}, {"header.Firnline-Maintenance": "true"}, {"header.Firnline-Maintenance": "true"}),
    (
        {},
        {"header.X-Iceberg-Access-Delegation": "vended-credentials"},
        {"header.X-Iceberg-Access-Delegation": "vended-credentials"},
    ),
    (
        {"header.x-iceberg-access-delegation": "none"},
        {"header.X-Iceberg-Access-Delegation": None},
        {},
    ),
]  # fmt: skip


SIGNS = {"firnline.upstream.rest.sigv4-enabled": "true"}


@pytest.mark.parametrize(("given", "python", "java"), CASES)
def test_all_clients_are_told_the_same(
    given: dict[str, str], python: dict[str, Any], java: dict[str, str]
) -> None:
    found = CatalogConnection("lake", {"uri": URI, **given})
    assert python.items() <= found.pyiceberg_properties().items()
    assert java.items() <= found.java_properties().items()
    settings = {
        f"spark.sql.catalog.lake.{name}": one for name, one in found.java_properties().items()
    }
    assert settings.items() <= found.spark_settings().items()
    assert len(found.spark_settings()) == len(settings) + 2  # the class, and that nothing is cached


def test_every_word_is_tried() -> None:
    tried = {name for given, _, _ in CASES for name in given} | {"uri", "snapshot-loading-mode"}
    assert tried >= NAMES
    assert set(ALIASES.values()) - tried <= {"rest.auth.type"}


@pytest.mark.parametrize(("alias", "word"), ALIASES.items())
def test_another_spelling_is_the_same(alias: str, word: str) -> None:
    value = "basic" if word == "rest.auth.type" else "v"
    rest = {"rest.auth.basic.username": value, "rest.auth.basic.password": value}
    told = {"uri": URI, **(rest if ".basic." in word or value == "basic" else {})}
    told |= {"client.region": value} if word == "s3.role-arn" else {}
    one, other = ({**told, name: value} for name in (alias, word))
    one.pop(word, None) if alias in one and word in rest else None
    assert (
        CatalogConnection("lake", one).java_properties()
        == CatalogConnection("lake", other).java_properties()
    )


def test_what_is_pyicebergs_alone_does_not_reach_java() -> None:
    given = {"uri": URI, "ssl.cabundle": "/ca", "py-io-impl": "x.Y", "s3.resolve-region": "true"}
    found = CatalogConnection("lake", given).java_properties()
    assert not {name for name in found if name.startswith(("ssl", "py-", "s3."))}


def test_a_user_in_the_uri_is_a_header() -> None:
    found = connection_of("http://me:s%3At@g:8181/x")
    assert (
        found.uri
        == "http://g:8181/x"
        == found.java_properties()["uri"]
        == found.pyiceberg_properties()["uri"]
    )
    assert found.java_properties()["header.Authorization"] == "Basic bWU6czp0"
    assert "s%3At" not in f"{found!r} {found}"


@pytest.mark.parametrize(
    "name",
    ["credential", "token", "s3.secret-access-key", "s3.session-token", "header.X-Api-Key",
     "rest.auth.basic.password", "adls.account-key", "gcs.oauth2.token", "rest.secret-access-key",
     "adls.sas-token", "firnline.upstream.rest.secret-access-key", "firnline.callers"],
)  # fmt: skip
def test_a_secret_is_not_shown(name: str) -> None:
    rest = {"rest.auth.basic.username": "u"} if "basic" in name else {}
    signs = {**SIGNS, "firnline.callers": "spark 1"} if name.startswith("firnline.") else {}
    found = CatalogConnection("lake", {"uri": URI, **signs, name: "cAnAry", **rest})
    assert "cAnAry" not in f"{found!r} {found}"
    assert name in str(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"wharehouse": "x"}, "wharehouse: no such property; did you mean warehouse?"),
        ({"type": "hive"}, "type: Firnline speaks to REST catalogs, not to hive"),
        ({"s3.signer": "S3V4RestSigner"}, "remote signing is not supported"),
        ({"s3.remote-signing-enabled": "true"}, "remote signing is not supported"),
        ({"header.X-Iceberg-Access-Delegation": "remote-signing"}, "remote signing"),
        ({"client.factory": "com.acme.Factory"}, "assumed by both with s3.role-arn"),
        ({"s3.sse.type": "kms"}, "default encryption"),
        ({"snapshot-loading-mode": "refs"}, "Firnline decides"),
        ({"firnline.typo": "x"}, "there is no such one"),
        ({"rest.auth.type": "kerberos"}, "write one of none, basic, oauth2, sigv4"),
        ({"rest.auth.type": "oauth2"}, "needs credential or token"),
        ({"rest.auth.basic.username": "u"}, "go together"),
        ({"credential": "a:b", "rest.sigv4-enabled": "true"}, "one way to say who we are"),
        ({"token": "t", "header.authorization": "x"}, "one way to say who we are"),
        ({"s3.region": "a", "client.region": "b"}, "client.region and s3.region differ"),
        ({"ssl.client.key": "/k"}, "goes with ssl.client.cert"),
        ({"adls.client-secret": "x"}, "AZURE_CLIENT_SECRET"),
        ({"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"}, "contradict"),
        ({"s3.role-arn": "a", "s3.access-key-id": "k"}, "credentials of the environment"),
        ({"client.assume-role.arn": "a", "client.access-key-id": "k"}, "take the keys out"),
        ({"s3.role-arn": "a"}, "s3.role-arn: client.region is missing"),
        (SIGNS, "firnline.callers is missing"),
        ({**SIGNS, "firnline.callers": "a 1", "rest.sigv4-enabled": "true"}, "ends at the gateway"),
        ({"firnline.callers": "a 1"}, "goes with firnline.upstream.rest.sigv4-enabled = true"),
        ({"firnline.upstream.rest.signing-name": "glue"}, "goes with firnline.upstream.rest.sigv4"),
        ({"firnline.upstream.rest.sigv4-enabled": "yes"}, "say true or false"),
        ({"firnline.upstream.token": "t"}, "there is no such one"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        CatalogConnection("lake", {"uri": URI, **given})
    assert said in str(caught.value)


def test_a_gateway_that_signs_says_to_the_catalog_what_is_its_own() -> None:
    services = {"header.Authorization": "Bearer t", "ssl.cabundle": "/gateway.pem"}
    gateways = {**SIGNS, "firnline.callers": "spark 1", "firnline.upstream.client.region": "eu"}
    given = {"uri": URI, "warehouse": "w", "header.X-Tenant": "a", **services, **gateways}
    found = CatalogConnection("lake", given).behind_gateway("https://glue")
    assert found.properties == {
        "uri": "https://glue",
        "warehouse": "w",
        "header.X-Tenant": "a",
        "rest.sigv4-enabled": "true",
        "client.region": "eu",
    }
    assert found.auth == "sigv4"


def test_before_any_other_gateway_both_are_told_the_same() -> None:
    given = {"uri": URI, "credential": "a:b", "ssl.cabundle": "/ca"}
    found = CatalogConnection("lake", given).behind_gateway("https://catalog")
    assert found.properties == {**given, "uri": "https://catalog"}


def test_a_connection_without_a_uri_is_refused() -> None:
    with pytest.raises(Misconfigured, match="uri is missing"):
        CatalogConnection("lake", {"warehouse": "x"})
