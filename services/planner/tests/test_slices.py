"""A partition that is too large for one order is rewritten slice by slice."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.policy.triggers.slices import slice_max_bytes
from firnline_domain.records.events import PartitionChange, RewriteCommitted
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice, StoredFile
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import partition, policy_input, table
from tests.kit.planner_world import A, B, PlannerWorld, committed, failed, only, orders, part
from tests.kit.planner_world import partition_of as state_of

MB, GB, TB = 1 << 20, 1 << 30, 1 << 40
FILE = 128 * MB
MINUTE_MS = 60_000
LARGE = Thresholds(quiet_ms=0, reads_per_hour=1_000.0, target_bytes=FILE, max_commits=0)
SLICED = policy_input(table(), partition(), LARGE)
KEYS = 0.15


def files(count: int) -> FileTally:
    return FileTally(on_target=Tally(count, count * 1_000_000, count * FILE))


def upsert() -> PartitionChange:
    """A commit of a streaming writer."""
    equality = Tally(1, 1_000, 20_000)
    fragment = Tally(1, 1_000, MB)
    return PartitionChange(A, FileTally(fragments=fragment, equality_deletes=equality), FileTally())


@dataclass
class Lake:
    """One partition of so many files, a writer that commits every minute, and a worker that does
    what it is told: it takes `rate` bytes a second, and its first pass is of all there is."""

    count: int
    rate: float
    world: PlannerWorld = field(default_factory=lambda: PlannerWorld(limits=LARGE))
    deletes: int = 0
    fragments: int = 0
    done: int = 0  # files of the pass
    pass_deletes: int = 0  # that were there when it began
    pass_fragments: int = 0
    sent: list[RewriteFiles] = field(default_factory=list)
    most_deletes: int = 0
    passes: int = 0

    def start(self) -> None:
        self.take(self.world.commit(PartitionChange(A, files(self.count), FileTally())))

    def take(self, records: list[object]) -> None:
        self.sent += orders(records)

    def write(self) -> None:
        self.deletes, self.fragments = self.deletes + 1, self.fragments + 1
        self.take(self.world.commit(upsert()))
        self.most_deletes = max(self.most_deletes, self.deletes)

    def live(self, for_ms: int) -> None:
        """A minute at a time; the oldest order is worked on."""
        ends_ms, busy_ms, at_work = self.world.now_ms + for_ms, 0.0, None
        while self.world.now_ms < ends_ms:
            self.write()
            self.take(self.world.tick(MINUTE_MS - 10))
            if at_work is None and self.sent:
                at_work = self.sent.pop(0)
                busy_ms = self.begin(at_work)
            busy_ms -= MINUTE_MS
            if at_work is not None and busy_ms <= 0:
                self.end(at_work)
                at_work = None

    def begin(self, order: RewriteFiles) -> float:
        if order.after is None:
            self.done = 0
            self.pass_deletes, self.pass_fragments = self.deletes, self.fragments
        share = KEYS if order.action == "convert" else 1.0
        size = FILE * share
        room = order.max_bytes // size if order.max_bytes else self.count
        self.taken = int(max(min(room, self.count - self.done), 1))
        return self.taken * size / self.rate * 1_000

    def end(self, order: RewriteFiles) -> None:
        self.done += self.taken
        left = self.count - self.done
        removed = FileTally() if order.action == "convert" else files(self.taken)
        if not left:
            self.passes += 1
            equality = Tally(self.pass_deletes, self.pass_deletes * 1_000)
            small = Tally(
                self.pass_fragments, self.pass_fragments * 1_000, self.pass_fragments * MB
            )
            removed = removed + FileTally(equality_deletes=equality, fragments=small)
            self.deletes -= self.pass_deletes
            self.fragments -= self.pass_fragments
        added = FileTally() if order.action == "convert" else files(self.taken)
        change = PartitionChange(A, added, removed)
        self.take(self.world.commit(change, task_id=order.task_id, operation="replace"))
        self.take(self.world.take(told(order, self.world.head, left)))


def told(order: RewriteFiles, snapshot: int, left: int) -> RewriteCommitted:
    number = order.after.sequence_number if order.after else order.trigger_snapshot_id
    size = int(left * FILE)
    done = Slice(order.action, order.reason, number, order.min_dead_ratio, left, size)
    sliced = left or order.after is not None
    return replace(committed(order, snapshot), slice=done if sliced else None)


def first_order(world: PlannerWorld) -> RewriteFiles:
    while True:
        records = [*world.commit(upsert()), *world.tick(MINUTE_MS)]
        if found := orders(records):
            return only(found)


@pytest.mark.parametrize(("convert", "rate"), [("never", 36e6), ("always", 90e6)])
def test_a_terabyte_is_served_in_slices_of_the_set_share_of_the_deadline(
    convert: str, rate: float
) -> None:
    """Whatever is written meanwhile: the pass ends, and so does the next one."""
    world = PlannerWorld(limits=LARGE)
    world.more = {"settings": {"firnline.rewrite.convert": convert}}
    lake = Lake(TB // FILE, rate, world)
    lake.start()
    seen: list[RewriteFiles] = []
    begin = lake.begin

    def noted(order: RewriteFiles) -> float:
        seen.append(order)
        took_ms = begin(order)
        assert took_ms <= 6 * MINUTE_MS
        return took_ms

    lake.begin = noted  # type: ignore[method-assign]
    lake.live(30 * HOUR_MS)
    most = slice_max_bytes(SLICED, seen[0].action)
    assert 10 * GB < slice_max_bytes(SLICED, "compact") < 11 * GB  # five minutes on two cores
    assert {order.max_bytes for order in seen} == {most}
    assert max(order.run_ms for order in seen) <= LARGE.deadline_ms
    slices = TB * (KEYS if convert == "always" else 1) / most
    assert lake.passes >= 2
    first = [order.after for order in seen].index(None, 1)
    assert slices <= first <= slices * 1.2 + 1
    assert len({order.task_id for order in seen}) == len(seen)
    assert {(order.action, order.reason) for order in seen[:first]} == {
        (seen[0].action, seen[0].reason)
    }
    assert world.effects.outcomes.count("lost") == 0


def test_what_takes_longer_than_the_deadline_is_no_failure_and_debt_is_bounded() -> None:
    """36 minutes of work, a deadline of 30, a commit a minute, for two days."""
    world = PlannerWorld(limits=LARGE)
    world.more = {"settings": {"firnline.rewrite.convert": "never"}}
    lake = Lake(612, 80 * GB / (36 * 60), world)
    lake.start()
    outcomes: list[str] = []
    take = world.take

    def noted(record: object, keep: bool = True) -> list[object]:
        found = take(record, keep)
        outcomes.extend(world.effects.outcomes)
        return found

    world.take = noted  # type: ignore[method-assign]
    lake.live(48 * HOUR_MS)
    assert set(outcomes) == {"finished"}
    assert lake.passes >= 60
    assert lake.most_deletes <= 2 * 45 + 10  # those of a pass, and what came meanwhile


def test_the_next_slice_goes_out_with_the_committers_word_without_cooling() -> None:
    world = PlannerWorld(limits=LARGE)
    world.commit(PartitionChange(A, files(500), FileTally()))
    order = first_order(world)
    assert (order.after, order.max_bytes) == (None, slice_max_bytes(SLICED, order.action))
    done = Slice(order.action, order.reason, 7, order.min_dead_ratio, 3, 9, StoredFile("/m", "ab"))
    assert not orders(world.take(replace(committed(order, 777), slice=done)))
    after = only(world.commit(upsert(), task_id=order.task_id))
    assert (after.after, after.action, after.reason) == (done, order.action, order.reason)
    last = replace(done, left_files=0, left_bytes=0)
    world.commit(PartitionChange(A, FileTally(), FileTally()), task_id=after.task_id)
    assert not orders(world.take(replace(committed(after, world.head), slice=last)))
    assert state_of(world.state(), A).status == "cooling"


def test_the_counters_may_have_the_commit_before_the_committers_word() -> None:
    """What came while the first slice ran is not taken for what the pass has left."""
    world = PlannerWorld(limits=LARGE)
    world.commit(PartitionChange(A, files(500), FileTally()))
    order = first_order(world)
    world.commit(upsert())
    assert not orders(
        world.commit(PartitionChange(A, FileTally(), FileTally()), task_id=order.task_id)
    )
    assert state_of(world.state(), A).status == "cooling"
    done = Slice(order.action, order.reason, 7, order.min_dead_ratio, 3, 9)
    word = replace(committed(order, world.head), slice=done)
    after = only(world.take(word))
    assert after.after == done
    assert not orders(world.take(word))  # told twice
    last = Slice(order.action, order.reason, 7, order.min_dead_ratio)
    gone = PartitionChange(A, FileTally(), FileTally(equality_deletes=Tally(4, 4_000)))
    world.take(replace(committed(after, world.head + 1), slice=last))
    world.commit(gone, task_id=after.task_id)
    state = state_of(world.state(), A)
    assert (state.status, state.holds.equality_deletes.files) == ("cooling", 2)
    assert state.debt_files == 2  # one delete and one fragment came meanwhile


def test_a_pass_goes_on_after_a_failed_slice() -> None:
    world = PlannerWorld(limits=LARGE)
    world.commit(PartitionChange(A, files(500), FileTally()))
    order = first_order(world)
    done = Slice(order.action, order.reason, 7, order.min_dead_ratio, 3, 9)
    world.take(replace(committed(order, 777), slice=done))
    second = only(world.commit(upsert(), task_id=order.task_id))
    world.take(failed(second, True))
    third = next(one for _ in range(60) for one in orders(world.tick(1_000)))
    assert (third.after, third.attempt) == (done, 2)


def test_orders_of_other_partitions_lie_between_two_slices() -> None:
    world = PlannerWorld(limits=LARGE)
    world.commit(PartitionChange(A, files(500), FileTally()))
    order = first_order(world)
    other = only(world.commit(part(B, 20)))
    world.take(
        replace(
            committed(order, 777),
            slice=Slice(order.action, order.reason, 7, order.min_dead_ratio, 3, 9),
        )
    )
    after = only(world.commit(upsert(), task_id=order.task_id))
    queue = [one.record for one in world.sent if one.topic == "rewrite-tasks"]
    assert queue == [order, other, after]
