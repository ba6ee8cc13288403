"""What a service's health says of its catalogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from firnline_iceberg.connection.configuration import Connections
from firnline_iceberg.connection.connection import CatalogConnection

Check = Callable[[], object]


class Watches(Protocol):
    """`firnline_adapters.observability.health.Health`."""

    def needs(self, name: str, check: Check) -> None: ...

    def uses(self, name: str, check: Check) -> None: ...


def watched(
    health: Watches, connections: Connections, check: Callable[[CatalogConnection], Check]
) -> None:
    """Have a service's health say whether its catalogs answer. With several it is ready without
    one of them: others' tables do not wait for it."""
    if len(connections) == 1:
        health.needs("catalog", check(next(iter(connections.values()))))
        return
    for one in connections.values():
        health.uses(f"catalog {one.name}", check(one))
