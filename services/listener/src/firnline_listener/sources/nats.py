"""Events on a NATS subject, as Lakekeeper sends them. It sends them without JetStream, so a stream
of the server has to take the subject up: a durable consumer then loses none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import nats
import nats.errors
import nats.js.errors
from firnline_adapters.kafka.foreign_topic import ForeignMessage
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.ports import Place
from nats.js.api import ConsumerConfig

from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Surroundings
from firnline_listener.sources.kafka import KafkaSource

T = TypeVar("T")
FAILURES = (nats.errors.Error, OSError, TimeoutError)
PROPERTIES = frozenset({"type", "url", "subject", "payload", "catalog", "only", "group"})
AT_ONCE = 50  # a server allows messages of 1 MB, and its client asks for no number of bytes
CONNECT_S = 5.0
ACK_S = 300.0  # what a listener that was killed has not settled comes again after it
MAX_OPEN = 10_000  # as many as a source may have


def open_nats(properties: Mapping[str, str], where: Surroundings) -> KafkaSource:
    """Return the source of a section. Raises Misconfigured."""
    section = f"[sources.{where.name}]"
    if unknown := sorted(properties.keys() - PROPERTIES):
        raise Misconfigured(f"{section}: {', '.join(unknown)} is unknown")
    missing = not properties.get("url") or not properties.get("subject")
    if missing or properties.get("payload") not in PAYLOADS:
        known = ", ".join(PAYLOADS)
        raise Misconfigured(f"{section}: set url, subject, and payload to one of {known}")
    group = properties.get("group", f"firnline-listener-{where.name}")
    stream = NatsSubject(properties["url"], properties["subject"], group)
    return KafkaSource(properties, where, stream)


class NatsSubject:
    """A subject in a stream, read as a `ForeignTopic` is. Its client runs while a call runs, on the
    one thread that makes them all. Offsets count the messages of this process: what comes again
    has an earlier number in the stream."""

    def __init__(self, url: str, subject: str, durable: str) -> None:
        self._url, self._subject, self._durable = url, subject, durable
        self._runner = asyncio.Runner()
        self._client: Any = None
        self._subscription: Any = None
        self._held = dict[int, Any]()
        self._read = 0

    def poll(self, timeout_s: float) -> Sequence[ForeignMessage]:
        """Wait up to `timeout_s` for messages. Raises RetryLater: it connects anew."""
        return self._run(self._fetch(timeout_s))

    def mark_done(self, done: Mapping[Place, int]) -> None:
        """Acknowledge the messages up to an offset."""
        upto = max(done.values(), default=0)
        if acknowledged := [one for one in self._held if one <= upto]:
            self._run(self._acknowledge(acknowledged))

    def close(self) -> None:
        """Give back what was not acknowledged, and disconnect."""
        try:
            if self._client is not None:
                self._runner.run(self._leave())
        finally:
            self._runner.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(call)
        except FAILURES as error:
            self._held.clear()  # they come again
            self._runner.run(self._disconnect())
            why = str(error) or "NATS does not answer"
            raise RetryLater(f"subject {self._subject}: {why}") from error

    async def _fetch(self, timeout_s: float) -> list[ForeignMessage]:
        if self._subscription is None:
            await self._connect()
        try:
            messages = await self._subscription.fetch(AT_ONCE, timeout_s)
        except nats.errors.TimeoutError:
            if not self._client.is_connected:
                raise
            return []
        return [self._hold(one) for one in messages]

    async def _connect(self) -> None:
        connecting = nats.connect(
            self._url, name=self._durable, allow_reconnect=False, error_cb=_ignore_error
        )
        self._client = await asyncio.wait_for(connecting, CONNECT_S)  # it would try for minutes
        config = ConsumerConfig(ack_wait=ACK_S, max_ack_pending=MAX_OPEN)
        jetstream = self._client.jetstream(timeout=CONNECT_S)
        try:
            self._subscription = await jetstream.pull_subscribe(
                self._subject, durable=self._durable, config=config
            )
        except nats.js.errors.NotFoundError as error:
            raise RetryLater(
                f"no stream of NATS takes up the subject {self._subject}: "
                f"nats stream add NAME --subjects {self._subject}"
            ) from error

    def _hold(self, message: Any) -> ForeignMessage:
        self._read += 1
        self._held[self._read] = message
        headers = {name.lower(): one for name, one in (message.headers or {}).items()}
        data, message.data = message.data, b""  # up to MAX_OPEN wait for their acknowledgement
        return ForeignMessage((self._subject, 0), self._read, headers, data)

    async def _acknowledge(self, offsets: Sequence[int]) -> None:
        for one in offsets:
            await self._held[one].ack()
        await self._client.flush(CONNECT_S)
        for one in offsets:
            del self._held[one]

    async def _leave(self) -> None:
        with suppress(*FAILURES):  # of a server that is away: they come again later
            for message in self._held.values():
                await message.nak()
            await self._client.flush(CONNECT_S)
        await self._disconnect()

    async def _disconnect(self) -> None:
        client, self._client, self._subscription = self._client, None, None
        if client is not None:
            await client.close()


async def _ignore_error(_: Exception) -> None:
    """Ignore what the client's own tasks meet: the next call meets it, too."""
