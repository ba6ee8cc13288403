"""The words in which a catalog is described, and what PyIceberg and Java call the same thing.

Most are the same for both. `ALIASES` are other spellings that users bring along; where both are
given and differ, that is an error. What only one side could obey would make the two read or write
differently, so it is refused (`REFUSED`), with what to do instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from firnline_domain.errors import Misconfigured

AUTH_TYPE: Final = "rest.auth.type"
USERNAME: Final = "rest.auth.basic.username"
PASSWORD: Final = "rest.auth.basic.password"
SIGV4: Final = "rest.sigv4-enabled"
CA_BUNDLE: Final = "ssl.cabundle"
CLIENT_CERT: Final = "ssl.client.cert"
CLIENT_KEY: Final = "ssl.client.key"
DELEGATION: Final = "header.X-Iceberg-Access-Delegation"
FACTORY: Final = "client.factory"
ASSUME_ROLE: Final = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
ROLE_REGION: Final = "client.assume-role.region"
VENDED: Final = "vended-credentials"
NOT_ASKED: Final = "none"  # for a catalog that refuses who asks for them and may not have them
REGION: Final = "client.region"
PATH_STYLE: Final = "s3.path-style-access"
UPSTREAM: Final = "firnline.upstream-uri"
OF_UPSTREAM: Final = "firnline.upstream."  # before what the gateway alone says to the catalog
UPSTREAM_SIGNS: Final = f"{OF_UPSTREAM}{SIGV4}"
ARCHIVES: Final = "firnline.archives"
"""Where archives may be besides their table's namespace and the catalog's default place: locations
below which they may lie, and pairs of namespaces `shop>cold`; comma-separated."""
EXTERNAL: Final = "firnline.external-files"
"""Locations, comma-separated, below which files outside a table's own may be removed by its expiry,
where its owner agrees and no other table has its places there."""
UNREADABLE: Final = "firnline.unreadable-tables"
"""Tables, comma-separated (`shop.broken`), that the operator declares to share no file with others:
if one of them cannot be loaded, removal in other tables goes on."""
OTHER_PREFIXES: Final = "firnline.prefixes"
"""Prefixes, comma-separated, under which the connection has tables besides its own prefix: before a
removal they are asked for tables that may share files."""
CALLERS: Final = "firnline.callers"  # whom a gateway that signs serves: lines of name and token

ALIASES: Final = {
    "auth.type": AUTH_TYPE,
    "auth.basic.username": USERNAME,
    "auth.basic.password": PASSWORD,
    "auth.oauth2.token_url": "oauth2-server-uri",
    "auth.oauth2.scope": "scope",
    "s3.region": REGION,
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "client.role-arn": "s3.role-arn",
    "client.assume-role.arn": "s3.role-arn",
    "client.role-session-name": "s3.role-session-name",
    "client.session-name": "s3.role-session-name",
    "client.assume-role.session-name": "s3.role-session-name",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "http-client.proxy-endpoint": "s3.proxy-uri",
}
OF_OAUTH2: Final = frozenset(
    {
        *("credential", "token", "oauth2-server-uri", "scope", "audience", "resource"),
        *("token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled"),
    }
)
# Names without a dot are few, so a misspelt one is found; below these anything may be given.
NAMES: Final = OF_OAUTH2 | {
    *("type", "uri", "warehouse", "prefix", "snapshot-loading-mode", "namespace-separator"),
    *("io-impl", "py-io-impl", "rest-page-size", "view-endpoints-supported"),
}
PREFIXES: Final = (
    *("header.", "rest.", "ssl.", "auth.", "s3.", "adls.", "gcs.", "client.", "hdfs."),
    *("http-client.", "io.", "kms.", "firnline."),
)
_OF_SIGNING = (
    *(SIGV4, "rest.signing-region", "rest.signing-name", "rest.access-key-id"),
    *("rest.secret-access-key", "rest.session-token", REGION, CA_BUNDLE),
)
OURS: Final = frozenset(
    {UPSTREAM, CALLERS, ARCHIVES, EXTERNAL, UNREADABLE, OTHER_PREFIXES}
    | {f"{OF_UPSTREAM}{one}" for one in _OF_SIGNING}
)
AUTH_TYPES: Final = ("none", "basic", "oauth2", "sigv4")
_SIGN = "Firnline reads and writes with credentials that the catalog hands out, or with static ones"
REFUSED: Final = {
    "s3.signer": f"remote signing is not supported: {_SIGN}",
    "s3.signer.uri": f"remote signing is not supported: {_SIGN}",
    "s3.signer.endpoint": f"remote signing is not supported: {_SIGN}",
    "s3.profile-name": "set AWS_PROFILE in the environment; Arrow's file system reads that",
    "client.profile-name": "set AWS_PROFILE in the environment; Arrow's file system reads that",
    FACTORY: "Python has no such classes; a role is assumed by both with s3.role-arn",
    "client.assume-role.external-id": "PyIceberg cannot send it; let the catalog hand keys out",
    "adls.client-id": "set AZURE_CLIENT_ID in the environment; Java has no property for it",
    "adls.client-secret": "set AZURE_CLIENT_SECRET in the environment; Java has no property for it",
    "adls.tenant-id": "set AZURE_TENANT_ID in the environment; Java has no property for it",
    "adls.connection-string": "give adls.account-name and adls.account-key, or adls.sas-token",
    "auth.impl": "classes of PyIceberg's have no twin in Java",
    "snapshot-loading-mode": "Firnline decides this one: it needs all snapshots",
    "rest-metrics-reporting-enabled": "Firnline decides this one: its reads are not user queries",
}
_SSE = re.compile(r"s3\.(sse\..*|server-side-encryption|sse-kms-key-id)")
_TRUE = {"true": True, "false": False}


def normalize(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties in the words of this module: aliases replaced, PyIceberg's `auth` taken
    apart. Raises Misconfigured, a line for each that is unknown, refused or contradicts another
    one."""
    given, wrong = {**properties}, list[str]()
    _oauth2(given)
    if given.get(FACTORY) == ASSUME_ROLE:  # follows from the role, for Java
        del given[FACTORY]
    found = dict[str, str]()
    for name, value in given.items():
        word = _canonical_name(name)
        if word in found and found[word] != value:
            wrong.append(
                f"{name} and {_describe_given(word, given, name)} differ: take one of them out"
            )
        found[word] = value
    wrong += [f"{name}: {why}" for name in found if (why := _find_refusal(name, found[name]))]
    wrong += _find_contradictions(found)
    if wrong:
        raise Misconfigured("\n".join(wrong))
    return found


def _canonical_name(name: str) -> str:
    return DELEGATION if name.lower() == DELEGATION.lower() else ALIASES.get(name, name)


def _describe_given(word: str, given: Mapping[str, str], but: str) -> str:
    names = [name for name in given if name != but and _canonical_name(name) == word]
    return names[0] if names else word


def _oauth2(given: dict[str, str]) -> None:
    """Replace PyIceberg's `auth.oauth2.client_id` and `client_secret` by Iceberg's `credential`."""
    secret = given.pop("auth.oauth2.client_secret", None)
    client = given.pop("auth.oauth2.client_id", None)
    if secret is not None:
        given.setdefault("credential", secret if client is None else f"{client}:{secret}")


def _find_refusal(name: str, value: str) -> str:
    """Return why a catalog property is refused, with what to write instead; '' if it is
    accepted."""
    if name in REFUSED:
        return REFUSED[name]
    if _SSE.fullmatch(name):
        return "Arrow's writer cannot ask for it; set the bucket's default encryption"
    if name == "s3.remote-signing-enabled" and value != "false":
        return REFUSED["s3.signer"]
    if name == DELEGATION and value not in (VENDED, NOT_ASKED):
        return f"write {VENDED}, or {NOT_ASKED}: {REFUSED['s3.signer']}"
    if name == "type" and value != "rest":
        return f"Firnline speaks to REST catalogs, not to {value}"
    if name == AUTH_TYPE and value not in AUTH_TYPES:
        return f"write one of {', '.join(AUTH_TYPES)}"
    if name in (SIGV4, UPSTREAM_SIGNS) and value not in _TRUE:
        return "say true or false"
    if name in NAMES or name.startswith(PREFIXES):
        return "" if not name.startswith("firnline.") or name in OURS else "there is no such one"
    close = difflib.get_close_matches(name, NAMES)
    return f"no such property{_join_alternatives(close)}"


def _join_alternatives(close: Iterable[str]) -> str:
    return "".join(f"; did you mean {one}?" for one in [*close][:1])


def _find_contradictions(found: Mapping[str, str]) -> list[str]:
    ways = [way for way, names in _WAYS.items() if any(found.get(one) for one in names)]
    if found.get(SIGV4) == "true":
        ways.append("sigv4")
    ways += [name for name in found if name.lower() == "header.authorization"]
    wrong = []
    said = found.get(AUTH_TYPE)
    if len(ways) > 1:
        wrong.append(f"{' and '.join(ways)}: one way to say who we are, not {len(ways)}")
    elif said and ways and said != ways[0]:
        wrong.append(f"{AUTH_TYPE} = {said}, and properties of {ways[0]}: take one of them out")
    elif said in ("basic", "oauth2") and not ways:
        wrong.append(f"{AUTH_TYPE} = {said} needs {' or '.join(_WAYS[said])}")
    if "basic" in ways and not (found.get(USERNAME) and found.get(PASSWORD)):
        wrong.append(f"{USERNAME} and {PASSWORD} go together")
    if found.get(CLIENT_KEY) and not found.get(CLIENT_CERT):
        wrong.append(f"{CLIENT_KEY} goes with {CLIENT_CERT}")
    wrong += _signing_contradictions(found)
    virtual = found.get("s3.force-virtual-addressing")
    if virtual is not None and found.get(PATH_STYLE, "").lower() == virtual.lower():
        wrong.append(f"{PATH_STYLE} and s3.force-virtual-addressing contradict each other")
    if found.get("s3.role-arn") and found.get("s3.access-key-id"):
        wrong.append(_ROLE)  # Arrow refuses both at the first file, Iceberg's Java passes over keys
    if found.get("s3.role-arn") and not (found.get(REGION) or found.get(ROLE_REGION)):
        wrong.append(f"s3.role-arn: {REGION} is missing; Iceberg's Java assumes no role without it")
    return wrong


def _signing_contradictions(found: Mapping[str, str]) -> list[str]:
    """Return the contradictions of a gateway that signs what it passes on."""
    if found.get(UPSTREAM_SIGNS) != "true":
        needless = [name for name in found if name == CALLERS or name.startswith(OF_UPSTREAM)]
        needless = [name for name in needless if name != UPSTREAM_SIGNS]
        return [f"{name} goes with {UPSTREAM_SIGNS} = true" for name in needless]
    wrong = []
    if not found.get(CALLERS):
        wrong.append(
            f"{CALLERS} is missing: a gateway that signs gives its rights to every caller; "
            "write a line with name and token for each"
        )
    if found.get(SIGV4) == "true":
        wrong.append(
            f"{SIGV4} and {UPSTREAM_SIGNS}: a signature ends at the gateway; services say who "
            "they are to it by header.Authorization"
        )
    return wrong


_ROLE: Final = (
    "s3.role-arn and s3.access-key-id: a role is assumed with the credentials of the environment "
    "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or an instance's or pod's), so take the keys out"
)
_WAYS: Final = {"basic": (USERNAME, PASSWORD), "oauth2": ("credential", "token")}
