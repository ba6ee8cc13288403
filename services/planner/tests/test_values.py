"""State as bytes, of every version."""

from __future__ import annotations

import msgspec
import pytest
from firnline_domain.counters.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.debts import Debt
from firnline_domain.counters.lineage import Lineage
from firnline_domain.counters.work import Partition, PartitionWork, RunningTask, Table, TableWork
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.pauses import Pause
from firnline_domain.records.tallies import FileTally, Tally
from firnline_domain.values import replace
from firnline_planner.state.encoding import (
    Head,
    UnknownVersion,
    due_ms,
    group_of,
    head_of,
    partition_from,
    partition_key,
    partition_prefix,
    table_from,
    table_key,
    to_bytes,
)

SCOPE = Scope(1, '["a"]')
TASK = RunningTask("t", SCOPE, "compact", "fragments", 1, 1, 5, 50)
NAME = TableName("u", ("db",), "t")
IDS = [(index + 1) * 2**56 - index for index in range(64)]

TABLE_2 = (
    b'{"counters":{"table":{"uuid":"u","namespace":["db"],"name":"t"},"ref":"main","known":true,'
    b'"head_snapshot_id":13,"epoch":3,"settings":{"a":"b"},"totals":{"holds":{"fragments":'
    b'{"files":3,"records":30,"bytes":300},"equality_deletes":{"files":1,"records":2,"bytes":40}},'
    b'"partitions":1,"partitioned":1}},"work":{"running":[{"task_id":"t","scope":{"spec_id":1,'
    b'"partition":"[\\"a\\"]"},"action":"compact","reason":"fragments","trigger_snapshot_id":1,'
    b'"attempt":1,"ordered_at_ms":5,"deadline_ms":50,"numbers":{"files":8.0}}],"look_ms":40}}'
)
PARTITION_1 = (
    b'\x01{"counters":{"scope":{"spec_id":1,"partition":"[\\"a\\"]"},"epoch":3,"ordinal":2,'
    b'"holds":{"fragments":{"files":3,"records":30,"bytes":300},"equality_deletes":{"files":1,'
    b'"records":2,"bytes":40}},"data_sequence_min":1,"data_sequence_max":3,'
    b'"delete_sequence_max":4,"changed_ms":9},"work":{"floor":{"fragments":1},"pause":"cooling",'
    b'"until_ms":60}}'
)


Links = tuple[tuple[int, int | None], ...]  # snapshots, each with its parent


def chain(first: int | None = None) -> Links:
    return tuple(zip(IDS, (first, *IDS[:-1]), strict=True))


def table(recent: Links, **work: object) -> Table:
    counters = TableCounters(NAME, "main", known=True, epoch=3, recent=Lineage.of(recent))
    return Table(counters, TableWork(running=(TASK,), **work))  # type: ignore[arg-type]


def version_1(one: Table, recent: Links) -> bytes:
    links = [{"snapshot_id": id_, "parent_snapshot_id": parent} for id_, parent in recent]
    body = msgspec.json.decode(msgspec.json.encode(one))
    body["counters"]["recent"] = links
    return b"\x01" + msgspec.json.encode(body)


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
    for one in (table(recent), table(recent, look_ms=40, show_ms=30)):
        data = to_bytes(one)
        assert table_from(data) == one
        assert head_of(data) == Head(due_ms(one), 1)
        as_version_1 = version_1(one, recent)
        assert (table_from(as_version_1), head_of(as_version_1)) == (one, head_of(data))


def test_what_version_2_has_written_is_read() -> None:
    holds = FileTally(fragments=Tally(3, 30, 300), equality_deletes=Tally(1, 2, 40))
    counters = TableCounters(
        NAME,
        "main",
        known=True,
        head_snapshot_id=13,
        epoch=3,
        settings={"a": "b"},
        totals=Totals(holds, 1, 1),
        recent=Lineage.of(((11, 7), (12, 11), (13, 12))),
    )
    running = replace(TASK, numbers={"files": 8.0})
    head = bytes.fromhex("02 2800000000000000 0100 03 01 0700000000000000")
    ring = b"".join(one.to_bytes(8, "little") for one in (11, 12, 13))
    data = head + ring + TABLE_2
    assert table_from(data) == Table(counters, TableWork(running=(running,), look_ms=40))
    assert head_of(data) == Head(40, 1)
    assert partition_from(PARTITION_1) == Partition(
        PartitionCounters(SCOPE, 3, 2, holds, 1, 3, 4, 9),
        PartitionWork(floor=Debt(1), pause="cooling", until_ms=60),
    )


RECENT = Lineage.of(((11, 7), (12, 11), (13, 12)))
ORPHAN = Lineage.of(((11, None), (12, 11), (13, 12)))
FORK = Lineage.of(((2, 1), (9, 8)))


@pytest.mark.parametrize(
    ("flags", "ring", "more", "recent"),
    [
        ("03 01 0700000000000000", (11, 12, 13), {}, RECENT),
        ("03 03 0000000000000000", (11, 12, 13), {}, ORPHAN),
        ("00 02 0000000000000000", (), {"recent": (2, 9), "recent_parents": (1, 8)}, FORK),
        ("00 02 0000000000000000", (), {}, Lineage()),
    ],
)
def test_what_version_3_has_written_is_read(
    flags: str, ring: tuple[int, ...], more: dict[str, object], recent: Lineage
) -> None:
    body = msgspec.json.decode(TABLE_2)
    body["counters"].update(more)
    head = bytes.fromhex(f"03 2800000000000000 0100 {flags}")
    ids = b"".join(one.to_bytes(8, "little") for one in ring)
    found = table_from(head + ids + msgspec.msgpack.encode(body))
    assert (found.counters.recent, found.counters.head_snapshot_id) == (recent, 13)
    assert (found.counters.settings, found.work.look_ms) == ({"a": "b"}, 40)
    assert head_of(head) == Head(40, 1)
    assert table_from(to_bytes(found)) == found


def test_a_switch_is_not_kept_with_the_table() -> None:
    one = table(chain())
    assert table_from(to_bytes(replace(one, pause=Pause(1, "me", "")))) == one


def test_64_recent_snapshots_take_little_more_than_their_ids() -> None:
    assert len(to_bytes(table(chain()))) - len(to_bytes(table(()))) < 65 * 8 + 20


def test_bytes_of_a_newer_planner_are_refused() -> None:
    for read in (table_from, head_of):
        with pytest.raises(UnknownVersion, match="07"):
            read(b"\x07{}")


def test_the_group_of_a_key_is_what_its_scan_asks_for() -> None:
    prefix = partition_prefix("u", "main")
    assert group_of(partition_key("u", "main", SCOPE)) == prefix == group_of(prefix)
    assert group_of(table_key("u", "main")) == b"2u"
