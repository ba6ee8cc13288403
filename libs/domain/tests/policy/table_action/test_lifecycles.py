"""Lives of the actions on tables: what each orders or waits for at a moment, and what an answer
changes. A line is a moment, in ms since NOW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters, Totals
from firnline_domain.counters.state.work import ActionWork, Table, TableWork
from firnline_domain.identity import TableName
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import (
    AgeReason,
    PartitionArchiving,
    PartitionExpiry,
)
from firnline_domain.policy.table_action.compute_statistics import Statistics
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.policy.table_action.upgrade_format import FormatReason, FormatUpgrade
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
NAME = TableName("u", ("db",), "t")
COUNTERS = TableCounters(NAME, "main", known=True, head_snapshot_id=7, format_version=2)


@dataclass
class Life:
    """Of one action on one table. `order`: the last one."""

    action: Any
    table: Table
    settings: Thresholds
    order: Any = None

    def plan(self, at: int, settings: Thresholds | None) -> tuple[Table, Any]:
        given = table_input(self.table, settings or self.settings, NOW + at)
        planned: tuple[Table, Any] = self.action.plan_order(given)
        return planned

    def work(self, table: Table) -> ActionWork:
        return table.work.actions.get(self.action.name) or ActionWork(reason=Reason.HEALTHY)


Moment = Callable[[Life], None]


def orders(at: int, reason: str, settings: Thresholds | None = None, **numbers: Any) -> Moment:
    """An order for this reason. `numbers`: that it has, None: that it has not."""

    def check(life: Life) -> None:
        life.table, life.order = life.plan(at, settings)
        assert life.order is not None, life.work(life.table)
        found = {name: life.order.numbers.get(name) for name in numbers}
        assert (life.order.action, life.order.reason, found) == (life.action.name, reason, numbers)

    return check


def rests(at: int, reason: str, settings: Thresholds | None = None) -> Moment:
    """No order, for this reason."""

    def check(life: Life) -> None:
        table, order = life.plan(at, settings)
        assert (order, life.work(table).reason) == (None, reason)

    return check


def answers(at: int, word: str = "", done: bool = False, **numbers: float) -> Moment:
    """The worker's result. `word`: what became of it; `done`: the action has been done then."""

    def take(life: Life) -> None:
        now_ms, order = NOW + at, life.order
        result = TableResult(order.task_id, NAME, order.action, None, "w", now_ms, numbers)
        life.table, found = life.action.after_result(life.table, result, now_ms)
        assert not word or found == word
        assert not done or life.work(life.table).done_ms == now_ms

    return take


def fails(at: int, reason: str = "") -> Moment:
    def take(life: Life) -> None:
        life.table, _ = life.action.after_failure(life.table, life.order.task_id, reason, NOW + at)

    return take


def is_told_by_another(life: Life) -> None:
    """An answer to another order changes nothing."""
    before, order = life.table, life.order
    result = TableResult("other", NAME, order.action, None, "w", NOW, {"announced": 1.0})
    assert life.action.after_result(life.table, result, NOW)[0] == before


def becomes(version: int) -> Moment:
    def change(life: Life) -> None:
        counters = replace(life.table.counters, format_version=version)
        life.table = replace(life.table, counters=counters)

    return change


def announced(action: Any, **work: Any) -> Table:
    """By a clock that was a day ahead."""
    told = ActionWork(announced_ms=NOW + DAY_MS, **work)
    return Table(COUNTERS, TableWork(actions={action.name: told}))


def holding(deletes: int, data: int) -> Table:
    holds = FileTally(on_target=Tally(data, data, data), position_deletes=Tally(deletes, 1, 1))
    return Table(replace(COUNTERS, totals=Totals(holds)))


TABLE = Table(COUNTERS)
AGE, ARCHIVE = Thresholds(partition_ttl_h=720), Thresholds(archive_after_h=720)
EXPIRY, ARCHIVING, UPGRADE = PartitionExpiry(), PartitionArchiving(), FormatUpgrade()
V3 = resolve_thresholds({"firnline.format-version": "3"})
ORPHANS = resolve_thresholds({"firnline.orphans.enabled": "true"})
MINUTE = resolve_thresholds({"firnline.manifests.min-interval-ms": "60000"})
OFTEN = replace(AGE, partition_interval_ms=60_000)
SMALL = Table(replace(COUNTERS, manifests=101, manifest_bytes=1 << 20))
ANNOUNCED = [orders(0, AgeReason.PARTITIONS_ANNOUNCED), answers(0, going_files=3, ttl_h=720)]
LIVES: list[tuple[str, Any, Table, Thresholds, list[Moment]]] = [
    *((f"{action.name}: an owner who has said nothing", action, holding(1, 1), Thresholds(),
       [rests(0, Reason.HEALTHY)])
      for action in (EXPIRY, ARCHIVING, UPGRADE, Statistics(), OrphanRemoval())),
    *((f"upgrade_format: to {text}", UPGRADE, TABLE,
       resolve_thresholds({"firnline.format-version": text}), [rests(0, Reason.HEALTHY)])
      for text in ("2", "1", "4", "three")),
    ("expire_partitions: announced, and begun when the grace period is over", EXPIRY, TABLE, AGE, [
        orders(0, AgeReason.PARTITIONS_ANNOUNCED, announces=1, ttl_h=720),
        answers(0, going_files=3, ttl_h=720),
        rests(DAY_MS - 1, AgeReason.PARTITIONS_GRACE),
        orders(DAY_MS, AgeReason.OLD_PARTITIONS, announced_ms=NOW, announces=None),
        answers(DAY_MS, done=True, files_removed=3),
        rests(DAY_MS + 6 * HOUR_MS - 1, Reason.COOLING),
        orders(DAY_MS + 6 * HOUR_MS, AgeReason.OLD_PARTITIONS),
    ]),
    ("expire_partitions: nothing is old enough", EXPIRY, TABLE, AGE, [
        orders(0, AgeReason.PARTITIONS_ANNOUNCED), answers(0, going_files=0, ttl_h=720),
        rests(6 * HOUR_MS - 1, Reason.COOLING),
        orders(6 * HOUR_MS, AgeReason.PARTITIONS_ANNOUNCED),
    ]),
    ("expire_partitions: a shorter age is announced again", EXPIRY, TABLE, AGE, [
        *ANNOUNCED,
        orders(2 * DAY_MS, AgeReason.PARTITIONS_ANNOUNCED, replace(AGE, partition_ttl_h=1)),
    ]),
    ("expire_partitions: a longer age is not", EXPIRY, TABLE, AGE, [
        *ANNOUNCED, orders(2 * DAY_MS, AgeReason.OLD_PARTITIONS, replace(AGE, partition_ttl_h=721)),
    ]),
    ("expire_partitions: as often as the owner says", EXPIRY, TABLE, AGE, [
        orders(0, AgeReason.PARTITIONS_ANNOUNCED), answers(0, going_files=0, ttl_h=720),
        rests(59_999, Reason.COOLING, OFTEN), orders(60_000, AgeReason.PARTITIONS_ANNOUNCED, OFTEN),
    ]),
    ("expire_partitions: a clock that was set back", EXPIRY, announced(EXPIRY, announced_h=720),
     AGE, [orders(0, AgeReason.PARTITIONS_ANNOUNCED)]),
    ("expire_partitions: what is to be archived", EXPIRY, TABLE,
     replace(ARCHIVE, partition_ttl_h=1_000), [rests(0, Reason.HEALTHY)]),
    ("archive_partitions: announced, and begun when the grace period is over", ARCHIVING, TABLE,
     ARCHIVE, [
        orders(0, AgeReason.ARCHIVE_ANNOUNCED, announces=1, archive_h=720),
        answers(0, "announced", going_files=3, archive_h=720),
        rests(DAY_MS - 1, AgeReason.ARCHIVE_GRACE),
        orders(DAY_MS, AgeReason.ARCHIVE_DUE, announced_ms=NOW),
    ]),
    ("archive_partitions: a shorter age is announced again", ARCHIVING, TABLE, ARCHIVE, [
        orders(0, AgeReason.ARCHIVE_ANNOUNCED), answers(0, going_files=3, archive_h=720),
        orders(DAY_MS, AgeReason.ARCHIVE_ANNOUNCED, replace(ARCHIVE, archive_after_h=1)),
    ]),
    ("upgrade_format: announced, then done and never asked for again", UPGRADE, TABLE, V3, [
        orders(0, FormatReason.FORMAT_ANNOUNCED, announces=1),
        answers(0, announced=1, writers_not_ready=2),
        rests(DAY_MS - 1, FormatReason.FORMAT_GRACE),
        orders(DAY_MS, FormatReason.FORMAT_VERSION, announced_ms=NOW, wanted_version=3,
               announces=None),
        answers(DAY_MS, done=True, to_version=3), becomes(3), rests(30 * DAY_MS, Reason.HEALTHY),
    ]),
    ("upgrade_format: refused, it is tried ever more rarely", UPGRADE, TABLE, V3, [
        orders(0, FormatReason.FORMAT_ANNOUNCED), answers(0, announced=1),
        *(moment
          for at_h, wait_h in ((24, 2), (26, 4), (30, 8), (38, 16), (54, 24), (78, 24))
          for moment in (
              orders(at_h * HOUR_MS, FormatReason.FORMAT_VERSION),
              fails(at_h * HOUR_MS, "writer_not_ready"),
              rests((at_h + wait_h) * HOUR_MS - 1, "writer_not_ready"),
          )),
    ]),
    ("upgrade_format: v3 already, it is looked at once", UPGRADE, TABLE, V3, [
        becomes(3), orders(0, FormatReason.FORMAT_VERSION), answers(0, to_version=3),
        rests(30 * DAY_MS, Reason.HEALTHY),
    ]),
    ("upgrade_format: a clock that was set back", UPGRADE, announced(UPGRADE), V3,
     [orders(0, FormatReason.FORMAT_ANNOUNCED)]),
    ("upgrade_format: an answer to another order", UPGRADE, TABLE, V3,
     [orders(0, FormatReason.FORMAT_ANNOUNCED), is_told_by_another]),
    ("remove_dangling_deletes: at most once a day", DanglingDeletes(), holding(500, 1),
     Thresholds(), [
        orders(0, "dangling_deletes"), fails(0), rests(DAY_MS - 1, Reason.COOLING),
        orders(DAY_MS, "dangling_deletes"),
    ]),
    ("remove_orphans: once a week", OrphanRemoval(), TABLE, ORPHANS, [
        orders(0, "orphan_interval"), fails(0), rests(7 * DAY_MS - 1, Reason.COOLING),
        orders(7 * DAY_MS, "orphan_interval"),
    ]),
    *((f"rewrite_manifests: every {pause_ms} ms", ManifestRewrite(), SMALL, settings, [
        orders(0, "many_manifests"), answers(0), rests(pause_ms - 1, Reason.COOLING),
        orders(pause_ms, "many_manifests"),
    ]) for settings, pause_ms in ((Thresholds(), HOUR_MS), (MINUTE, 60_000))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "table", "settings", "moments"),
    [one[1:] for one in LIVES],
    ids=[one[0] for one in LIVES],
)
def test_a_life(action: Any, table: Table, settings: Thresholds, moments: list[Moment]) -> None:
    life = Life(action, table, settings)
    for moment in moments:
        moment(life)


def test_each_moment_can_be_broken() -> None:
    """A wrong reason, a wrong number and a wrong time are seen."""
    for wrong in (
        orders(0, AgeReason.OLD_PARTITIONS),
        orders(0, AgeReason.PARTITIONS_ANNOUNCED, ttl_h=719),
        rests(0, Reason.HEALTHY),
    ):
        with pytest.raises(AssertionError):
            wrong(Life(EXPIRY, TABLE, AGE))
