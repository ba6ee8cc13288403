"""What the real stack tells of its maintenance: bytes by table, and how long its orders took."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

from firnline_domain.base.values import Value
from firnline_domain.policy.cost_model import FIRNLINE, Work
from firnline_domain.records.events import RewriteCommitted


class Order(Value):
    """One that was committed. `slowness`: its worker's time against the cost model's."""

    table: str
    committed_at_ms: int
    took_s: float  # from the order to its commit
    worked_s: float
    slowness: float
    read: int
    keys: int
    written: int


@dataclass
class Told:
    """By table. Others than this hour's are counted, too; nobody asks for them."""

    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    orders: list[Order] = field(default_factory=list)

    def take(self, event: RewriteCommitted) -> None:
        """A commit."""
        self.read[event.table.name] += event.bytes_read + event.key_bytes
        self.written[event.table.name] += event.bytes_after
        self.actions[event.table.name] += 1
        if event.ordered_at_ms is not None and event.worked_ms is not None:
            self.orders.append(_order(event, event.ordered_at_ms, event.worked_ms / 1_000))

    @property
    def order_s(self) -> float:
        """That an order takes, mostly."""
        return statistics.median(one.took_s for one in self.orders or (NONE,))

    @property
    def slowness(self) -> float:
        """Of the workers, mostly."""
        return statistics.median(one.slowness for one in self.orders or (NONE,))


NONE = Order("", 0, 0.0, 0.0, 1.0, 0, 0, 0)


def _order(event: RewriteCommitted, ordered_at_ms: int, worked_s: float) -> Order:
    work = Work(
        event.bytes_read + event.key_bytes,
        event.bytes_after,
        event.delete_records,
        files=event.files_removed,
        converted=1.0 if event.converted_bytes > 0 else 0.0,  # these tables have one large file
    )
    return Order(
        table=event.table.name,
        committed_at_ms=event.committed_at_ms,
        took_s=(event.committed_at_ms - ordered_at_ms) / 1_000,
        worked_s=worked_s,
        slowness=worked_s / FIRNLINE.wall_s(work),
        read=event.bytes_read,
        keys=event.key_bytes,
        written=event.bytes_after,
    )
