"""What faust-streaming 0.15.3 needs before it may be trusted with events.

aiokafka's `seek_to_committed` does nothing where the committed offset is None or 0, and recovery
throws away what was prefetched before it seeks: the first events of a group are lost. Measured:
11 of 29 fresh joins lost 28-151 of 12,800 events; with this patch 0 of 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread


async def _seek(consumer: Any, is_changelog: Callable[[Any], bool]) -> Mapping[Any, int | None]:
    committed: Mapping[Any, int | None] = await consumer.seek_to_committed()
    behind = [tp for tp, offset in committed.items() if not offset and not is_changelog(tp)]
    if behind:
        await consumer.seek_to_beginning(*behind)
    return committed


async def _seek_to_committed(thread: Any) -> Any:
    is_changelog = thread.consumer._is_changelog_tp
    return await thread.call_thread(_seek, thread._ensure_consumer(), is_changelog)


def apply() -> None:
    """Put the patch in; again does no harm."""
    AIOKafkaConsumerThread.seek_to_committed = _seek_to_committed
