"""Runs checks. Those that need another one wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from firnline_adapters.config.redaction import redacted

PATIENCE_S = 20.0  # for one check
MAX_CHARS = 600  # of what came: stacks of exceptions quote whole answers


class Status(StrEnum):
    """The outcome of a check. A remark fails nothing."""

    FINE = "ok"
    REMARK = "remark"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Answer:
    """An answer to a check, and what to do about it."""

    status: Status
    found: str
    remedy: str = ""


class Failed(Exception):
    """A check has failed; with its remedy."""

    def __init__(self, found: object, remedy: str) -> None:
        super().__init__(str(found))
        self.remedy = remedy


class NotTried(Exception):
    """A check does not apply; the message says why."""


Answers = str | Answer | Iterable[Answer]  # a text: it is as it should be


@dataclass(frozen=True)
class Check:
    """A check. `name`: `subject.what`. `run` raises Failed, NotTried. `needs`: checks that must not
    fail before."""

    name: str
    tried: str
    run: Callable[[], Answers]
    needs: tuple[str, ...] = ()
    patience_s: float = PATIENCE_S


@dataclass(frozen=True)
class Finding:
    """One line of the report, without secrets."""

    check: str
    status: Status
    tried: str
    found: str
    remedy: str


def remark(found: object, remedy: str = "") -> Answer:
    """Return a remark: worth a look, but nothing fails because of it."""
    return Answer(Status.REMARK, str(found), remedy)


def failed(found: object, remedy: str) -> Answer:
    """Return a failure of a check that has several answers."""
    return Answer(Status.FAILED, str(found), remedy)


@dataclass
class _Run:
    """One check and its end."""

    check: Check
    answers: list[Answer] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_usable(self) -> bool:
        """Return whether other checks can build on it."""
        return all(one.status in (Status.FINE, Status.REMARK) for one in self.answers)


def findings(checks: Sequence[Check]) -> Iterator[Finding]:
    """Run all checks, each on a thread of its own as soon as what it needs has ended. Yields the
    findings in the order of the checks."""
    runs = {one.name: _Run(one) for one in checks}
    for one in runs.values():
        threading.Thread(target=_run, args=(one, runs), name=one.check.name, daemon=True).start()
    for one in runs.values():
        one.ended.wait()
        for answer in one.answers:
            yield Finding(
                one.check.name,
                answer.status,
                redacted(one.check.tried),
                _line(answer.found),
                redacted(answer.remedy),
            )


def _run(one: _Run, runs: dict[str, _Run]) -> None:
    try:
        for need in one.check.needs:
            if (other := runs.get(need)) is None:
                continue
            other.ended.wait()
            if not other.is_usable:
                one.answers = [Answer(Status.SKIPPED, f"{need} comes first")]
                return
        one.answers = _in_time(one.check)
    finally:
        one.ended.set()


def _in_time(check: Check) -> list[Answer]:
    """Return the answers of the check; if it does not end in time, a failure that says so."""
    found: list[Answer] = []
    thread = threading.Thread(target=lambda: found.extend(_answers(check)), daemon=True)
    thread.start()
    thread.join(check.patience_s)
    if thread.is_alive():
        text = f"no answer within {check.patience_s:g} s"
        remedy = "see whether the address is right (uri, s3.endpoint, bootstrap.servers ...), and "
        return [failed(text, f"{remedy}whether a firewall or a proxy swallows the connection")]
    return found


def _answers(check: Check) -> list[Answer]:
    try:
        came = check.run()
        if isinstance(came, str):
            return [Answer(Status.FINE, came)]
        return [came] if isinstance(came, Answer) else list(came)
    except Failed as error:
        return [failed(error, error.remedy)]
    except NotTried as error:
        return [Answer(Status.SKIPPED, str(error))]
    except Exception as error:  # whatever a library raises: one check has failed, the others go on
        text = f"{type(error).__name__}: {error}"
        return [failed(text, "unknown error: the message is from the client library")]


def _line(text: str) -> str:
    """Return the text on one line, without secrets, and short enough to read."""
    short = " ".join(redacted(text).split())
    return short if len(short) <= MAX_CHARS else f"{short[:MAX_CHARS]} ..."
