"""A Redis that is silent: it is named, and one call waits for it, not all."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from firnline_console.bootstrap import REDIS_TIMEOUT_S, texts_client
from firnline_console.read_model import redis as redis_model
from firnline_console.read_model.redis import RedisReadModel
from firnline_domain.errors import RetryLater

PAGE_S = 8.0  # TIMEOUT_MS of the page


class Silent:
    """Times out, and counts how often it was asked."""

    asked = 0

    def get(self, key: str) -> Any:
        self.asked += 1
        raise redis.TimeoutError("Timeout reading from socket")


def test_one_call_waits_and_the_others_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client, moment = Silent(), [100.0]
    monkeypatch.setattr(redis_model.time, "monotonic", lambda: moment[0])
    model = RedisReadModel(client)  # type: ignore[arg-type]
    for _ in range(5):
        with pytest.raises(RetryLater, match="its Redis does not answer"):
            model.last_event_number()
    assert client.asked == 1
    moment[0] += redis_model.REST_S
    with pytest.raises(RetryLater):
        model.last_event_number()
    assert client.asked == 2


def test_it_is_given_up_before_the_page_gives_up_on_us() -> None:
    client = texts_client("redis://127.0.0.1:1/0")
    retry = client.connection_pool.connection_kwargs["retry"]
    assert not any(issubclass(redis.TimeoutError, one) for one in retry._supported_errors)
    assert 2 * REDIS_TIMEOUT_S < PAGE_S  # to connect, and to answer
