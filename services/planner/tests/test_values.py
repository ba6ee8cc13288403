"""State as bytes, of both versions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from firnline_domain.counters import Link, TableCounters
from firnline_domain.holds import Pause
from firnline_domain.identity import Scope, TableName
from firnline_domain.progress import RunningTask, Table, TableWork
from firnline_planner.due import due_ms
from firnline_planner.values import (
    TABLES,
    Head,
    UnknownVersion,
    group_of,
    head_of,
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


def chain(first: int | None = None) -> tuple[Link, ...]:
    return tuple(map(Link, IDS, (first, *IDS[:-1])))


def table(recent: tuple[Link, ...], **work: object) -> Table:
    counters = TableCounters(NAME, "main", known=True, epoch=3, recent=recent)
    return Table(counters, TableWork(running=(TASK,), **work))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "recent",
    [
        (),
        chain(),
        chain(7),
        chain(0),
        chain(-1),
        (Link(1, None),),
        (Link(2, 1), Link(9, 8)),  # a fork: what was folded after a rollback
        tuple(Link(one, one - 1) for one in range(1, 301)),
    ],
)
def test_a_table_comes_back(recent: tuple[Link, ...]) -> None:
    for one in (table(recent), table(recent, look_ms=40, show_ms=30)):
        data = to_bytes(one)
        assert table_from(data) == one
        assert head_of(data) == Head(due_ms(one), 1)
        as_version_1 = b"\x01" + TABLES.dump_json(one, exclude_defaults=True)
        assert (table_from(as_version_1), head_of(as_version_1)) == (one, head_of(data))


def test_a_switch_is_not_kept_with_the_table() -> None:
    one = table(chain())
    assert table_from(to_bytes(replace(one, pause=Pause(1, "me", "")))) == one


def test_a_ring_of_64_snapshots_takes_little_more_than_their_ids() -> None:
    assert len(to_bytes(table(chain()))) - len(to_bytes(table(()))) == 64 * 8


def test_bytes_of_a_newer_planner_are_refused() -> None:
    for read in (table_from, head_of):
        with pytest.raises(UnknownVersion, match="07"):
            read(b"\x07{}")


def test_the_group_of_a_key_is_what_its_scan_asks_for() -> None:
    prefix = partition_prefix("u", "main")
    assert group_of(partition_key("u", "main", SCOPE)) == prefix == group_of(prefix)
    assert group_of(table_key("u", "main")) == b"2u"
