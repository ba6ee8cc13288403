from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryLeases, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import replace
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import ResyncTable, RewriteFiles
from firnline_worker.bootstrap import Worker, consumer_group, max_heavy, topics_of
from firnline_worker.handlers import COMPARISONS, HEAVY_REWRITES, REWRITES, TABLE_TASKS
from firnline_worker.host.leases import Busy, TaskLeases
from firnline_worker.loop import AGAIN_S, TaskLoop

from tests.kit.names import TABLE


def order(name: str) -> RewriteFiles:
    return RewriteFiles(name, TABLE, "main", Scope(0, "[]"), "compact", "r", 1, 1, 0, 10**14)


class Bench:
    """A loop over the in-memory broker; one table, so one topic partition."""

    def __init__(self, work: Any, max_running: int = 4, executor: Any = None) -> None:
        self.broker = MemoryBroker()
        self.publisher = MemoryPublisher(self.broker)
        self.seconds = 0.0
        self.executor = executor or ThreadPoolExecutor(max_running)
        self.loop = self.another(work, max_running)

    def another(self, work: Any, max_running: int = 4) -> TaskLoop:
        inbox = MemoryInbox(self.broker, "worker", [REWRITES, HEAVY_REWRITES])
        return TaskLoop(
            inbox, self.executor, work, max_running, Log("t"), lambda: None, lambda: self.seconds
        )

    def send(self, *names: str, topic: str = REWRITES) -> None:
        for name in names:
            self.publisher.publish(topic, TABLE.uuid, order(name))

    @property
    def committed(self) -> int:
        return max(self.broker.committed.values(), default=0)

    def poll_until(self, done: Any) -> None:
        for _ in range(20_000):
            self.loop.poll_once(0)
            if done():
                return
            threading.Event().wait(0.001)
        pytest.fail("the loop never got there")


def test_a_long_task_delays_no_other_and_nothing_commits_past_it():
    """The 5-minute task before 20 short ones of the same partition."""
    release, finished = threading.Event(), []

    def work(task: RewriteFiles) -> None:
        if task.task_id == "long":
            assert release.wait(60)
        finished.append(task.task_id)

    bench = Bench(work)
    bench.send("long", *(f"short-{n}" for n in range(20)))
    bench.poll_until(lambda: len(finished) == 20)
    bench.loop.poll_once(0)
    assert "long" not in finished
    assert bench.committed == 0
    release.set()
    bench.poll_until(lambda: bench.committed == 21)
    assert finished[-1] == "long"
    assert sorted(finished) == sorted({"long", *(f"short-{n}" for n in range(20))})


@pytest.mark.parametrize("max_running", [1, 4])
def test_a_table_with_a_hundred_orders_takes_turns_with_the_others(max_running):
    begun = []
    bench = Bench(lambda task: begun.append(task.task_id), max_running)
    bench.send(*(f"many-{n}" for n in range(100)))
    for other in ("0f0f-b", "0f0f-c"):
        one = replace(order(other), table=TableName(other, ("db",), "t"))
        for _ in range(2):
            bench.publisher.publish(REWRITES, other, one)
    bench.poll_until(lambda: len(begun) == 104)
    assert begun.index("0f0f-b") < 2 * max_running + 4
    assert begun.index("0f0f-c") < 2 * max_running + 4


def test_who_dies_leaves_its_unfinished_tasks_to_the_next():
    never, finished = threading.Event(), []

    def work(task: RewriteFiles) -> None:
        if task.task_id == "b" and not finished.count("again"):
            never.wait(60)
            return
        finished.append(task.task_id)

    bench = Bench(work)
    bench.send("a", "b", "c")
    bench.poll_until(lambda: set(finished) == {"a", "c"})
    bench.poll_until(lambda: bench.committed == 1)
    finished[:] = ["again"]
    bench.loop = bench.another(work)  # the first one is gone, with whatever it held
    bench.poll_until(lambda: bench.committed == 3)
    assert finished == ["again", "b", "c"]
    never.set()


def test_a_busy_lease_lets_others_pass_and_is_tried_again():
    held, calls = {"a"}, []

    def work(task: RewriteFiles) -> None:
        calls.append(task.task_id)
        if task.task_id in held:
            raise Busy(task.task_id)

    bench = Bench(work, max_running=1)
    bench.send("a", "b")
    bench.poll_until(lambda: calls == ["a", "b"])
    bench.poll_until(lambda: not bench.loop.running_count)
    bench.loop.poll_once(0)
    assert calls == ["a", "b"]  # not before its time
    assert bench.committed == 0
    held.clear()
    bench.seconds += AGAIN_S
    bench.poll_until(lambda: bench.committed == 2)
    assert calls == ["a", "b", "a"]


def test_a_dead_workers_task_is_next_when_its_lease_has_ended():
    held, calls = {"dead"}, []

    def work(task: RewriteFiles) -> None:
        calls.append(task.task_id)
        if task.task_id in held:
            raise Busy(task.task_id)
        if len(calls) == 5:
            held.clear()
            bench.seconds += AGAIN_S

    bench = Bench(work, max_running=1)
    bench.send("dead")
    bench.poll_until(lambda: calls == ["dead"])
    for number in range(20):
        name = f"other-{number}"
        one = replace(order(name), table=TableName(name, ("db",), "t"))
        bench.publisher.publish(REWRITES, name, one)
    bench.poll_until(lambda: len(calls) == 22)
    assert calls.index("dead", 1) <= 6


def test_of_a_partition_taken_over_what_had_begun_is_next_and_what_was_finished_takes_no_place():
    begun, leases = [], TaskLeases(MemoryLeases(), "w", 9, Log("t"))
    bench = Bench(lambda task: begun.append(task.task_id), max_running=1)
    bench.loop.read_progress = leases.read_progress
    for number in range(20):
        name = f"task-{number}"
        one = replace(order(name), table=TableName(name, ("db",), "t"))
        bench.publisher.publish(REWRITES, name, one)
        if number < 8:
            leases.count_start(one)
        if number < 7:
            leases.mark_finished(one)
    bench.poll_until(lambda: len(begun) == 13)
    assert begun[0] == "task-7"
    assert not {f"task-{number}" for number in range(7)} & set(begun)
    bench.poll_until(lambda: sum(bench.broker.committed.values()) == 20)


def test_an_interrupted_task_is_not_done():
    def work(task: RewriteFiles) -> None:
        raise RuntimeError("given up")

    bench = Bench(work)
    bench.send("a")
    bench.poll_until(lambda: bench.loop._waiting and not bench.loop.running_count)
    assert bench.committed == 0


def test_a_broker_that_is_away_does_not_end_the_loop(monkeypatch):
    bench = Bench(lambda task: None)
    bench.send("a")
    with monkeypatch.context() as away:
        away.setattr(bench.loop.inbox, "commit", lambda: _raise(RetryLater("away")))
        bench.poll_until(lambda: not bench.loop.running_count and not bench.loop._waiting)
        bench.loop.poll_once(0)
    bench.poll_until(lambda: bench.committed == 1)


def _raise(error: Exception) -> None:
    raise error


class Never(ThreadPoolExecutor):
    """Counts what it is given and finishes nothing."""

    def __init__(self) -> None:
        super().__init__(1)
        self.given: list[str] = []

    def submit(self, work: Any, task: Any) -> Future[None]:  # type: ignore[override]
        self.given.append(task.task_id)
        return Future()


def test_no_more_tasks_than_asked_for_run_at_once():
    executor = Never()
    bench = Bench(lambda task: None, max_running=2, executor=executor)
    bench.send("a", "b", "c")
    bench.loop.poll_once(0)
    bench.loop.poll_once(0)
    assert executor.given == ["a", "b"]
    assert bench.loop.running_count == 2


def test_a_record_that_is_no_order_is_passed_over():
    bench = Bench(lambda task: None)
    bench.publisher.publish(REWRITES, TABLE.uuid, ResyncTable(TABLE, "main", None, None, "r", 0))
    bench.poll_until(lambda: bench.committed == 1)


class AtOnce(ThreadPoolExecutor):
    """Done when it is begun."""

    def submit(self, work: Any, task: Any) -> Future[None]:  # type: ignore[override]
        done: Future[None] = Future()
        done.set_result(work(task))
        return done


def test_of_ten_orders_begun_two_are_heavy_while_both_lanes_wait():
    begun = []
    bench = Bench(lambda task: begun.append(task.task_id), max_running=1, executor=AtOnce())
    bench.send(*(f"heavy-{n}" for n in range(10)), topic=HEAVY_REWRITES)
    bench.send(*(f"ordinary-{n}" for n in range(10)))
    bench.poll_until(lambda: len(begun) == 20)
    assert [name.split("-")[0] == "heavy" for name in begun[:10]].count(True) == 2
    assert begun[-7:] == [f"heavy-{n}" for n in range(3, 10)]


def test_one_heavy_order_at_a_time_and_the_other_places_are_for_the_rest():
    release, begun = threading.Event(), []

    def work(task: RewriteFiles) -> None:
        begun.append(task.task_id)
        assert release.wait(60)

    bench = Bench(work)
    bench.send("heavy-1", "heavy-2", topic=HEAVY_REWRITES)
    bench.poll_until(lambda: begun)
    bench.send("a", "b", "c", "d")
    bench.poll_until(lambda: len(begun) == 4)
    bench.loop.poll_once(0)
    assert begun == ["heavy-1", "a", "b", "c"]
    release.set()
    bench.poll_until(lambda: len(begun) == 6)
    assert set(begun[4:]) == {"d", "heavy-2"}
    bench.loop.executor.shutdown()


@pytest.mark.parametrize(
    ("lanes", "topics"),
    [
        ("ordinary,heavy", [REWRITES, TABLE_TASKS, COMPARISONS, HEAVY_REWRITES]),
        (" heavy ", [HEAVY_REWRITES]),
        ("ordinary,ordinary", [REWRITES, TABLE_TASKS, COMPARISONS]),
    ],
)
def test_the_lanes_of_a_worker_say_its_topics(lanes: str, topics: list[str]):
    assert topics_of(lanes) == topics


@pytest.mark.parametrize(
    ("lanes", "topics"),
    [
        ("ordinary,heavy", ["rewrite-tasks.etl", "rewrite-tasks-heavy.etl"]),
        ("heavy", ["rewrite-tasks-heavy.etl"]),
    ],
)
def test_a_groups_worker_takes_its_rewrites_alone(lanes: str, topics: list[str]):
    assert topics_of(lanes, "etl") == topics


def test_every_group_has_a_consumer_group_and_the_default_ones_keeps_its_name():
    assert consumer_group("worker", "") == "worker"
    assert consumer_group("worker", "etl") == "worker.etl"


@pytest.mark.parametrize("lanes", ["", "light", "ordinary;heavy"])
def test_lanes_that_are_none_are_refused(lanes: str):
    with pytest.raises(Misconfigured, match="ordinary, heavy"):
        topics_of(lanes)


def test_who_is_asked_to_leave_ends_what_runs_and_begins_nothing():
    release, begun = threading.Event(), []

    def work(order):
        begun.append(order.task_id)
        release.wait(30)

    bench = Bench(work, max_running=2)
    bench.send("long")
    bench.poll_until(lambda: begun)
    bench.send("next")
    nothing: Any = Nothing()
    worker = Worker(
        bench.loop, nothing, bench.executor, nothing, nothing, nothing, nothing, nothing,
        threading.Event(), 0.0, Log("t"),
    )  # fmt: skip
    worker.leave.set()
    serving = threading.Thread(target=worker.serve)
    serving.start()
    serving.join(1)
    assert serving.is_alive()
    release.set()
    serving.join(30)
    assert not serving.is_alive()
    assert (begun, bench.committed) == (["long"], 1)


class Nothing:
    """A client that does nothing, and a JVM that lives."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def test_a_worker_of_the_heavy_lane_alone_runs_as_many_heavy_orders_as_it_may() -> None:
    assert max_heavy("ordinary,heavy", 4) == 1
    assert max_heavy(" heavy ", 4) == 4
