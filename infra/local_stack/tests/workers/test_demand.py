"""What the console says of the workers that are wanted, and a console that says nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_local.workers.demand import read_wanted

from tests.kit.console_site import Site

ANSWER = (
    '{"ordinary": {"wanted": 3}, "heavy": {"wanted": 1}, "both": {"wanted": 4},'
    ' "groups": {"etl": {"heavy": {"wanted": 2}, "both": {"wanted": 7}}}}'
)


class Handler(BaseHTTPRequestHandler):
    answer, asked = "", ""

    def do_GET(self) -> None:
        Handler.asked = self.path
        self.send_response(200)
        self.end_headers()
        self.wfile.write(Handler.answer.encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def uri() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("group", "lanes", "wanted"),
    [("", tuple(Lane), 4), ("", (Lane.HEAVY,), 1), ("etl", tuple(Lane), 7)],
)
def test_the_number_is_that_of_the_groups_queue_or_of_both(
    uri: str, group: str, lanes: tuple[Lane, ...], wanted: int
) -> None:
    Handler.answer = ANSWER
    assert read_wanted(uri, group, lanes, 2, 20) == wanted
    assert Handler.asked == "/api/workers?cores=2&drain_seconds=20"


@pytest.mark.parametrize("answer", ["", "no JSON", "[]", '{"ordinary": {"wanted": "many"}}'])
def test_an_answer_that_says_no_number_is_unknown(uri: str, answer: str) -> None:
    Handler.answer = answer
    with pytest.raises(RetryLater, match="/api/workers does not return a number"):
        read_wanted(uri, "", (Lane.ORDINARY,), 2, 60)


def test_a_console_that_does_not_answer_is_unknown() -> None:
    with pytest.raises(RetryLater, match="refused"):
        read_wanted("http://127.0.0.1:1", "", (Lane.ORDINARY,), 2, 60)


def test_a_group_that_the_console_does_not_know_is_unknown(uri: str) -> None:
    Handler.answer = ANSWER
    with pytest.raises(RetryLater, match="adhoc"):
        read_wanted(uri, "adhoc", tuple(Lane), 2, 60)


def test_the_console_understands_the_question(site: Site) -> None:
    assert read_wanted(site.uri, "", tuple(Lane), 1, 60) == 0
