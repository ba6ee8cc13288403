"""The OpenAPI description of the endpoint for commits, made from what it parses."""

from __future__ import annotations

from typing import Any

import msgspec
from firnline_domain.version import VERSION

from firnline_listener.payloads.commits import Body


def describe_api() -> dict[str, Any]:
    """Return the description as JSON values."""
    (body,), parts = msgspec.json.schema_components(
        [Body], ref_template="#/components/schemas/{name}"
    )
    answers = {
        "202": "Accepted. The catalog is asked for the tables.",
        "400": "The body does not match the schema.",
        "401": "The key is missing or wrong.",
        "413": "The body is larger than 1 MiB.",
        "503": "Too many commits wait. Repeat after `Retry-After`.",
    }
    post = {
        "operationId": "reportCommits",
        "summary": "Report that tables may have changed",
        "description": (
            "Repeated, late and false reports change nothing: Firnline asks the catalog before it "
            "acts."
        ),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {status: {"description": text} for status, text in answers.items()},
        "security": [{"key": []}],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Firnline listener", "version": VERSION},
        "paths": {"/v1/commits": {"post": post}},
        "components": {
            "schemas": parts,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
