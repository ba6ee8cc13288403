"""What `/readyz` says of a service, and of what it needs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability import health
from firnline_adapters.observability.health import ServiceHealth, http_answers, serve_health
from firnline_local.processes.ports import free_port


def fail() -> None:
    raise ConnectionError("refused by redis://u:cAnAry-secret@h:1")


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_is_ready_once_it_has_said_so_and_all_that_it_needs_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "KEPT_S", 0.0)
    one, answers = ServiceHealth(), [fail]
    one.add_requirement("kafka", lambda: answers[0]())
    one.add_optional("redis", fail)
    assert one.report()[0] is False
    one.set_serving()
    ready, said = one.report()
    assert not ready
    assert said["kafka"] == "refused by redis://***@h:1"
    answers[0] = lambda: None
    assert one.report() == (True, {"service": "ok", "kafka": "ok", "redis": said["redis"]})
    one.set_ended()
    assert one.report()[0] is False


def test_an_answer_is_kept_for_a_while() -> None:
    one, asked = ServiceHealth(), []
    one.add_requirement("kafka", lambda: asked.append(1))
    for _ in range(5):
        one.report()
    assert len(asked) == 1


def test_a_dependency_is_added_while_another_is_checked() -> None:
    service = ServiceHealth()
    service.set_serving()
    service.add_requirement("kafka", lambda: service.add_requirement("redis", fail))
    assert service.report() == (True, {"service": "ok", "kafka": "ok"})
    assert not service.report()[0]


def test_pages() -> None:
    port, one = free_port(), ServiceHealth()
    serve_health(ListenAddress("127.0.0.1", port), one)
    assert get(port, "/healthz")[0] == 200
    assert get(port, "/readyz") == (503, '{"service": "not serving"}\n')
    one.set_serving()
    assert json.loads(get(port, "/readyz")[1]) == {"service": "ok"}
    assert "python_info" in get(port, "/metrics")[1]
    assert get(port, "/other")[0] == 404
    # A catalog that does not know the path answers; one that is broken, or nobody, does not.
    http_answers(f"http://127.0.0.1:{port}")()
    with pytest.raises(OSError, match="refused"):
        http_answers(f"http://127.0.0.1:{free_port()}")()
