"""A table whose readers cannot apply equality deletes, its writer, and workers that take time."""

from __future__ import annotations

import pytest
from firnline_domain.advice.rules import RULES
from firnline_domain.counters.state.work import TableWork
from firnline_domain.identity import MAIN
from firnline_domain.records.events import PartitionChange, TickPassed
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner import meters
from firnline_planner.state.bucket_state import BucketState

from tests.kit.planner_world import TABLE, A, PlannerWorld, committed

MINUTE_MS = 60_000
GB = 1 << 30
PROMISE_MS = 10 * MINUTE_MS
KEYS = Tally(1, 1_000, 10_000)
# Whatever else would hold an order back does.
DEAR = {
    "firnline.reads-per-hour": "0",
    "firnline.rewrite.max-wait-ms": "999999999999",
    "firnline.rewrite.max-age-ms": "999999999999",
    "firnline.rewrite.quiet-ms": "86400000",
    "firnline.commit.max-per-hour": "1",
}
NONE = FileTally()


class World(PlannerWorld):
    """An upsert a minute into one partition of ten gigabytes."""

    def __init__(self, takes_ms: int, promise_ms: int = PROMISE_MS) -> None:
        super().__init__(now_ms=1_800_000_000_000, limits=Thresholds())
        self.takes_ms = takes_ms
        self.deletes: list[int] = []  # commits of those that are there
        self.oldest_ms = 0
        self.orders = 0
        self.out: tuple[RewriteFiles, int, int] | None = None  # with when it is done, and of what
        settings = {**DEAR, "firnline.equality-deletes.max-age-ms": str(promise_ms)}
        self.more = {"settings": settings}
        self.commit(PartitionChange(A, FileTally(on_target=Tally(20, 10**8, 10 * GB)), NONE))

    @property
    def work(self) -> TableWork:
        table = BucketState(self.store).table(TABLE.uuid, MAIN)
        assert table is not None
        return table.work

    def second(self) -> None:
        self.now_ms += 1_000
        self.watch(self.take(TickPassed(0, self.now_ms)))
        if self.out is not None and self.out[1] <= self.now_ms:
            self.finish()
        if self.deletes:
            self.oldest_ms = max(self.oldest_ms, self.now_ms - self.deletes[0])

    def upsert(self) -> None:
        added = FileTally(fragments=Tally(1, 1_000, 100_000), equality_deletes=KEYS)
        self.watch(self.commit(PartitionChange(A, added, NONE)))
        self.deletes.append(self.now_ms)

    def watch(self, records: list[object]) -> None:
        for order in records:
            if isinstance(order, RewriteFiles):
                self.orders += 1
                self.out = order, self.now_ms + self.takes_ms, len(self.deletes)

    def finish(self) -> None:
        assert self.out is not None
        order, _, taken = self.out
        self.out = None
        self.watch(self.take(committed(order, self.head + 1, at_ms=self.now_ms)))
        gone = FileTally(equality_deletes=Tally(taken, taken * 1_000, taken * 10_000))
        part = PartitionChange(A, NONE, gone)
        self.deletes = self.deletes[taken:]
        self.watch(self.commit(part, task_id=order.task_id, operation="overwrite"))

    def live(self, minutes: int) -> World:
        for _ in range(minutes):
            self.upsert()
            for _ in range(60):
                self.second()
        return self

    def advised(self) -> list[TableAdvice]:
        advice = (one.record for one in self.sent if isinstance(one.record, TableAdvice))
        return [one for one in advice if one.rule == "equality_delete_promise"]


@pytest.mark.parametrize("takes_s", [5, 60, 200])
def test_no_equality_delete_becomes_older_than_promised(takes_s: int) -> None:
    world = World(takes_s * 1_000).live(120)
    assert 0 < world.oldest_ms <= PROMISE_MS
    assert world.orders >= 11
    assert world.orders <= 120 // (10 - (1.5 * takes_s + 90) / 60) + 1  # no oftener than needed
    assert world.work.service.turnaround_ms == pytest.approx(takes_s * 1_000, abs=2_000)
    assert not world.advised()


def test_without_a_promise_they_stay() -> None:
    world = World(5_000, promise_ms=0).live(60)
    assert world.orders == 0
    assert world.oldest_ms > 59 * MINUTE_MS
    assert world.bucket.promise_used == 0.0
    assert world.work.service.promised is None


def test_a_promise_that_cannot_be_held_is_told_of() -> None:
    """An order takes eight minutes of ten: those that come just after it went out are too old."""
    world = World(8 * MINUTE_MS).live(120)
    assert world.oldest_ms > PROMISE_MS
    [advice, *_] = world.advised()
    assert "no equality delete may be older than 600 s" in advice.finding
    assert advice.rule in RULES
    assert world.oldest_ms < 2 * PROMISE_MS  # at it all the time


def test_the_metric_is_the_age_over_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    world, shown = World(10**9), dict[str, float]()
    monkeypatch.setattr(
        meters.metrics, "gauge", lambda name, value, **_: shown.update({name: value})
    )
    world.live(15)
    ratios = []
    for _ in range(2):
        meters.set_gauges([world.bucket])
        ratio = shown["equality_delete_age_of_promise"]
        assert ratio == pytest.approx((world.now_ms - world.deletes[0]) / PROMISE_MS, rel=0.01)
        ratios.append(ratio)
        world.finish()
        for _ in range(10):
            world.second()
    assert ratios[0] > 1.4 > ratios[1] + 0.3
