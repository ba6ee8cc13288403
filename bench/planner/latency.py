"""From `FilesChanged` on the broker to the order that follows from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import bucket_of

from bench.planner import fleet
from bench.planner.stage import BUCKETS, TOPIC, Stage, producer

ORDERING = 10  # one commit in so many is of a new table, with fragments enough for an order
PATIENCE_S = 30.0
FIRST_NEW = 1 << 40  # number of the first new table: beyond every fleet


class Orders:
    """When each table's order came, read by a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.came: dict[str, float] = {}
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"orders-{time.time_ns()}",
                "auto.offset.reset": "latest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        assigned = threading.Event()
        self._consumer.subscribe(["rewrite-tasks"], on_assign=lambda *_: assigned.set())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assigned.wait(30)

    def _listen(self) -> None:
        codec = RecordCodec()
        while not self._ended.is_set():
            for message in self._consumer.consume(500, 0.02):
                if not message.error():
                    order = codec.decode(message.value())
                    self.came.setdefault(order.table.uuid, time.monotonic())

    def await_all(self, sent: Mapping[str, float]) -> None:
        """Return when the order of each table has come, or with patience's end."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not sent.keys() <= self.came.keys() and time.monotonic() < deadline_s:
            time.sleep(0.1)

    def end(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()


def latency(stage: Stage, rate: int, seconds: float) -> dict[str, Any]:
    """Send `rate` events a second for so long to a planner that is ready."""
    with stage.planner():
        orders = Orders(stage.kafka)
        warm: dict[str, float] = {}
        _paced(stage, rate, int(min(rate, 500) * 3), warm)  # what is imported and opened once
        orders.await_all(warm)
        sent: dict[str, float] = {}
        _paced(stage, rate, int(rate * seconds), sent)
        orders.await_all(sent)
        orders.end()
    took = sorted(orders.came[uuid] - at_s for uuid, at_s in sent.items() if uuid in orders.came)
    return {
        "rate": rate,
        "orders": len(took),
        "missing": len(sent) - len(took),
        **{f"p{share}_ms": _at(took, share) for share in (50, 90, 99)},
        "max_ms": round(took[-1] * 1000) if took else None,
    }


def _at(took: list[float], share: int) -> int | None:
    return round(took[min(len(took) * share // 100, len(took) - 1)] * 1000) if took else None


_new = iter(range(FIRST_NEW, FIRST_NEW << 1))


def _paced(stage: Stage, rate: int, events: int, sent: dict[str, float]) -> None:
    to, began_s = producer(stage.kafka), time.monotonic()
    heads: dict[int, int] = {}
    for number in range(events):
        pause_s = began_s + number / rate - time.monotonic()
        if pause_s > 0:
            to.poll(0)
            time.sleep(pause_s)
        if number % ORDERING == 0:
            change = fleet.change(next(_new), 1, added=10)
            uuid, value = change.table.uuid, encode_record(change)
            sent[uuid] = time.monotonic()
        else:
            table = number * 7919 % stage.tables
            heads[table] = heads.get(table, 0) + 1
            uuid, value = fleet.message(FIRST_NEW * 2 + table, heads[table])
        to.produce(TOPIC, value, uuid.encode(), partition=bucket_of(uuid, BUCKETS))
    to.flush()
