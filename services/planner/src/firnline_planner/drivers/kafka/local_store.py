"""One bucket's state on this host: RocksDB, together with how far into the changelog it goes.

Entries and position are written in one batch, so what a kill leaves is always the changelog up to
some record of it, and the next planner here reads only what came after (measured: bench/results).
What a disk has damaged is no more than a cache of the changelog: it is removed, and read anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.base.times import DAY_MS
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
)
from rocksdict import WriteBatch as RocksBatch

from firnline_planner.drivers.store_check import find_damage, read_pairs
from firnline_planner.state.encoding import UnusableState

CACHE_BYTES = 64 * 1024 * 1024  # of uncompressed blocks, for all buckets of a process
WRITE_BUFFER_BYTES = 16 * 1024 * 1024  # per bucket; as much again while it is written out
# Files of changes until they are merged: twice as many as RocksDB would have.
RUNS = 8
BLOOM_BITS = 10.0  # a new table's key is looked for in no block
CORRUPTION = "Corruption"  # what RocksDB's errors of it begin with
LOG = Log("planner")
DAMAGED = "DAMAGED"  # a file of a store that is to be removed when it is opened next
MARK = b"\x00mark"  # the state's own keys start with a digit
# A compacted changelog forgets deletions after a day (`delete.retention.ms`): a store that was away
# for longer could keep what was deleted meanwhile.
FRESH_MS = DAY_MS // 2

Changes = dict[bytes, bytes | None]  # None = deleted


@dataclass(frozen=True)
class StorePosition:
    """Position of a store: the next record to read of a topic, and the time of that state."""

    topic_id: str
    position: int
    at_ms: int

    def to_bytes(self) -> bytes:
        """Encode the mark for the store."""
        return f"{self.topic_id} {self.position} {self.at_ms}".encode()

    @staticmethod
    def from_bytes(data: bytes) -> StorePosition:
        """Decode a mark."""
        topic_id, position, at_ms = data.decode().split(" ")
        return StorePosition(topic_id, int(position), int(at_ms))


class DamagedStore(UnusableState):
    """A store cannot be read. The next planner that opens it removes it first."""


class LocalStore:
    """The pairs of one bucket on disk. A `stores.BatchReadableStore`, written by `write_changes`
    only.

    Whatever reads or writes it raises DamagedStore where RocksDB says so.
    """

    def __init__(self, directory: Path, cache: Cache) -> None:
        self._directory = directory
        self._cache = cache
        self._rocks = self._open_or_recreate()
        # What is read for a batch is remembered as values, if at all: 4 us less for two of them.
        self._passing = ReadOptions()
        self._passing.fill_cache(False)

    def _open_or_recreate(self) -> Rdict:
        if (self._directory / DAMAGED).exists():
            remove_store(self._directory, "what was read of it did not verify")
        try:
            return self._open()
        except Exception as error:
            remove_store(self._directory, str(error))
            return self._open()

    def _open(self) -> Rdict:
        self._directory.mkdir(parents=True, exist_ok=True)
        return Rdict(
            str(self._directory), _rocksdb_options(self._cache), access_type=AccessType.read_write()
        )

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._rocks.get(key)
        except Exception as error:
            raise self._mark_damaged(error) from error
        return value

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] = self._rocks.get(keys, read_opt=self._passing)
        except Exception as error:
            raise self._mark_damaged(error) from error
        return values

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from read_pairs(self._rocks, prefix)
        except Exception as error:
            raise self._mark_damaged(error) from error

    def _mark_damaged(self, error: Exception) -> DamagedStore:
        (self._directory / DAMAGED).touch()
        return DamagedStore(f"{self._directory}: {error}")

    def usable_position(self, topic_id: str, end: int, now_ms: int) -> int:
        """Return the offset of the first changelog record that is not in the store. A store that
        cannot be continued is deleted, and begins at 0."""
        try:
            data = self._rocks.get(MARK)
            mark = None if data is None else StorePosition.from_bytes(data)
        except Exception as error:
            self.start_anew(str(error))
            return 0
        if mark is None:
            usable = next(self._rocks.keys(), None) is None
            at = 0
        else:
            usable = mark.topic_id == topic_id and mark.position <= end
            usable = usable and now_ms - mark.at_ms < FRESH_MS
            at = mark.position
        if usable:
            return at
        self.start_anew("it stands elsewhere than the changelog")
        return 0

    def write_changes(self, changes: Changes, mark: StorePosition) -> None:
        """Write changes and the mark up to which the store is complete; both or neither survive a
        kill."""
        batch = RocksBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.put(MARK, mark.to_bytes())
        try:
            self._rocks.write(batch)
        except Exception as error:
            if CORRUPTION in str(error):
                raise self._mark_damaged(error) from error
            raise  # a full disk, say: what is there is whole

    def close(self) -> None:
        """Close the files, so that the bucket may be opened again later."""
        self._rocks.close()

    def start_anew(self, why: str) -> None:
        """Remove all that is here."""
        self._rocks.close()
        remove_store(self._directory, why)
        self._rocks = self._open()


def _rocksdb_options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_open_files(64)
    # Half of a table is ids of snapshots, which no compression makes smaller. With LZ4, half of the
    # buffer, half as many files a merge and four times as many values remembered an event of
    # 300,000 tables cost 8 % more.
    options.set_compression_type(DBCompressionType.none())
    options.set_level_zero_file_num_compaction_trigger(RUNS)
    options.set_compaction_style(DBCompactionStyle.universal())
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_bloom_filter(BLOOM_BITS, False)
    options.set_block_based_table_factory(blocks)
    return options


def open_stores(directories: Mapping[int, Path], cache: Cache) -> dict[int, LocalStore]:
    """Open the stores of buckets; those that are damaged are removed first. Takes as long as
    `store_check.CHECK_S` at the most, and what RocksDB takes for a whole store."""
    for directory, why in find_damage(directories.values()).items():
        remove_store(directory, why)
    return {number: LocalStore(one, cache) for number, one in directories.items()}


def remove_store(directory: Path, why: str) -> None:
    """Remove a store that cannot be resumed: all its content is in the changelog."""
    LOG.warning("state_removed", bucket=directory.name, why=why, then="the changelog is read anew")
    metrics.count("stores_removed")
    shutil.rmtree(directory, ignore_errors=True)


def shared_cache() -> Cache:
    """Create the block cache for all stores of a process."""
    return Cache(CACHE_BYTES)
