"""The hostile tenant says what it means to say, and each of its findings turns red."""

from __future__ import annotations

import random
from email.message import Message
from pathlib import Path

import pytest
from firnline_adapters.records import signing
from firnline_chaos import invariants
from firnline_chaos.hostile import records, requests, tables
from firnline_chaos.hostile.owners import REFUSED_PATH, refusing
from firnline_chaos.hostile.progress import OpenCommits, OpenTasks, Waiting
from firnline_chaos.hostile.tenant import Book, findings
from firnline_chaos.hostile.values import PINNED, mutated
from firnline_chaos.tables import BUSY
from firnline_chaos.topics import Ledger
from firnline_domain.base.values import replace, to_plain
from firnline_schemas import codec
from firnline_schemas.topics import all_topics

from tests.examples import make

TENANT = records.Tenant({"uuid": "0" * 8, "namespace": ["hostile"], "name": "t"})
PLACE = ("task-results", 1, 7)


@pytest.mark.parametrize("seed", range(40))
def test_a_mutated_record_fits_its_schema(seed: int) -> None:
    record = make("rewrite_finished/native")
    schema, plain = codec.newest("RewriteFinished"), to_plain(record)
    found = mutated(schema, plain, random.Random(seed), share=0.5)
    codec.encode("RewriteFinished", found)
    assert found != plain
    assert all(found["table"][name] == plain["table"][name] for name in PINNED)


def test_records_of_every_topic_and_kind_come() -> None:
    dice = random.Random(1)
    drawn = [records.draw(TENANT, dice) for _ in range(1_500)]
    assert {one.topic for one in drawn} == {one.name for one in all_topics()} - {"schemas"}
    kinds = {"garbage", "truncated", "foreign", "mutated", "misplaced"}
    assert {one.kind.removeprefix("unsigned ") for one in drawn} == kinds
    assert {one.refused for one in drawn if one.kind == "truncated"} == {True, False}
    unsigned = [one for one in drawn if not one.signed]
    assert {one.refused for one in unsigned if one.topic == "rewrite-tasks"} == {True}
    assert not {one.topic for one in unsigned} & signing.unsigned_topics()


def test_a_tombstone_is_owed_no_letter_where_the_topic_is_compacted() -> None:
    dice = random.Random(2)
    drawn = [records.draw(TENANT, dice) for _ in range(3_000)]
    empty = {one.topic for one in drawn if one.value is None and one.refused}
    assert empty
    assert "table-states" not in empty


def test_requests_are_bytes_that_a_server_can_begin_to_read() -> None:
    dice = random.Random(3)
    drawn = [requests.draw("t", dice) for _ in range(200)]
    assert {one.kind for one in drawn} == {"odd", "bomb", "commit", "half"}
    assert all(b" HTTP/1.1\r\n" in one.data for one in drawn)


def test_a_forged_list_lies_where_the_sweep_looks(tmp_path: Path) -> None:
    path = tables.forge_list(f"file:{tmp_path}", "u", ["file:/x"], random.Random(4))
    assert path.parent == tmp_path / "metadata"
    assert path.name.startswith("firnline-")


def test_a_record_that_nobody_takes_is_a_standstill() -> None:
    waiting = Waiting()
    place = ("worker", "rewrite-tasks", 0)
    assert waiting.seen(place, committed=4, newest=9, now_s=10.0) == 0.0
    assert waiting.seen(place, committed=4, newest=9, now_s=16.0) == 6.0
    assert waiting.seen(place, committed=5, newest=9, now_s=17.0) == 0.0
    assert waiting.seen(place, committed=10, newest=9, now_s=40.0) == 0.0


def test_a_committer_stands_still_where_results_wait_and_none_comes_to_its_end() -> None:
    tasks = OpenTasks()
    first = make("rewrite_finished/native")
    second = replace(first, task_id="second")
    tasks.take(replace(first, task_id="zero"), 1.0)
    assert tasks.standstill_s("committer", 8.0) == 0.0
    tasks.take(replace(make("rewrite_conflicted/new_position_deletes"), task_id="zero"), 9.0)
    tasks.take(first, 10.0)
    tasks.take(second, 14.0)
    assert tasks.standstill_s("committer", 16.0) == 6.0
    assert tasks.standstill_s("worker", 16.0) == 0.0
    tasks.take(replace(make("rewrite_conflicted/new_position_deletes"), task_id="second"), 17.0)
    assert tasks.standstill_s("committer", 19.0) == 2.0
    tasks.take(
        replace(make("rewrite_conflicted/new_position_deletes"), task_id=first.task_id), 20.0
    )
    assert tasks.standstill_s("committer", 60.0) == 0.0


def test_results_of_the_busy_table_wait_for_its_own_writers() -> None:
    tasks, other = OpenTasks(), make("rewrite_finished/native")
    busy = replace(other, task_id="busy", table=replace(other.table, name=BUSY.name))
    end = make("rewrite_conflicted/new_position_deletes")
    tasks.take(replace(other, task_id="zero"), 1.0)
    tasks.take(replace(end, task_id="zero"), 2.0)
    tasks.take(busy, 3.0)
    assert tasks.standstill_s("committer", 60.0) == 0.0
    tasks.take(other, 61.0)
    assert tasks.standstill_s("committer", 67.0) == 6.0


def test_an_order_of_another_clock_is_not_waited_for() -> None:
    tasks = OpenTasks()
    first = make("rewrite_finished/native")
    tasks.take(replace(first, task_id="zero"), 1.0)
    tasks.take(replace(make("rewrite_conflicted/new_position_deletes"), task_id="zero"), 2.0)
    tasks.take(first, 3.0)
    tasks.set_aside(replace(first, task_id="another"), 8.0)
    assert tasks.standstill_s("committer", 9.0) == 6.0
    tasks.set_aside(first, 9.0)
    assert tasks.standstill_s("committer", 60.0) == 0.0


def test_a_commit_waits_until_its_changes_are_there() -> None:
    commits = OpenCommits()
    first, change = make("table_committed/upsert"), make("files_changed/upsert")
    (moved,) = first.refs
    second = replace(first, refs=(replace(moved, snapshot_id=2),))
    commits.take(replace(change, snapshot_id=2), 9.0)  # its commit is read later
    commits.take(first, 10.0)
    commits.take(second, 11.0)
    commits.take(replace(first, refs=(replace(moved, kind="tag", snapshot_id=3),)), 11.0)
    assert commits.longest_s(16.0) == 6.0
    commits.take(replace(change, snapshot_id=moved.snapshot_id), 17.0)
    assert commits.longest_s(30.0) == 0.0


def test_a_table_is_refused_for_a_while_and_only_to_readers() -> None:
    seconds = iter((0.0, 1.0, 80.0, 106.0))
    refuse = refusing(lambda: next(seconds))
    writers = Message()
    writers["Content-Length"] = "2"
    assert refuse(f"{REFUSED_PATH}?snapshots=refs", Message())
    assert refuse(REFUSED_PATH, writers) is None
    assert refuse(f"{REFUSED_PATH}2", Message()) is None
    assert refuse(REFUSED_PATH, Message()) is None
    assert refuse(REFUSED_PATH, Message())


def test_what_is_owed_and_not_there_is_found(tmp_path: Path) -> None:
    outside = tmp_path / "file"
    outside.write_bytes(b"")
    dice = random.Random(5)
    owed = next(one for one in iter(lambda: records.draw(TENANT, dice), None) if one.refused)
    book = Book(owed={PLACE: owed})
    assert findings(book, {PLACE}, outside) == []
    assert "no dead letter" in findings(book, set(), outside)[0]
    outside.unlink()
    assert "is gone" in findings(book, {PLACE}, outside)[0]


def test_only_the_tenants_letters_are_expected() -> None:
    letter = make("dead_lettered/unknown_schema")
    ledger = Ledger(letters=[letter])
    place = (letter.topic, letter.partition, letter.offset)
    assert invariants.letters(ledger, {place}) == []
    stale = Ledger(letters=[replace(letter, reason="stale")])
    assert invariants.letters(stale)
    assert invariants.letters(stale, clocks_far=True) == []
    assert invariants.letters(ledger, {PLACE})
