from __future__ import annotations

import pytest
from firnline_gateway.rest.config_response import rewrite_uris, separator_in

GATEWAY = "http://gateway:8080"


@pytest.mark.parametrize(
    ("value", "upstream", "client", "expected"),
    [
        ("http://nessie:19120/iceberg/", "http://nessie:19120/iceberg", GATEWAY, GATEWAY + "/"),
        ("http://nessie:19120/iceberg", "http://nessie:19120/iceberg/", GATEWAY, GATEWAY),
        ("https://outside.example/iceberg/", "http://nessie/iceberg", GATEWAY, GATEWAY + "/"),
        (
            "http://nessie/iceberg/",
            "http://nessie",
            GATEWAY + "/iceberg",
            GATEWAY + "/iceberg/",
        ),
        ("http://nessie/other/", "http://nessie/iceberg", GATEWAY, GATEWAY),
        ("http://nessie/iceberg2", "http://nessie/iceberg", GATEWAY, GATEWAY),
        ("http://polaris", "http://polaris", GATEWAY, GATEWAY),
    ],
)
def test_uris_lead_to_us(value: str, upstream: str, client: str, expected: str) -> None:
    body = f'{{"defaults":{{"uri" : "{value}"}},"overrides":{{"uri":"{value}"}}}}'.encode()
    expected_body = f'{{"defaults":{{"uri" : "{expected}"}},"overrides":{{"uri":"{expected}"}}}}'
    assert rewrite_uris(body, upstream, client) == expected_body.encode()


def test_everything_else_stays_byte_for_byte() -> None:
    body = (
        b'{ "overrides" : {"prefix":"main","nessie.core-base-uri":"http://n/api/",'
        b'"uri":"http:\\/\\/n\\/iceberg\\/", "x":"\xc3\xa9\\u00e9"},\n'
        b'"endpoints":["GET /v1/{prefix}/namespaces"],"idempotency-key-lifetime":"PT30M" }'
    )
    expected = body.replace(b"http:\\/\\/n\\/iceberg\\/", b"http://gateway:8080/")
    assert rewrite_uris(body, "http://n/iceberg", GATEWAY) == expected


@pytest.mark.parametrize(
    ("body", "separator"),
    [
        (b'{"defaults":{},"overrides":{"namespace-separator":"%2E"}}', "%2E"),
        (b'{"defaults":{"namespace-separator":"%2E"},"overrides":{}}', "%2E"),
        (b'{"defaults":{},"overrides":{}}', "%1F"),
        (b'{"overrides":null}', "%1F"),
        (b"<html>", "%1F"),
        (b"[]", "%1F"),
    ],
)
def test_the_namespace_separator(body: bytes, separator: str) -> None:
    assert separator_in(body) == separator
