"""A call that changes a table, and the names of tables in calls."""

from __future__ import annotations

from firnline_domain.base.values import Value
from firnline_domain.identity import CATALOG

from firnline_gateway.rest.routes import SPEC_SEPARATOR

Names = tuple[str, ...]  # as `routes.table_names` gives them


class Call(Value):
    """A table-changing call as the gateway remembers it; never its headers' secrets.

    `body` is decoded (no content encoding); None = not kept: what the call did is to be read from
    the tables. `known_uuid` is the table's uuid as it was read before a drop, which names none.
    `catalog` is the one behind us that it went to, and `path` a path there. `separator` is the
    catalog's at that moment, still escaped. `accepted`: the catalog has said so;
    otherwise it is unknown. `trace`: the request's trace id, or a new one.
    """

    call_id: str
    method: str
    path: str
    body: bytes | None
    received_ms: int
    separator: str = SPEC_SEPARATOR
    user_agent: str | None = None
    principal: str | None = None
    idempotency_key: str | None = None
    known_uuid: str | None = None
    accepted: bool = False
    catalog: str = CATALOG
    trace: str = ""
