"""A catalog that fails as it is told, and lets others commit in between."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PATIENCE_S = 3  # of the committer's catalog client, in tests


@dataclass(frozen=True)
class Fault:
    """What becomes of one commit: does the catalog apply it, and what is answered: a status,
    `half` of an answer, `none` at all, or `late`, when the caller has lost patience."""

    answered: int | str
    applied: bool


class Meddler(ThreadingHTTPServer):
    """Passes catalog calls on, and may be told what to do with the next commit of a table."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Meddling)
        self.upstream = upstream
        self.before: list[Callable[[], object]] = []  # run one before each commit, in turn
        self.drop_request = False  # once: the commit never reaches the catalog
        self.drop_answer = False  # once: it does, and nobody hears of it
        self.faults: list[Fault] = []  # one for each of the next commits
        self.commits = 0
        self.delay_s = 0.0  # before each read
        self.calls: list[tuple[str, str]] = []  # method and path

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fail(self, answered: int | str, applied: bool) -> None:
        """So ends the next commit that nothing was decided for."""
        self.faults.append(Fault(answered, applied))

    def taken(self, name: str) -> bool:
        told: bool = getattr(self, name)
        setattr(self, name, False)
        return told


class Meddling(BaseHTTPRequestHandler):
    server: Meddler

    def parse_request(self) -> bool:
        found = super().parse_request()
        if found:
            self.server.calls.append((self.command, self.path))
        return found

    def do_GET(self) -> None:
        time.sleep(self.server.delay_s)
        self.answer(*self.forwarded(None))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "/tables/" not in self.path or self.path.endswith("/metrics"):
            return self.answer(*self.forwarded(body))
        self.server.commits += 1
        if self.server.before:
            self.server.before.pop(0)()
        if self.server.faults:
            return self.failing(self.server.faults.pop(0), body)
        if self.server.taken("drop_request"):
            return self.connection.close()
        answer = self.forwarded(body)
        if self.server.taken("drop_answer"):
            return self.connection.close()
        return self.answer(*answer)

    def failing(self, fault: Fault, body: bytes) -> None:
        status, answer = self.forwarded(body) if fault.applied else (200, b'{"metadata": {}}')
        if isinstance(fault.answered, int):
            error = {"message": "so it is", "type": "Fault", "code": fault.answered}
            return self.answer(fault.answered, json.dumps({"error": error}).encode())
        if fault.answered == "late":
            time.sleep(PATIENCE_S + 1)
        if fault.answered == "half":
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer[: len(answer) // 2])
        return self.connection.close()

    def forwarded(self, body: bytes | None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        request = Request(self.server.upstream + self.path, body, headers, method=self.command)
        try:
            with urlopen(request) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
