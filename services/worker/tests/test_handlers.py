from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import redis
from firnline_adapters.in_memory import MemoryBroker, MemoryLeases, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater, StorageUnreachable, TaskRefused
from firnline_domain.identity import Scope, TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.orders import CompareRows, ExpireSnapshots, RewriteFiles
from firnline_domain.records.pauses import Pause
from firnline_domain.records.results import (
    Mode,
    RewriteFinished,
    RowsCompared,
    TaskFailed,
)
from firnline_worker.handlers import RESULTS, WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import MAX_STARTS, Busy, TaskLeases, lease_of
from prometheus_client import REGISTRY

from tests.kit.counted import counted
from tests.kit.expiries import expire, expired

TABLE = TableName("u-1", ("db",), "t")
ORDER = RewriteFiles("t1", TABLE, "main", Scope(0, "[]"), "compact", "r", 7, 1, 100, 1000)
EXPIRE = expire("e1", TABLE, 5, 100)
DONE = RewriteFinished(
    "t1", TABLE, "main", Scope(0, "[]"), 1, "w", Mode.NATIVE, 7, 3, 0, (), (), None, 1, 2, 3, 4
)
COMPARE = CompareRows("t1", TABLE, "main", Scope(0, "[]"), (8,), 1, "committer", 100)
COMPARED = RowsCompared(
    "t1", TABLE, "main", Scope(0, "[]"), (8,), "equal", None, "", None, None, "w", 9
)
EXPIRED = expired("e1", TABLE, 1, 1, 5)


class Bench:
    """Handlers on twins; `doing` is what a task does."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.publisher = MemoryPublisher(self.broker)
        self.store: Any = MemoryLeases(lambda: self.seconds)
        self.seconds = 0.0
        self.doing: Any = lambda order, note: DONE
        self.comparing: Any = lambda order: COMPARED
        self.expiring = EXPIRED
        self.calls = 0
        self.stopping = False
        self.log = Log("test")

    def worker(self, name: str = "w") -> WorkerHandlers:
        self.leases = TaskLeases(self.store, name, 30.0, self.log, lambda: self.seconds)
        return WorkerHandlers(
            self,
            {"expire": self.expire},
            self,
            self.leases,
            self.publisher,
            name,
            lambda: 500,
            self.log,
            lambda: self.stopping,
            Heartbeats(self.publisher, name, lambda: 500),
        )

    def rewrite(self, order: RewriteFiles, note: Any) -> Any:
        self.calls += 1
        return self.doing(order, note)

    def compare(self, order: CompareRows) -> Any:
        self.calls += 1
        return self.comparing(order)

    def skip_comparison(self, order: CompareRows, reason: str, detail: str) -> Any:
        return replace(COMPARED, outcome="skipped", reason=reason)

    def expire(self, order: ExpireSnapshots) -> Any:
        self.calls += 1
        return self.expiring

    @property
    def results(self) -> list[Any]:
        return self.broker.records(RESULTS)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def raising(error: BaseException) -> Any:
    def doing(order: Any, note: Any) -> Any:
        raise error

    return doing


def test_results_go_to_their_topic(bench):
    bench.worker().handle(ORDER)
    bench.worker().handle(EXPIRE)
    assert bench.results == [DONE, replace(EXPIRED, worked_ms=0)]


def test_a_tables_result_says_how_long_it_took_and_what_was_expected(bench):
    """Without what was learned before: the order's price was twice what was measured."""
    worker = dataclasses.replace(bench.worker(), now_ms=iter(range(0, 10**6, 250)).__next__)
    worker.handle(replace(EXPIRE, numbers={"price_cpu_s": 3.0, "price_pace": 2.0}))
    [result] = bench.results
    assert (result.worked_ms, result.expected_s) == (250, 1.5)


@pytest.mark.parametrize(
    ("error", "reason", "retryable"),
    [
        (TaskRefused("table_gone", "m"), "table_gone", False),
        (TaskRefused("r", "m", True), "r", True),
        (RetryLater("m"), "unreachable", True),
        (MemoryError("m"), "out_of_memory", True),
        (RuntimeError("pyarrow.lib.ArrowMemoryError: malloc"), "out_of_memory", True),
        (KeyError("m"), "worker_error", True),
    ],
)
def test_every_failure_is_told_with_its_reason(bench, error, reason, retryable):
    bench.doing = raising(error)
    bench.worker().handle(ORDER)
    (failed,) = bench.results
    assert isinstance(failed, TaskFailed)
    assert (failed.reason, failed.retryable, failed.kind) == (reason, retryable, "rewrite")
    assert (failed.task_id, failed.scope, failed.attempt) == ("t1", ORDER.scope, 1)


def test_what_an_expiry_removed_and_how_long_its_task_waited_are_counted(bench):
    def told() -> list[float]:
        waited = REGISTRY.get_sample_value("firnline_order_to_start_seconds_sum") or 0.0
        return [*(counted("expired", what=what) for what in ("snapshots", "files")), waited]

    before = told()
    bench.expiring = replace(EXPIRED, expired=3, deleted_files=7)
    bench.worker().handle(EXPIRE)
    grown = [now - then for now, then in zip(told(), before, strict=True)]
    assert grown == [3, 7, pytest.approx((500 - EXPIRE.ordered_at_ms) / 1000)]
    bench.expiring = replace(EXPIRED, expired=3, begins_at_ms=9)
    bench.worker().handle(replace(EXPIRE, task_id="e2"))
    assert told()[:2] == [before[0] + 3, before[1] + 7]


def test_what_did_not_answer_is_counted(bench):
    bench.doing = raising(StorageUnreachable("m"))
    before = counted("dependency_errors", dependency="storage")
    bench.worker().handle(ORDER)
    assert counted("dependency_errors", dependency="storage") == before + 1


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError("m"), "overhead"),
        (RuntimeError("pyarrow.lib.ArrowMemoryError: malloc"), "overhead"),
        (RuntimeError("Python worker exited unexpectedly"), "overhead"),
        (RuntimeError("exited with exit code 137"), "overhead"),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), "heap"),
        (RuntimeError("OutOfMemoryError: unable to create native thread"), "overhead"),
        (KeyError("m"), None),
    ],
)
def test_who_runs_out_of_memory_says_of_which(bench, error, memory):
    bench.doing = raising(error)
    bench.worker().handle(ORDER)
    (failed,) = bench.results
    assert failed.memory == memory


@pytest.mark.parametrize("order", [ORDER, COMPARE])
def test_an_order_that_ends_its_worker_is_given_up_in_the_end(bench, order):
    """As the JVM's end does, or a kill: nothing is told, and the order comes again."""
    bench.stopping = True
    bench.doing = bench.comparing = lambda *_: 1 / 0
    for number in range(MAX_STARTS):
        with pytest.raises(ZeroDivisionError):
            bench.worker(f"w{number}").handle(order)
    assert bench.results == []
    bench.worker("last").handle(order)
    assert bench.calls == MAX_STARTS
    (given_up,) = bench.results
    assert given_up.reason == ("worker_error" if order is ORDER else "not_read")
    bench.stopping, bench.doing = False, lambda *_: DONE
    bench.worker().handle(replace(ORDER, attempt=2))
    assert bench.results[-1] == DONE


def test_an_action_that_this_worker_does_not_know_fails_for_good(bench):
    bench.worker().handle(replace(EXPIRE, action="vacuum"))
    (told,) = bench.results
    assert (told.reason, told.retryable, told.kind) == ("unknown_action", False, "vacuum")
    assert bench.calls == 0


def test_a_comparison_that_fails_is_skipped(bench):
    bench.comparing = lambda _: 1 / 0
    bench.worker().handle(COMPARE)
    assert bench.results[0].reason == "not_read"


def test_an_order_whose_deadline_has_passed_is_not_begun(bench):
    bench.worker().handle(replace(ORDER, deadline_ms=499))
    assert bench.calls == 0
    assert bench.results[0].reason == "deadline_passed"
    assert bench.results[0].retryable


def test_an_order_that_waited_while_the_switch_was_pulled_is_not_begun(bench):
    paused = {"u-1": Pause(1, "ops", "migration")}
    worker = dataclasses.replace(bench.worker(), pause=paused.get)
    worker.handle(ORDER)
    worker.handle(EXPIRE)
    assert bench.calls == 0
    assert {(one.reason, one.retryable) for one in bench.results} == {("paused", True)}
    assert "by ops: migration" in bench.results[0].message
    paused.clear()
    worker.handle(replace(ORDER, attempt=2))
    assert bench.calls == 1


def test_a_redelivered_attempt_is_not_done_again_but_the_next_attempt_is(bench):
    bench.worker("one").handle(ORDER)
    bench.worker("two").handle(ORDER)
    assert bench.calls == 1
    bench.worker("two").handle(replace(ORDER, attempt=2))
    assert bench.calls == 2


def test_one_scope_is_worked_on_once_at_a_time(bench):
    other = bench.worker("two")
    same_scope = replace(ORDER, task_id="t2")
    elsewhere = replace(ORDER, task_id="t3", scope=Scope(0, "[1]"))

    def doing(order: Any, note: Any) -> Any:
        if order is ORDER:
            with pytest.raises(Busy):
                other.handle(same_scope)
            other.handle(elsewhere)
        return DONE

    bench.doing = doing
    bench.worker("one").handle(ORDER)
    other.handle(same_scope)
    assert bench.calls == 3
    assert bench.results == [DONE] * 3


def test_the_start_snapshot_is_noted_while_the_task_runs(bench):
    one, two = bench.worker("one"), bench.worker("two")

    def doing(order: Any, note: Any) -> Any:
        assert two.leases.started_from(TABLE.uuid) == set()
        note(77)
        assert two.leases.started_from(TABLE.uuid) == {77}
        bench.seconds += 20
        one.leases.renew()
        bench.seconds += 20  # 40 s: past the first lease, within the renewed one
        assert two.leases.started_from(TABLE.uuid) == {77}
        assert two.leases.started_from("u-2") == set()
        return DONE

    bench.doing = doing
    one.handle(ORDER)
    assert bench.results == [DONE]  # a failed assertion above would be a TaskFailed
    assert two.leases.started_from(TABLE.uuid) == set()


def test_a_dead_workers_lease_ends(bench):
    bench.store.acquire(lease_of(ORDER), "dead/1", 30.0)
    with pytest.raises(Busy):
        bench.worker().handle(ORDER)
    bench.seconds += 31
    bench.worker().handle(ORDER)
    assert bench.results == [DONE]


class RaisingLeases:
    def _away(self, *args: Any, **more: Any) -> Any:
        raise redis.ConnectionError("away")

    acquire = renew = release = read_notes = _away


def test_without_redis_rewrites_go_on_but_nothing_expires(bench):
    bench.store = RaisingLeases()
    worker = bench.worker()
    bench.doing = lambda order, note: note(1) or DONE
    worker.handle(ORDER)
    assert bench.results == [DONE]
    with pytest.raises(RetryLater):
        worker.leases.started_from(TABLE.uuid)


def test_a_result_is_published_until_the_broker_has_it(bench, monkeypatch):
    failures = [RetryLater("down"), RetryLater("down")]
    monkeypatch.setattr(
        bench.publisher, "flush", lambda: _throw(failures.pop()) if failures else True
    )
    bench.worker().handle(ORDER)
    assert bench.calls == 1
    assert bench.results == [DONE] * 3


def _throw(error: BaseException) -> None:
    raise error


def test_a_task_given_up_at_the_end_of_the_process_says_nothing(bench):
    bench.stopping = True
    bench.doing = raising(RuntimeError("cancelled"))
    with pytest.raises(RuntimeError):
        bench.worker().handle(ORDER)
    assert bench.results == []
    bench.stopping, bench.doing = False, lambda order, note: DONE
    bench.worker("next").handle(ORDER)
    assert bench.results == [DONE]


def test_a_commit_is_read_back_once_and_beside_the_task_of_its_id() -> None:
    bench = Bench()
    handlers = bench.worker()
    handlers.handle(ORDER)
    for _ in range(2):
        handlers.handle(COMPARE)
    assert bench.broker.records(RESULTS) == [DONE, COMPARED]
    assert lease_of(COMPARE) != lease_of(ORDER)


def test_a_paused_tables_commit_is_not_read_back() -> None:
    bench = Bench()
    paused = {"u-1": Pause(1, "ops", "migration")}
    dataclasses.replace(bench.worker(), pause=paused.get).handle(COMPARE)
    (told,) = bench.results
    assert (told.outcome, told.reason, bench.calls) == ("skipped", "paused", 0)


def test_of_an_order_that_is_put_aside_the_planner_is_told(bench):
    """It would wait for it for half a day."""
    delivery = Delivery("rewrite-tasks", 0, 7, "u-1", ORDER)
    bench.worker().dead_letter(delivery, KeyError("m"))
    (failed,) = bench.results
    assert (failed.task_id, failed.reason, failed.retryable) == ("t1", "worker_error", True)
