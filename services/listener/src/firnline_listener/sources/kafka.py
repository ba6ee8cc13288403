"""Events that a catalog or a writer sends to a topic of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from firnline_adapters.kafka.connection import SERVERS, KafkaConnection, resolve_properties
from firnline_adapters.kafka.foreign_topic import ForeignMessage, ForeignTopic
from firnline_adapters.observability import metrics
from firnline_domain.base.values import replace
from firnline_domain.errors import Misconfigured
from firnline_domain.ports import Place

from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Doorbell, Surroundings

PROPERTIES = frozenset({"type", "topic", "payload", "catalog", "only", "group"})


def open_kafka(properties: Mapping[str, str], where: Surroundings) -> KafkaSource:
    """Return the source of a section. Names with a dot are librdkafka's, for another cluster than
    Firnline's. Raises Misconfigured."""
    section = f"[sources.{where.name}]"
    given = {name: one for name, one in properties.items() if "." not in name}
    if unknown := sorted(given.keys() - PROPERTIES):
        raise Misconfigured(f"{section}: {', '.join(unknown)} is unknown")
    if not given.get("topic") or given.get("payload") not in PAYLOADS:
        raise Misconfigured(f"{section}: set topic, and payload to one of {', '.join(PAYLOADS)}")
    kafka = where.kafka
    if other := {name: one for name, one in properties.items() if "." in name}:
        servers = other.pop(SERVERS, "")
        kafka = KafkaConnection(servers, resolve_properties(other, section))
    group = given.get("group", f"firnline-listener-{where.name}")
    return KafkaSource(given, where, ForeignTopic(kafka, group, given["topic"]))


class EventTopic(Protocol):
    """What a `ForeignTopic` does."""

    def poll(self, timeout_s: float) -> Sequence[ForeignMessage]:
        """Wait up to `timeout_s` for messages. Raises RetryLater."""

    def mark_done(self, done: Mapping[Place, int]) -> None:
        """Note the offsets up to which all is done."""

    def close(self) -> None:
        """Release what it holds."""


class KafkaSource:
    """A `DoorbellSource` on one topic. A position counts the messages that were read."""

    def __init__(
        self, properties: Mapping[str, str], where: Surroundings, topic: EventTopic
    ) -> None:
        self._name, self._log = where.name, where.log
        self._parse = PAYLOADS[properties["payload"]]
        self._catalog = where.catalog_of(properties)
        self._only = properties.get("only", "")
        self._topic = topic
        self._read = self._given = self._settled = 0
        self._undone = deque[tuple[int, Place, int]]()

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        found = [bell for one in self._topic.poll(timeout_s) for bell in self._take(one)]
        if self._settled >= self._given:
            self.settle(self._read)
        return found

    def settle(self, position: int) -> None:
        self._settled = max(self._settled, position)
        done = dict[Place, int]()
        while self._undone and self._undone[0][0] <= position:
            _, place, offset = self._undone.popleft()
            done[place] = offset
        self._topic.mark_done(done)

    def close(self) -> None:
        self._topic.close()

    def _take(self, message: ForeignMessage) -> list[Doorbell]:
        before, self._read = self._read, self._read + 1
        self._undone.append((self._read, message.place, message.offset))
        try:
            bells = self._parse(message.headers, message.value, self._catalog, self._only)
        except Exception as error:  # of that message: it would come again in each life
            metrics.count("doorbells_dropped", source=self._name)
            self._log.warning("not_parsed", place=message.place, offset=message.offset, why=error)
            return []
        if bells:
            self._given = self._read
        # Another of the same message does not settle the last one.
        positions = [before] * (len(bells) - 1) + [self._read]
        return [
            replace(one, position=position) for one, position in zip(bells, positions, strict=False)
        ]
