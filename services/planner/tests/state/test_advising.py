"""Advice is told when it changes, remembered over a restart, and withdrawn with its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.advice.snapshots import METADATA_BYTES
from firnline_domain.advice.sorting import DATA_FILES, SCANS, TARGETS
from firnline_domain.advice.writers import METADATA_COMMITS
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import TAU_MS
from firnline_domain.identity import Scope
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.records.events import (
    ChangeKind,
    FilteredBy,
    PartitionChange,
    RewriteConflicted,
    RewriteSkipped,
    TableLayout,
    TableScanned,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskFailed, TaskRunning
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.state.effects import ADVICE

from tests.kit.planner_world import TABLE, PlannerWorld, committed, part

LIMITS = Thresholds(quiet_ms=0, min_fragments=2)
MISSPELT = {"firnline.rewrite.min-fragment": "3"}


@dataclass
class World(PlannerWorld):
    """A writer appends to the table."""

    now_ms: int = 1_000_000_000
    limits: Thresholds = LIMITS
    settings: dict[str, str] = field(default_factory=dict)

    def append(self, **more: Any) -> list[Any]:
        return self.commit(part(Scope(0, "[]"), 1), **{"settings": self.settings, **more})

    def scanned(self, scans: int, read: float = 1.0, order: str = "ts") -> list[Any]:
        """A report of scans that filter by `id`, each of which reads that share of the table."""
        files = round(scans * DATA_FILES * read)
        by_id = FilteredBy("id", scans, files)
        return self.take(
            TableScanned(
                TABLE, self.now_ms, self.now_ms, scans, files, (by_id,), TableLayout((order,))
            )
        )

    def advice_sent(self, ms: int = 1_000) -> list[tuple[str, bool]]:
        """(Rule, withdrawn) of what is sent within so long."""
        records = self.tick(ms)
        return [(one.rule, one.withdrawn) for one in records if isinstance(one, TableAdvice)]

    def listed(self) -> tuple[str, ...]:
        """Of the newest state."""
        return self.published()[-1].advised


@pytest.fixture
def world() -> World:
    return World()


def test_advice_goes_to_its_topic_once_and_is_listed_with_every_state(world: World) -> None:
    world.settings = MISSPELT
    world.append()
    assert world.advice_sent() == [("unknown_settings", False)]
    [sent] = [one for one in world.sent if isinstance(one.record, TableAdvice)]
    assert (sent.topic, sent.key) == (ADVICE, "u1/main/unknown_settings")
    world.append()
    assert world.advice_sent() == []
    assert world.listed() == ("unknown_settings",)


def test_a_restart_does_not_tell_it_again_and_a_correction_withdraws_it(world: World) -> None:
    world.settings = MISSPELT
    world.append()
    world.advice_sent()
    world.restart()
    world.append()
    assert world.advice_sent() == []
    world.settings = {"firnline.rewrite.min-fragments": "3"}
    world.append()
    assert world.advice_sent() == [("unknown_settings", True)]
    assert world.listed() == ()


def test_what_is_said_about_an_hour_is_withdrawn_though_nothing_happens(world: World) -> None:
    world.settings = {"firnline.enabled": "false"}  # no debt that grows old brings a look
    for _ in range(METADATA_COMMITS):
        world.append()
    assert world.advice_sent() == [("metadata_files_kept", False)]
    assert world.advice_sent(HOUR_MS) == []
    assert world.advice_sent(HOUR_MS) == [("metadata_files_kept", True)]


def test_results_that_writers_spoil_are_counted_once(world: World) -> None:
    world.append()
    for _ in range(3):
        [order] = [one for one in world.append() if hasattr(one, "deadline_ms")]
        spoilt = RewriteConflicted(
            order.task_id, TABLE, "main", order.scope, ConflictReason.PIN_LOST, "", 1, 2, 0
        )
        assert ("write_conflicts", False) not in world.advice_sent()
        world.take(spoilt)
        world.take(spoilt)
        world.now_ms += 60_000
    assert ("write_conflicts", False) in world.advice_sent()


def test_an_order_that_no_worker_begins_is_told_of_until_one_does(world: World) -> None:
    world.append()
    [order] = [one for one in world.append() if hasattr(one, "max_bytes")]
    world.advice_sent()
    world.now_ms += 16 * 60_000
    world.append()
    assert world.advice_sent() == [("waiting_orders", False)]
    at_work = TaskRunning(
        order.task_id, TABLE, "main", order.scope, 1, "w", world.now_ms, world.now_ms
    )
    world.take(at_work)
    world.append()
    assert world.advice_sent() == [("waiting_orders", True)]


@pytest.mark.parametrize(("worked_ms", "told"), [(230_000, False), (400_000, True)])
def test_rewrites_that_take_longer_than_their_work_are_told_of(
    world: World, worked_ms: int, told: bool
) -> None:
    """A minute of work by the model; prices learn from each, so the third was foretold longer."""
    bytes_read = int(60 * FIRNLINE.cores / FIRNLINE.read_s)
    world.append()
    for _ in range(3):
        [order] = [one for one in world.append() if hasattr(one, "max_bytes")]
        numbers = {"worked_ms": worked_ms, "bytes_read": bytes_read}
        world.take(replace(committed(order, world.head + 1), **numbers))
        world.commit(task_id=order.task_id, operation="replace")
        world.now_ms += 60_000
        world.append()
        world.tick()
    assert ("slow_rewrites" in world.listed()) is told


def test_a_file_that_is_there_twice_is_told_of_until_a_rewrite_is_fine(world: World) -> None:
    """Said by the worker that planned, or by the committer: it may have become so in between."""
    world.append()
    [order] = [one for one in world.append() if hasattr(one, "deadline_ms")]
    where = "s3://lake/t/a.parquet is in the table more than once"
    world.take(
        TaskFailed(
            order.task_id, TABLE, "main", order.scope, "rewrite", 1, "w", "duplicate_files",
            where, False, world.now_ms,
        )
    )  # fmt: skip
    assert world.advice_sent() == [("duplicate_files", False)]
    [told] = [one.record for one in world.sent if isinstance(one.record, TableAdvice)]
    assert where in told.finding
    assert "firnline unpark db.t" in told.remedy
    world.now_ms += 3_600_000
    [order] = [one for one in world.append() if hasattr(one, "deadline_ms")]
    refused = RewriteConflicted(
        order.task_id, TABLE, "main", order.scope, ConflictReason.DUPLICATE_FILES, where, 1, 2, 0
    )
    world.take(refused)
    assert world.advice_sent() == []  # it holds already
    world.now_ms += 3_600_000
    [order] = [one for one in world.append() if hasattr(one, "deadline_ms")]
    skipped = RewriteSkipped(order.task_id, TABLE, "main", order.scope, "nothing_to_do", 0)
    world.take(skipped)
    assert world.advice_sent() == [("duplicate_files", True)]


def sortable(world: World) -> World:
    """With files that are worth an order; nothing else happens to the table."""
    world.settings = {"firnline.enabled": "false", "write.target-file-size-bytes": "1000"}
    data = FileTally(on_target=Tally(DATA_FILES, 1, int(TARGETS * 1_000)))
    world.append(partitions=(PartitionChange(Scope(0, "[]"), data, FileTally()),))
    assert world.advice_sent() == []
    return world


def test_readers_who_miss_an_order_are_heard_though_nothing_else_happens(world: World) -> None:
    sortable(world)
    world.scanned(int(SCANS) - 1)
    assert world.advice_sent() == []
    world.scanned(2)
    assert world.advice_sent() == [("missing_sort_order", False)]
    [told] = [one.record for one in world.sent if isinstance(one.record, TableAdvice)]
    assert "ALTER TABLE `db`.`t` WRITE ORDERED BY `id` (Spark" in told.remedy
    assert "SET TBLPROPERTIES ('firnline.sort' = 'id')" in told.remedy
    shown = len(world.sent)
    for _ in range(10):
        world.scanned(1)
        assert world.advice_sent() == []
    assert len(world.sent) == shown  # nor is the table shown for it


def test_a_restart_remembers_what_readers_filter_by(world: World) -> None:
    sortable(world)
    world.scanned(int(SCANS) - 1)
    world.restart()
    world.scanned(2)
    assert world.advice_sent() == [("missing_sort_order", False)]


def test_an_order_that_was_made_withdraws_it(world: World) -> None:
    sortable(world)
    world.scanned(int(SCANS) + 1)
    world.advice_sent()
    world.scanned(1, order="id")
    assert world.advice_sent() == [("missing_sort_order", True)]


def test_scans_that_read_little_withdraw_it(world: World) -> None:
    sortable(world)
    world.scanned(int(SCANS) + 1)
    world.advice_sent()
    world.scanned(int(3 * SCANS), read=0.0)
    assert world.advice_sent() == [("missing_sort_order", True)]


def test_readers_who_are_gone_withdraw_it_though_nothing_happens(world: World) -> None:
    sortable(world)
    world.scanned(int(SCANS) + 1)
    assert world.advice_sent() == [("missing_sort_order", False)]
    assert world.advice_sent(TAU_MS // 5) == []  # 21 scans are 17
    assert world.advice_sent(TAU_MS // 10) == [("missing_sort_order", True)]  # and 15.6
    assert world.advice_sent(TAU_MS) == []


def test_large_metadata_is_told_and_withdrawn_when_an_expiry_has_made_it_small(
    world: World,
) -> None:
    world.append()
    assert (world.advice_sent(), world.published()[-1].metadata_bytes) == ([], None)
    world.append(metadata_bytes=METADATA_BYTES)
    assert world.advice_sent() == [("large_metadata", False)]
    [*_, sent] = [one.record for one in world.sent if isinstance(one.record, TableAdvice)]
    assert "metadata.json) has 8.39 MB" in sent.finding
    world.append()
    assert world.advice_sent() == []
    assert world.published()[-1].metadata_bytes == METADATA_BYTES
    world.append(metadata_bytes=METADATA_BYTES // 2)
    assert world.advice_sent() == [("large_metadata", True)]


def test_a_dropped_table_takes_its_advice_along(world: World) -> None:
    world.settings = MISSPELT
    world.append()
    world.advice_sent()
    world.append(kind=ChangeKind.REMOVED, snapshot_id=None, partitions=(), format_version=0)
    assert world.advice_sent() == [("unknown_settings", True)]
    assert world.advice_sent() == []
