"""A few threads, for which a process that ends does not wait: what was in work is settled later."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol


class Pool(Protocol):
    """Runs as many things at once as it has threads."""

    @property
    def size(self) -> int:
        """Return the number of threads."""

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Run it, now or when a thread is free."""


class Threads:
    """A pool of daemon threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        for number in range(size):
            threading.Thread(target=self._run_work, name=f"pool-{number}", daemon=True).start()

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.put((work, future))
        return future

    def _run_work(self) -> None:
        while True:
            _run_into(*self._waiting.get())


class Inline:
    """Its twin: in the caller's own thread, at once, so nothing waits for a thread."""

    size = 1_000

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        _run_into(work, future)
        return future


def _run_into(work: Callable[[], Any], future: Future[Any]) -> None:
    try:
        found = work()
    except BaseException as error:  # who asks for the result has it
        future.set_exception(error)
    else:
        future.set_result(found)
