"""`firnline status` asks the parts themselves: a frozen one is told from one that answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from firnline_cli.shared import probes as _probes
from firnline_cli.shared.probes import NO_ANSWER, probe_parts
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.state import PartRecord, StackRecord

Serve = Callable[[bytes | None], int]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
NO_REDIS = b'{"error": "its Redis does not answer"}'
AWAY = b"HTTP/1.1 503 Away\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(NO_REDIS)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Ports that give this answer to whoever connects; None = a process that is frozen."""
    monkeypatch.setattr(_probes, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(_probes, "CONSOLE_S", 0.3)
    listeners: list[socket.socket] = []

    def answer(listener: socket.socket, text: bytes) -> None:
        try:
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4_096)
                    connection.sendall(text)
        except OSError:
            return  # closed

    def start(text: bytes | None) -> int:
        listener = socket.create_server((LOOPBACK, 0))
        listeners.append(listener)
        if text is not None:
            threading.Thread(target=answer, args=(listener, text), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def record(**ports: int) -> StackRecord:
    parts = {name.removesuffix("-metrics"): PartRecord("ready") for name in ports}
    return StackRecord(ports=ports, parts=parts)


def test_parts_that_answer_have_no_problem(serve: Serve) -> None:
    ports = {"redis": serve(b"+PONG\r\n"), "kafka": serve(b"\0\0\0\4"), "console": serve(OK)}
    found = probe_parts(record(**ports, **{"planner-metrics": serve(OK)}))
    assert found == {"redis": "", "kafka": "", "console": "", "planner": ""}


def test_frozen_parts_are_named(serve: Serve) -> None:
    """The kernel still accepts for them: a connection says nothing."""
    ports = {name: serve(None) for name in ("redis", "kafka", "catalog", "worker-metrics")}
    assert set(probe_parts(record(**ports)).values()) == {NO_ANSWER}


def test_a_console_without_its_redis_says_so(serve: Serve) -> None:
    found = probe_parts(record(console=serve(AWAY + NO_REDIS)))
    assert "its Redis does not answer" in found["console"]


def test_a_part_that_is_not_ready_is_not_asked(serve: Serve) -> None:
    frozen = serve(None)
    parts = {"redis": PartRecord("starting"), "kafka": PartRecord("held")}
    assert probe_parts(StackRecord(ports={"redis": frozen, "kafka": frozen}, parts=parts)) == {}
