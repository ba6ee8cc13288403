"""A commit lands exactly once, whatever the writer was told."""

from __future__ import annotations

import pytest
from firnline_demo.landing import TRIES, commit_once
from firnline_demo.model import TableModel


class Server:
    """Applies commits; each answer may get lost after, or the call fail before."""

    def __init__(self, *fates: str) -> None:
        self.fates = list(fates)
        self.applied: list[str] = []

    def commit(self, marker: str) -> None:
        fate = self.fates.pop(0) if self.fates else "answered"
        if fate != "refused":
            self.applied.append(marker)
        if fate != "answered":
            raise ConnectionError(fate)

    def landed(self, marker: str) -> bool:
        return marker in self.applied


def run(server: Server) -> TableModel:
    model = TableModel("t", lambda row: row)
    commit_once(model, server.commit, server.landed, sleep=lambda _: None)
    return model


def test_a_refused_call_is_made_again() -> None:
    server = Server("refused", "refused")
    assert run(server).retries == 2
    assert server.applied == ["t-0"]


def test_a_lost_answer_is_looked_up_and_not_repeated() -> None:
    server = Server("lost")
    run(server)
    assert server.applied == ["t-0"]


def test_a_server_that_stays_away_is_an_error() -> None:
    with pytest.raises(ConnectionError):
        run(Server(*["refused"] * TRIES))
