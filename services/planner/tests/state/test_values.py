"""BucketState as bytes, and back."""

from __future__ import annotations

import msgspec
import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.lineage import Lineage
from firnline_domain.counters.state.work import (
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.pauses import Pause
from firnline_planner.state.encoding import (
    HEAD,
    StateHead,
    UnknownVersion,
    decode_head,
    due_ms,
    group_of,
    partition_from,
    partition_key,
    partition_prefix,
    pause_from,
    ref_key,
    route_from,
    share_from,
    table_from,
    to_bytes,
)

SCOPE = Scope(1, '["a"]')
TASK = RunningTask("t", SCOPE, "compact", "fragments", 1, 1, 5, 50)
NAME = TableName("u", ("db",), "t")
IDS = [(index + 1) * 2**56 - index for index in range(64)]

Links = tuple[tuple[int, int | None], ...]  # snapshots, each with its parent


def chain(first: int | None = None) -> Links:
    return tuple(zip(IDS, (first, *IDS[:-1]), strict=True))


def table(recent: Links, **work: object) -> Table:
    counters = TableCounters(NAME, "main", known=True, epoch=3, recent=Lineage.from_links(recent))
    return Table(counters, TableWork(running=(TASK,), **work))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "recent",
    [
        (),
        chain(),
        chain(7),
        chain(0),
        chain(-1),
        ((1, None),),
        ((2, 1), (9, 8)),  # a fork: what was folded after a rollback
        tuple((one, one - 1) for one in range(1, 301)),
    ],
)
def test_a_table_comes_back(recent: Links) -> None:
    for one in (table(recent), table(recent, reconcile_ms=40, publish_ms=30)):
        data = to_bytes(one, now_ms=77)
        assert table_from(data) == one
        assert decode_head(data) == StateHead(due_ms(one), 77, 1)


def test_a_partition_and_a_pause_come_back() -> None:
    holds = FileTally(fragments=Tally(3, 30, 300), equality_deletes=Tally(1, 2, 40))
    counters = PartitionCounters(SCOPE, 3, 2, holds, 1, 3, 4, 9)
    work = PartitionWork(floor=Debt(1), pause="cooling", until_ms=60)
    assert partition_from(to_bytes(Partition(counters, work))) == Partition(counters, work)
    pause = Pause(1, "me", "")
    assert pause_from(to_bytes(pause)) == pause


def test_fields_that_are_not_there_have_their_defaults() -> None:
    """So a new field with a default needs no new version."""
    counters = {"table": {"uuid": "u", "namespace": ["db"], "name": "t"}, "ref": "main"}
    data = to_bytes(table(()))[: HEAD.size] + msgspec.msgpack.encode({"counters": counters})
    assert table_from(data) == Table(TableCounters(NAME, "main"))


def test_a_switch_is_not_kept_with_the_table() -> None:
    one = table(chain())
    assert table_from(to_bytes(replace(one, pause=Pause(1, "me", "")))) == one


def test_64_recent_snapshots_take_little_more_than_their_ids() -> None:
    assert len(to_bytes(table(chain()))) - len(to_bytes(table(()))) < 65 * 8 + 20


def test_bytes_of_a_newer_planner_are_refused() -> None:
    for read in (table_from, decode_head, partition_from, share_from, route_from, pause_from):
        with pytest.raises(UnknownVersion, match="07"):
            read(b"\x07{}")


def test_the_group_of_a_key_is_what_its_scan_asks_for() -> None:
    prefix = partition_prefix("u", "main")
    assert group_of(partition_key("u", "main", SCOPE)) == prefix == group_of(prefix)
    assert group_of(ref_key("u", "main")) == b"2u"
