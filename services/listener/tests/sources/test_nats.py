"""A NATS server that is not there: tests/integration/listener has one that is."""

from __future__ import annotations

import pytest
from firnline_domain.errors import RetryLater
from firnline_listener.sources import nats


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nats://127.0.0.1:1", "subject events: NATS does not answer"),
        ("nats://127.0.0.1:99999", "subject events: nats: invalid connect url"),
    ],
)
def test_a_server_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch, url: str, why: str) -> None:
    monkeypatch.setattr(nats, "CONNECT_S", 0.2)
    subject = nats.NatsSubject(url, "events", "listener")
    with pytest.raises(RetryLater, match=why):
        subject.poll(0.1)
    subject.close()
