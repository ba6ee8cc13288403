"""Tables that never were, and the `FilesChanged` of their commits, as bytes.

Snapshot ids look like Iceberg's (63 random bits), for they decide how small the state gets.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

from firnline_adapters.records.codec import encode_record
from firnline_domain.base.values import replace, to_plain
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.lineage import SNAPSHOTS, Lineage
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.bucket_state import BucketState
from firnline_schemas import codec

from tests.kit.memory_store import MemoryStore

SCOPE = Scope(0, '["2026-11-22"]')
ROUND = 7  # commits until the fragments are gone again: below what a rewrite is ordered for
LIVED = 70  # commits before the bench: the lineage (64 snapshots) is full
# Nothing is old enough to expire, nor will debt be old enough for an order while the bench lasts.
START_MS = int(time.time() * 1000) - 60_000
SETTINGS = {"write.target-file-size-bytes": "536870912", "firnline.rewrite.quiet-ms": "0"}
ODD = 0x9E3779B97F4A7C15


def table_of(number: int) -> TableName:
    """The table of a number, always the same."""
    return TableName(str(uuid.UUID(int=number * ODD % 2**128)), ("bench",), f"t{number}")


def snapshot_id(table: int, commit: int) -> int | None:
    """Of the table's n-th commit, from 1 on."""
    if commit <= 0:
        return None
    mixed = (table * 1_000_003 + commit) * ODD % 2**64
    return (mixed ^ mixed >> 29) * ODD % 2**63


def change(table: int, commit: int, added: int = 1) -> FilesChanged:
    """A table's n-th commit, of `added` fragments; every seventh takes what is there with it."""
    part = PartitionChange(SCOPE, _fragments(added), _fragments(_gone(commit)))
    return FilesChanged(
        event_id=f"{table}/{commit}",
        table=table_of(table),
        ref=MAIN,
        kind=ChangeKind.DELTA,
        snapshot_id=snapshot_id(table, commit),
        parent_snapshot_id=snapshot_id(table, commit - 1),
        sequence_number=commit,
        timestamp_ms=START_MS + commit,
        operation="append",
        partitions=(part,),
        format_version=2,
        settings=SETTINGS,
        observed_at_ms=START_MS + commit,
    )


def _gone(commit: int) -> int:
    """Fragments that a commit takes away: never more than seven are there."""
    if commit % ROUND:
        return 0
    return ROUND if commit > ROUND else ROUND - 1


def _fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count * 1_000, count * 100_000))


@cache
def _template() -> dict[str, Any]:
    _, value = codec.Codec().decode(encode_record(change(0, 1)))
    return value


def message(table: int, commit: int) -> tuple[str, bytes]:
    """(key of the table, record) of `change`, without the cost of its values."""
    name, of = table_of(table), _template()
    [part] = of["partitions"]
    removed = {**part["removed"], "fragments": _tally(_gone(commit))}
    value = {
        **of,
        "event_id": f"{table}/{commit}",
        "table": to_plain(name),
        "snapshot_id": snapshot_id(table, commit),
        "parent_snapshot_id": snapshot_id(table, commit - 1),
        "sequence_number": commit,
        "timestamp_ms": START_MS + commit,
        "observed_at_ms": START_MS + commit,
        "partitions": [{**part, "removed": removed}],
    }
    return name.key, codec.encode("FilesChanged", value)


def _tally(count: int) -> dict[str, int]:
    return {"files": count, "records": count * 1_000, "bytes": count * 100_000}


@cache
def _lived() -> tuple[Table, Partition]:
    """Table 0 after LIVED commits, as the planner's own code left it."""
    pairs = MemoryStore()
    bucket = PlannerBucket(pairs, Thresholds())
    for commit in range(1, LIVED + 1):
        bucket.handle(change(0, commit), START_MS + commit)
        bucket.commit()
    state = BucketState(pairs)
    uuid_ = table_of(0).uuid
    table, partition = state.table(uuid_, MAIN), state.partition(uuid_, MAIN, SCOPE)
    assert table is not None
    assert partition is not None
    work = replace(table.work, publish_ms=None, published_ms=START_MS)  # shown, as any old table
    return replace(table, work=work), partition


def lived(tables: range) -> Iterator[tuple[Table, Partition]]:
    """The state of tables after LIVED commits each."""
    table, partition = _lived()
    for number in tables:
        yield replace(table, counters=_renamed(table.counters, number)), partition


def _renamed(counters: TableCounters, number: int) -> TableCounters:
    ids = [snapshot_id(number, commit) or 0 for commit in range(LIVED - SNAPSHOTS, LIVED + 1)]
    return replace(
        counters,
        table=table_of(number),
        head_snapshot_id=ids[-1],
        recent=Lineage.from_links(zip(ids[1:], ids, strict=False)),
    )
