"""Expiry keeps what a running task started from, and refuses where files are shared."""

from __future__ import annotations

import time

import pytest
from firnline_domain.commands import ExpireSnapshots
from firnline_worker.expiry import Expirer

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def running() -> set[int]:
    """Start snapshots of running tasks."""
    return set()


@pytest.fixture
def expirer(tables, java, running) -> Expirer:
    return Expirer(tables, java, lambda uuid: running, "w1", lambda: int(time.time() * 1000))


def order(lab, protected=(), retain_last=1):
    now = int(time.time() * 1000)
    return ExpireSnapshots("e1", lab.name, now, retain_last, tuple(protected), "r", 1, 1, now)


def filled(lab, **properties):
    """Three appends and an overwrite of all: four snapshots, the old files reachable by three."""
    lab.create("id BIGINT", **properties)
    for number in range(3):
        lab.insert(f"({number})")
    lab.sql("INSERT OVERWRITE {t} SELECT 9")
    return [snapshot.snapshot_id for snapshot in lab.table().snapshots]


def left(lab):
    return [snapshot.snapshot_id for snapshot in lab.table().snapshots]


def test_old_snapshots_and_their_files_go(lab, expirer, in_thread):
    snapshots = filled(lab)
    before = lab.stored()
    result = in_thread(expirer.expire, order(lab))
    assert left(lab) == snapshots[-1:]
    assert (result.expired, result.remaining, result.refused_reason) == (3, 1, None)
    assert result.deleted_files == len(before - lab.stored()) >= 6
    assert lab.rows() == [(9,)]
    again = expirer.expire(order(lab))
    assert (again.expired, again.deleted_files) == (0, 0)


def test_what_a_running_task_started_from_stays(lab, expirer, running):
    snapshots = filled(lab)
    running.add(snapshots[2])
    expirer.expire(order(lab))
    assert left(lab) == snapshots[2:]
    running.clear()
    expirer.expire(order(lab, protected=[snapshots[2]]))
    assert left(lab) == snapshots[2:]
    expirer.expire(order(lab, retain_last=2))
    assert left(lab) == snapshots[2:]
    expirer.expire(order(lab))
    assert left(lab) == snapshots[3:]


def test_files_that_a_branch_reaches_stay(lab, expirer):
    snapshots = filled(lab)
    lab.sql(f"ALTER TABLE {{t}} CREATE TAG kept AS OF VERSION {snapshots[1]}")
    expirer.expire(order(lab))
    assert left(lab) == [snapshots[1], snapshots[3]]
    tagged = lab.sql("SELECT * FROM {t} VERSION AS OF 'kept'").collect()
    assert sorted(row[0] for row in tagged) == [0, 1]


def test_a_table_whose_files_are_shared_is_refused(lab, expirer):
    snapshots = filled(lab, **{"gc.enabled": "false"})
    result = expirer.expire(order(lab))
    assert (result.refused_reason, result.expired) == ("gc_disabled", 0)
    assert left(lab) == snapshots
