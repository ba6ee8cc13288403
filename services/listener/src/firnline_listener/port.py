"""The port of a source: what it yields, and how it is told that this is dealt with.

A source says where to look, and nothing else: the catalog is asked before anything is published. So
a doorbell that is repeated, late or forged costs one call and changes nothing.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.kafka.connection import Kafka
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import Value
from firnline_domain.errors import Misconfigured


class Doorbell(Value):
    """A hint that a table may have changed. `catalog`: name of its connection, or `lake/main` with
    a prefix. Without a `name`, the listing of the namespace is read; without both, that of the
    catalog."""

    catalog: str
    namespace: tuple[str, ...] = ()
    name: str = ""
    uuid: str = ""  # of a table whose name the source does not know
    # Versions that the source knows; if the listener has published one, it does not ask.
    snapshot_id: int | None = None  # head of `main`
    metadata_location: str = ""  # also names the table, if its folder is known
    is_early: bool = False  # the catalog may not show this version yet
    position: Any = None  # the source's own, for `settle`


class DoorbellSource(Protocol):
    """A source of doorbells. One thread makes all calls."""

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        """Wait up to `timeout_s` for doorbells, in the source's order. Raises RetryLater: it is
        polled again after a pause."""

    def settle(self, position: Any) -> None:
        """Note that all doorbells up to the one with this position are dealt with: what they led to
        is on the broker, or their table is retried later. Raises RetryLater."""

    def close(self) -> None:
        """Release what it holds."""


@dataclass(frozen=True)
class Surroundings:
    """What a source may use. `name`: of its section. `catalogs`: names of the connections.
    `serves_at`, `tls`: where a source that is called by others listens."""

    name: str
    catalogs: Collection[str]
    kafka: Kafka
    log: Log
    serves_at: ListenAddress
    tls: ssl.SSLContext | None = None
    now: Callable[[], float] = time.monotonic  # seconds

    def catalog_of(self, properties: Mapping[str, str]) -> str:
        """Return the catalog that a source's events are of: its property `catalog`, or the only
        one. Raises Misconfigured."""
        given = properties.get("catalog", "")
        if given.partition("/")[0] in self.catalogs:
            return given
        if not given and len(self.catalogs) == 1:
            return next(iter(self.catalogs))
        names = ", ".join(self.catalogs)
        raise Misconfigured(f"[sources.{self.name}] catalog={given!r}: write one of {names}")


OpenSource = Callable[[Mapping[str, str], Surroundings], DoorbellSource]
"""Opens a source from the properties of its section. Raises Misconfigured."""
