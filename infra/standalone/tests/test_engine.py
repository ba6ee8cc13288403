"""What a run's engine takes for the end of a task: tasks on twins, in threads as ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.observability.logs import Log
from firnline_committer.handlers import CommitterHandlers as CommitHandlers
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord, TaskRefused
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.operator_requests import Order
from firnline_domain.records.events import RewriteSkipped, TaskEnd, ends_order
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import Mode, RewriteFinished, TaskFailed, TaskRunning
from firnline_standalone.engine import EVENTS, RESULTS, Engine, RunTopics
from firnline_standalone.runs import TaskBatches
from firnline_worker.handlers import WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import MAX_STARTS, Busy, TaskLeases

from tests.kit.expiries import expire, expired

TABLE = TableName("u", ("db",), "t")
Doing = Callable[[RewriteFiles], Any]


def order(number: int = 0) -> RewriteFiles:
    return RewriteFiles(
        f"t{number}", TABLE, "main", Scope(0, f"[{number}]"), "full", "asked", 7, 1, 1, 10**15
    )


def nothing_found(of: RewriteFiles) -> RewriteFinished:
    facts = (Mode.NATIVE, 7, 3, 0, (), (), None, 1, 2, 3, 4)
    return RewriteFinished(of.task_id, of.table, of.ref, of.scope, of.attempt, "w", *facts)


def running(of: RewriteFiles) -> TaskRunning:
    return TaskRunning(of.task_id, TABLE, "main", of.scope, 1, "w", 1, 2, finished=True)


class Bench:
    """A worker whose rewriter does what it is told; `guard` is the lease of the whole table."""

    def __init__(self, doing: Doing) -> None:
        self.topics, self.log, self.doing = RunTopics.create(), Log("test"), doing
        self.publisher = self.topics.publisher
        self.leases = TaskLeases(MemoryLeases(), "w", 60.0, self.log)
        self.calls = 0

    def rewrite(self, of: RewriteFiles, note: Any) -> Any:
        self.calls += 1
        return self.doing(of)

    @contextmanager
    def guard(self) -> Iterator[None]:
        with self.leases.hold("table:u"):
            yield

    def engine(self, executor: ThreadPoolExecutor, commits: Any = None) -> Engine:
        name, now = "w", lambda: 1
        beats = Heartbeats(self.publisher, name, now)
        actions = {"expire": lambda of: expired(of.task_id, of.table, 1, 1, 5)}
        tasks: Any = WorkerHandlers(
            self, actions, None, self.leases, self.publisher, name, now, self.log,  # type: ignore[arg-type]
            lambda: False, beats,
        )  # fmt: skip
        commits = commits or CommitHandlers(None, None, now)  # type: ignore[arg-type]
        return Engine(tasks, commits, self.topics, executor, self.log)

    def carry_out(self, *orders: Order, commits: Any = None) -> list[Any]:
        with ThreadPoolExecutor(2) as executor:
            return self.engine(executor, commits).carry_out(orders)


def test_tasks_that_hand_one_table_over_wait_for_each_other() -> None:
    met = threading.Event()

    def hand_over(of: RewriteFiles) -> RewriteFinished:
        try:
            with bench.guard():
                assert met.wait(10)  # until another task has met the lease
                return nothing_found(of)
        except Busy:
            met.set()
            raise

    bench = Bench(hand_over)
    events = bench.carry_out(*map(order, range(6)))
    assert sorted((type(one).__name__, one.task_id) for one in events) == [
        ("RewriteSkipped", f"t{number}") for number in range(6)
    ]


def test_to_wait_for_a_table_is_no_start() -> None:
    """Else a table that is handed over for minutes ends the orders of its other partitions."""
    bench = Bench(nothing_found)
    tries = iter(range(MAX_STARTS + 3))

    def hand_over(of: RewriteFiles) -> RewriteFinished:
        if next(tries) < MAX_STARTS + 2:
            with bench.guard(), bench.guard():
                raise AssertionError("the lease is free")
        return nothing_found(of)

    bench.doing = hand_over
    with ThreadPoolExecutor(1) as executor:
        engine = bench.engine(executor)
        for _ in range(MAX_STARTS + 2):
            with pytest.raises(Exception, match="table:u"):
                engine._tasks.handle(order())
        (event,) = engine.carry_out([order()])
    assert isinstance(event, RewriteSkipped)


def test_a_table_that_stays_busy_with_nobody_there_ends_the_task() -> None:
    bench = Bench(nothing_found)
    bench.leases.leases.acquire("table:u", "elsewhere/1", 60.0)

    def hand_over(of: RewriteFiles) -> RewriteFinished:
        with bench.guard():
            return nothing_found(of)

    bench.doing = hand_over
    (event,) = bench.carry_out(order())
    assert isinstance(event, TaskFailed)


@pytest.mark.parametrize("error", [TaskRefused("open_branch", "m"), KeyError("m")])
def test_a_stray_heartbeat_is_no_end(error: Exception) -> None:
    def fail(of: RewriteFiles) -> RewriteFinished:
        bench.publisher.publish(EVENTS, TABLE.key, running(of))
        raise error

    bench = Bench(fail)
    told = Told()
    with ThreadPoolExecutor(2) as executor:
        assert not TaskBatches(bench.engine(executor), told, lambda: 1).execute([order()])
    assert {type(one).__name__ for one in told.events} == {"TaskFailed"}


def test_one_task_that_breaks_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where not even its failure can be published."""
    bench = Bench(nothing_found)
    send = bench.publisher.publish

    def publish(topic: str, key: str, record: Any) -> bool:
        if topic == RESULTS and record.task_id == "t1":
            raise ValueError("does not fit its schema")
        return send(topic, key, record)

    monkeypatch.setattr(bench.publisher, "publish", publish)
    events = bench.carry_out(*map(order, range(3)), expire("e1", TABLE, 5, 100))
    came = {one.task_id: type(one).__name__ for one in events}
    skipped = "RewriteSkipped"
    assert came == {"t0": skipped, "t1": "TaskFailed", "t2": skipped, "e1": "SnapshotsExpired"}


class Refusing:
    """A committer that can do nothing with what it reads."""

    def advance(self, records: Sequence[Any]) -> Any:
        raise PoisonousRecord("unexpected_record", "of no kind that is known")

    def abandon(self, table_key: str, ref: str) -> None: ...


def test_a_result_that_is_put_aside_is_the_end_of_its_task() -> None:
    bench = Bench(nothing_found)
    (event,) = bench.carry_out(expire("e1", TABLE, 5, 100), commits=Refusing())
    assert isinstance(event, TaskFailed)
    assert "unexpected_record: of no kind that is known" in event.message


FAILED = TaskFailed("t0", TABLE, "main", order().scope, "rewrite", 1, "w", "r", "m", True, 1)


@pytest.mark.parametrize(
    "event",
    [
        running(order()),
        replace(FAILED, attempt=2),
        replace(FAILED, kind="comparison"),
        replace(FAILED, kind="expire"),
        replace(FAILED, task_id="t1"),
        replace(FAILED, scope=Scope(0, "[9]")),
        replace(FAILED, table=TableName("other", ("db",), "t")),
        expired("t0", TABLE, 1, 1, 5),
        nothing_found(order()),
    ],
)
def test_what_bears_the_id_of_a_task_is_not_always_its_end(event: Any) -> None:
    assert ends_order(FAILED, order())
    assert not ends_order(event, order())


def test_an_action_on_a_table_ends_by_its_own_result() -> None:
    of = expire("e1", TABLE, 5, 100)
    done = expired("e1", TABLE, 1, 1, 5)
    assert ends_order(done, of)
    assert not ends_order(replace(done, action="tag"), of)
    assert not ends_order(replace(FAILED, task_id="e1", scope=None), of)
    assert ends_order(replace(FAILED, task_id="e1", scope=None, kind="expire"), of)
    assert isinstance(done, TaskEnd)


class Told:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_start(self, *_: object) -> None: ...
    def on_progress(self, *_: object) -> None: ...
    def on_result(self, *_: object) -> None: ...
    def on_comparison(self, *_: object) -> None: ...

    def on_end(self, of: Order, event: Any, again: bool) -> None:
        self.events.append(event)
