"""A client of the running stack's console, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import click
from firnline_domain.identity import TableName
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.state import StateDir

F = TypeVar("F", bound=Callable[..., Any])
STATES = (Path(".firnline"), Path(".firnline/demo"))  # of `firnline up` and of `firnline demo`
PAGE = 1_000  # tables of one answer
TIMEOUT_S = 15.0  # the event stream sends a sign of life every 10 s
HOW_TO = (
    "Start one with `firnline up`, name its directory with --state, or name a console with "
    "--console http://host:port (or FIRNLINE_CONSOLE_URI)."
)
# Never through a proxy: the console is on loopback, or where the user says.
_open = build_opener(ProxyHandler({})).open


class Away(click.ClickException):
    """The console does not answer; the message says what to do."""


class ConsoleNotReady(Away):
    """The console answers that it has no view to show, and why."""


class NotThere(click.ClickException):
    """The console has nothing by the requested name."""


json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")


def console_option(name: str) -> Callable[[F], F]:
    """Add --console, as the parameter of this name."""
    return click.option(
        "--console",
        name,
        envvar="FIRNLINE_CONSOLE_URI",
        show_envvar=True,
        help="Address of the console to ask, instead of the embedded stack.",
    )


def console_options(command: F) -> F:
    """Add --state and --console, as `state` and `uri`."""
    state = click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        help="Directory of the embedded stack.  [default: .firnline, else .firnline/demo]",
    )
    return state(console_option("uri")(command))


def identity_in(answer: dict[str, Any]) -> TableName:
    """Return the table of an answer about one."""
    said = answer["identity"]
    return TableName(**{**said, "namespace": tuple(said["namespace"])})


def console_at(state: Path | None, uri: str | None) -> Console:
    """Return the console: that of --state, else --console or its variable, else that of the stack
    on this host. Raises Away if no stack runs."""
    if state is None and uri:
        if not uri.startswith(("http://", "https://")):
            raise click.UsageError(f"--console {uri}: write http://{uri}")
        return Console(uri.rstrip("/"))
    places = [StateDir.from_path(path) for path in ([state] if state else STATES)]
    for place in places:
        if place.is_running() and "console" in (record := place.read_record()).parts:
            return Console(
                f"http://{LOOPBACK}:{record.ports['console']}", place.log_path("console")
            )
    searched = " or ".join(str(place.root) for place in places)
    raise Away(f"No stack with a console runs in {searched}. {HOW_TO}")


class Console:
    """A client of a console; `log` is its log file if it is known."""

    def __init__(self, uri: str, log: Path | None = None) -> None:
        self._uri = uri
        self._log = log

    def get(self, path: str) -> Any:
        """Return the JSON answer. Raises Away, or NotThere with the console's message."""
        with self._request(path) as answer:
            return json.load(answer)

    def table_answer(self, name: str, rest: str = "") -> Any:
        """Return the answer about a table by name or key. Raises NotThere."""
        return self.get(f"/api/tables/{quote(name, safe='')}{rest}")

    @staticmethod
    def query(**parameters: str) -> str:
        """Return the parameters as the query of an address."""
        return urlencode({name: text for name, text in parameters.items() if text})

    def list_tables(self, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the list of tables, page after page. Raises as `get`."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.query(limit=str(PAGE), cursor=cursor, **query)
            answer = self.get(f"/api/tables?{page}")
            yield from answer["tables"]
            cursor = answer["cursor"]

    def stream_events(self, after: int | None) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, until the connection ends. Raises Away."""
        query = "" if after is None else f"?after={after}"
        with self._request(f"/api/events/stream{query}") as answer:
            try:
                for line in answer:
                    if line.startswith(b"data: "):
                        yield json.loads(line.removeprefix(b"data: "))
            except (OSError, HTTPException) as error:
                raise self._away_error(error) from None

    def _request(self, path: str) -> HTTPResponse:
        request = Request(self._uri + path, headers={"Accept": "application/json"})
        try:
            answer = _open(request, timeout=TIMEOUT_S)
        except HTTPError as error:
            raise self._refusal(path, error) from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._away_error(error) from None
        assert isinstance(answer, HTTPResponse)
        return answer

    def _refusal(self, path: str, error: HTTPError) -> click.ClickException:
        try:
            answer = json.load(error)
            if error.code == 503 and "healthy" in answer:
                return ConsoleNotReady("its view is not built yet, or it cannot follow its topics")
            said = str(answer["error"])
        except (ValueError, KeyError, TypeError, OSError):
            return Away(f"{self._uri} is not a Firnline console: HTTP {error.code}. {HOW_TO}")
        if error.code == 404 and path.startswith("/api/tables/"):
            return NotThere(said)
        if error.code == 409:
            return click.ClickException(f"{said}. Say which one.")
        if error.code == 404:
            return Away(f"{self._uri} is not a Firnline console: it has no {path}. {HOW_TO}")
        if error.code == 503:
            return ConsoleNotReady(f"The console cannot answer now: {said}")
        return click.ClickException(f"The console refuses this: {said}")

    def _away_error(self, error: Exception) -> Away:
        reason = getattr(error, "reason", error)
        hint = f"Its log: {self._log}." if self._log else HOW_TO
        return Away(
            f"The console at {self._uri} does not answer ({reason}). "
            f"`firnline status` says what runs. {hint}"
        )
