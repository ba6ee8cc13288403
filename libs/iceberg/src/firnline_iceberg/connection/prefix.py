"""The prefix that a REST catalog's paths have, and a client that has to be at one of them.

Servers tell it in `/v1/config`, by warehouse or by branch, and what they tell wins over what a
client has asked for. So a client that opens a table under a prefix says which one it wants, and
does nothing where it was led to another.
"""

from __future__ import annotations

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import PREFIX_HEADER

from firnline_iceberg.connection.connection import CatalogConnection


class OtherPrefix(TaskRefused):
    """A client is at another prefix than the table that was asked for."""

    def __init__(self, catalog: str, wanted: str, found: str) -> None:
        text = (
            f"catalog {catalog} leads to {_prefix_name(found)}, not to "
            f"{_prefix_name(wanted)}: let its `uri` be the gateway's, which knows the way to all "
            "of them; or give the other one a connection of its own, with its warehouse"
        )
        super().__init__("unknown_prefix", text)


def _prefix_name(prefix: str) -> str:
    return f"the prefix {prefix}" if prefix else "no prefix"


def at_prefix(connection: CatalogConnection, prefix: str) -> CatalogConnection:
    """Return the connection for tables under a prefix. A gateway obeys the header if the server's
    own config has another prefix; the property is for servers whose config has none."""
    if not prefix:
        return connection
    said = {"prefix": prefix, f"header.{PREFIX_HEADER}": prefix}
    return connection.with_properties(**said)
