"""The one answer that a transparent proxy must change: `/v1/config`.

A catalog that returns its own `uri` takes its clients away from us: both PyIceberg and Java go
on with the overridden URI (seen with Nessie 0.99: table created, rows written, no call passed
through). Everything but those values stays as it was, byte for byte; `prefix` is not touched.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from cachetools import FIFOCache
from firnline_domain.identity import canonical_prefix

from firnline_gateway.rest.routes import SPEC_SEPARATOR

# `defaults` and `overrides` are flat maps of texts, so the key can stand nowhere else.
MAX_WAYS = 1_000
MAX_WAY = 2_048  # characters, with the prefix
_URI = re.compile(rb'("uri"\s*:\s*)("(?:[^"\\]|\\.)*")')


def rewrite_uris(body: bytes, upstream: str, client: str, mount: str = "") -> bytes:
    """Return the body with every `uri` in it changed to the gateway. `upstream` is the catalog's
    base URI as the gateway calls it, `client` the base that this client used for the gateway. A
    path below `mount` of the gateway's origin is the same path below `upstream`. A value outside of
    `upstream` cannot be reached through the gateway: it becomes `client`, so that the client keeps
    its base."""
    base = urlsplit(upstream).path.rstrip("/")
    here = urlsplit(client)

    def rewrite_uri(match: re.Match[bytes]) -> bytes:
        path = urlsplit(json.loads(match[2])).path
        inside = path == base or path.startswith(f"{base}/")
        target = (
            f"{here.scheme}://{here.netloc}{mount}{path.removeprefix(base)}" if inside else client
        )
        return match[1] + json.dumps(target).encode()

    return _URI.sub(rewrite_uri, body)


def separator_in(body: bytes) -> str:
    """Return the catalog's namespace separator, as it is escaped in the config; the spec's if there
    is none."""
    return _find_setting(body, "namespace-separator") or SPEC_SEPARATOR


def prefix_of(body: bytes) -> str:
    """Return the prefix that this config sets for a client without its own; "" for none."""
    return canonical_prefix(_find_setting(body, "prefix"))


def _find_setting(body: bytes, name: str) -> str:
    """Return a value of a catalog's `/v1/config` answer, overrides before defaults; '' if there is
    none."""
    try:
        config = json.loads(body)
        for part in ("overrides", "defaults"):
            if found := (config.get(part) or {}).get(name):
                return str(found)
    except (ValueError, AttributeError):
        pass  # not a config; the client will say so
    return ""


def with_prefix(body: bytes, prefix: str) -> bytes:
    """Return the config with another prefix, which a client must use."""
    try:
        config = json.loads(body)
        config["overrides"] = {**(config.get("overrides") or {}), "prefix": prefix}
    except (ValueError, TypeError, AttributeError):
        return body
    return json.dumps(config).encode()


class Ways:
    """Config targets by prefix: the path and the warehouse that clients used to load the config.
    Only answers of the catalog itself are kept, so no client can misdirect another."""

    def __init__(self) -> None:
        self._known = FIFOCache[str, str](MAX_WAYS)

    def learn_target(self, target: str, body: bytes) -> None:
        """Keep a target that was answered with this config."""
        path, _, query = target.partition("?")
        asked = "&".join(one for one in query.split("&") if one.startswith("warehouse="))
        way = f"{path}?{asked}" if asked else path
        if (prefix := prefix_of(body)) and len(way) + len(prefix) <= MAX_WAY:
            self._known[prefix] = way

    def target_for(self, prefix: str) -> str | None:
        """Return the target to load the config of a prefix; None if no client has loaded it so
        far."""
        return self._known.get(prefix)
