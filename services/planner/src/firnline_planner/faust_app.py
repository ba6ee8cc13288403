"""The Faust app: a table in RocksDB, co-partitioned with the three topics of one agent.

One table, not one per kind of value: each has a changelog of its own, and after a kill two
changelogs end at different records (seen: counters of partitions without their table's, twice in
four kills). Within one changelog what is there is a prefix of what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faust

from firnline_planner import faust_patches
from firnline_planner.inputs import TOPICS
from firnline_planner.settings import Settings

SESSION_S = 8  # Faust's 60 s would leave a killed worker's partitions alone that long
HEARTBEAT_S = 2
LINGER_S = 0.1  # of changelog records; measured: 5,580 events/s against 3,906 without
# Every partition has a RocksDB of its own; Faust's defaults are 2 GiB of cache and 64 MiB of
# write buffer for each.
ROCKSDB = {
    "driver": "rocksdict",
    "block_cache_size": 16 * 1024 * 1024,
    "write_buffer_size": 4 * 1024 * 1024,
    "max_open_files": 64,
}


@dataclass(frozen=True)
class FaustApp:
    """The app and what the driver uses of it."""

    app: Any
    state: Any  # the table
    facts: Any  # the three topics as one channel


def faust_app(settings: Settings, directory: Path) -> FaustApp:
    """Build the app; nothing connects before its worker starts."""
    faust_patches.apply()
    app = faust.App(
        settings.app,
        broker=";".join(f"kafka://{server}" for server in settings.kafka.split(",")),
        store="rocksdb://",
        datadir=str(directory),
        topic_partitions=settings.buckets,
        topic_replication_factor=settings.replicas,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        table_standby_replicas=0,
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=HEARTBEAT_S,
        producer_linger=LINGER_S,
        web_enabled=False,
    )
    return FaustApp(
        app=app,
        state=app.Table(
            "state",
            partitions=settings.buckets,
            key_type=bytes,
            value_type=bytes,
            options=dict(ROCKSDB),  # Faust takes entries out of it
        ),
        facts=app.topic(
            *TOPICS,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
        ),
    )


class FaustPairs:
    """Pairs of one partition of a Faust table; writes go to its changelog as well.

    To be written only while the agent handles an event of that partition: Faust takes the
    partition from the event at hand.
    """

    def __init__(self, table: Any, partition: int) -> None:
        self._table = table
        self._partition = partition

    @property
    def _rocksdb(self) -> Any:
        """Looked up each time: a rebalance closes and reopens it, and a lock knows no sharing."""
        return self._table.data._db_for_partition(self._partition)

    def get(self, key: bytes) -> bytes | None:
        """See `Pairs.get`."""
        value: bytes | None = self._rocksdb.get(key)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """See `Pairs.put`."""
        self._table[key] = value

    def delete(self, key: bytes) -> None:
        """See `Pairs.delete`."""
        del self._table[key]

    def scan(self, prefix: bytes) -> Any:
        """See `Pairs.scan`."""
        for key, value in self._rocksdb.items(from_key=prefix):
            if not key.startswith(prefix):
                return
            yield key, value
