"""Read the principal of a call from the claims of its bearer token. Nothing else of the token is
kept.

The signature is not checked here: the catalog has the keys, and has judged the token when it
accepted the call. Where a catalog checks no tokens, the name is only what the client claims."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from firnline_adapters.config.redaction import redact

CLAIMS = ("sub", "client_id", "azp")  # of RFC 7519, RFC 9068 and OpenID Connect; the first counts
MAX_PRINCIPAL = 256
MAX_TOKEN = 16_384  # longer ones are not read


def principal_of(authorization: str | None) -> str | None:
    """Return the principal in an `Authorization` header; None without a JSON web token."""
    scheme, _, token = (authorization or "").partition(" ")
    parts = token.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != 3 or len(token) >= MAX_TOKEN:
        return None
    if "alg" not in _decode_claims(parts[0]):  # an opaque token that has two dots
        return None
    claims = _decode_claims(parts[1])
    named = (claims[name] for name in CLAIMS if claims.get(name))
    principal = next(named, None)
    return principal if isinstance(principal, str) and _may_be_kept(principal) else None


def _decode_claims(part: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=dict[str, Any]
        )
    except (ValueError, msgspec.DecodeError, RecursionError):
        return {}


def _may_be_kept(principal: str) -> bool:
    """Return True for a readable name, not a secret in the place of one."""
    is_name = principal.isprintable() and len(principal) <= MAX_PRINCIPAL
    return is_name and redact(principal) == principal
