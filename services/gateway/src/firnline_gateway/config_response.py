"""The one answer that a transparent proxy must change: `/v1/config`.

A catalog that returns its own `uri` takes its clients away from us: both PyIceberg and Java go
on with the overridden URI (seen with Nessie 0.99: table created, rows written, no call passed
through). Everything but those values stays as it was, byte for byte; `prefix` is not touched.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from firnline_gateway.routes import SPEC_SEPARATOR

# `defaults` and `overrides` are flat maps of texts, so the key can stand nowhere else.
_URI = re.compile(rb'("uri"\s*:\s*)("(?:[^"\\]|\\.)*")')


def rehomed(body: bytes, upstream: str, client: str) -> bytes:
    """The body with every `uri` in it led to us.

    `upstream` is the catalog's base URI as we call it, `client` the base that this client used
    for us; a path below our origin is the same path below `upstream`. A value outside of
    `upstream` cannot be reached through us: the client is told to stay where it is.
    """
    base = urlsplit(upstream).path.rstrip("/")
    here = urlsplit(client)

    def ours(match: re.Match[bytes]) -> bytes:
        path = urlsplit(json.loads(match[2])).path
        inside = path == base or path.startswith(f"{base}/")
        target = f"{here.scheme}://{here.netloc}{path.removeprefix(base)}" if inside else client
        return match[1] + json.dumps(target).encode()

    return _URI.sub(ours, body)


def separator_in(body: bytes) -> str:
    """The catalog's namespace separator, escaped as it stands; the spec's where it says none."""
    try:
        config = json.loads(body)
        for part in ("overrides", "defaults"):
            if found := (config.get(part) or {}).get("namespace-separator"):
                return str(found)
    except (ValueError, AttributeError):
        pass  # not a config; the client will say so
    return SPEC_SEPARATOR
