"""Sources by the `type` of their section; `package.module:function` is a stranger's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from firnline_domain.errors import Misconfigured

from firnline_listener.port import DoorbellSource, OpenSource, Surroundings
from firnline_listener.sources.http import open_http
from firnline_listener.sources.kafka import open_kafka
from firnline_listener.sources.nats import open_nats
from firnline_listener.sources.postgres import open_postgres

SOURCES: Mapping[str, OpenSource] = {
    "http": open_http,
    "kafka": open_kafka,
    "nats": open_nats,
    "postgres": open_postgres,
}


def open_source(properties: Mapping[str, str], where: Surroundings) -> DoorbellSource:
    """Open the source of a section. Raises Misconfigured."""
    kind = properties.get("type", "")
    section = f"[sources.{where.name}]"
    if kind in SOURCES:
        return SOURCES[kind](properties, where)
    module, colon, function = kind.partition(":")
    if not colon:
        known = ", ".join(SOURCES)
        raise Misconfigured(f"{section} type={kind!r}: write {known} or package.module:function")
    try:
        opened: OpenSource = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misconfigured(f"{section} type={kind!r}: {error}") from error
    return opened(properties, where)
