"""Reads records that Faust has left out, straight from the log."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, TopicPartition

from firnline_planner.inputs import Input


class LogReader:
    """A consumer without a group, opened for one stretch of one partition at a time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def read(self, topic: str, partition: int, start: int, end: int) -> AsyncIterator[Input]:
        """The records from `start` up to, without, `end`; those that retention has left of them.

        Raises KafkaError.
        """
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
        place = TopicPartition(topic, partition)
        await consumer.start()
        try:
            consumer.assign([place])
            first = await consumer.beginning_offsets([place])
            consumer.seek(place, max(start, first[place]))
            while await consumer.position(place) < end:
                found = await consumer.getmany(place, timeout_ms=1000)
                for one in found.get(place, []):
                    if one.offset < end:
                        yield Input(topic, partition, one.offset, one.key, one.value, one.headers)
        finally:
            await consumer.stop()
