"""Who a call's bearer token names; no secret comes along."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from firnline_gateway.proxy.principals import MAX_PRINCIPAL, MAX_TOKEN, principal_of

SIGNATURE = "c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def token(claims: object, head: object = None) -> str:
    return f"{part(head or {'alg': 'RS256'})}.{part(claims)}.{SIGNATURE}"


@pytest.mark.parametrize(
    ("claims", "principal"),
    [
        ({"sub": "etl", "client_id": "other", "scope": "all"}, "etl"),
        ({"client_id": "nightly", "azp": "other"}, "nightly"),
        ({"azp": "trino"}, "trino"),
        ({"sub": "", "azp": "trino"}, "trino"),
        ({"sub": "Zoë"}, "Zoë"),
        ({"sub": "x" * MAX_PRINCIPAL}, "x" * MAX_PRINCIPAL),
        ({"sub": "x" * (MAX_PRINCIPAL + 1)}, None),
        ({"sub": "two\nlines"}, None),
        ({"sub": 7}, None),
        ({"sub": "AKIAIOSFODNN7EXAMPLE"}, None),  # looks like an access key
        ({"sub": "password=hunter2"}, None),
        ({"scope": "all"}, None),
        (["sub"], None),
        (b"not json", None),
        (b"\xff" * 9, None),
        (b"[" * 9_000, None),
    ],
)
def test_the_first_claim_that_names_somebody_counts(claims: Any, principal: str | None) -> None:
    assert principal_of(f"Bearer {token(claims)}") == principal
    assert principal_of(f"bearer  {token(claims)} ") == principal


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer opaque",
        "Bearer an.opaque.one",
        f"Basic {part(b'etl:hunter2')}",
        f"Token {token({'sub': 'etl'})}",
        f"Bearer {token({'sub': 'etl'})}.more.parts",  # encrypted: five parts
        f"Bearer {token({'sub': 'etl'}, {'typ': 'JWT'})}",
        f"Bearer {token({'sub': 'etl', 'x': 'x' * MAX_TOKEN})}",
        "Bearer a.$$$.b",
    ],
)
def test_what_is_no_web_token_names_nobody(authorization: str | None) -> None:
    assert principal_of(authorization) is None
