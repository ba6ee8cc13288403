"""Runs checks. Those that need another one wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from firnline_adapters.config.redaction import redact

PATIENCE_S = 20.0  # for one check
MAX_CHARS = 600  # of what came: stacks of exceptions quote whole answers


class CheckStatus(StrEnum):
    """The outcome of a check. A remark fails nothing."""

    FINE = "ok"
    REMARK = "remark"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class CheckAnswer:
    """An answer to a check, and what to do about it."""

    status: CheckStatus
    found: str
    remedy: str = ""


class Failed(Exception):
    """A check has failed; with its remedy."""

    def __init__(self, found: object, remedy: str) -> None:
        super().__init__(str(found))
        self.remedy = remedy


class NotTried(Exception):
    """A check does not apply; the message says why."""


Answers = str | CheckAnswer | Iterable[CheckAnswer]  # a text: it is as it should be


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
class CheckFinding:
    """One line of the report, without secrets."""

    check: str
    status: CheckStatus
    tried: str
    found: str
    remedy: str


def remark(found: object, remedy: str = "") -> CheckAnswer:
    """Return a recommendation: worth a look, but nothing fails because of it."""
    return CheckAnswer(CheckStatus.REMARK, str(found), remedy)


def failed_answer(found: object, remedy: str) -> CheckAnswer:
    """Return a failure of a check that has several answers."""
    return CheckAnswer(CheckStatus.FAILED, str(found), remedy)


@dataclass
class _Run:
    """One check and its end."""

    check: Check
    answers: list[CheckAnswer] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_usable(self) -> bool:
        """Return whether other checks can build on it."""
        return all(one.status in (CheckStatus.FINE, CheckStatus.REMARK) for one in self.answers)


def run_checks(checks: Sequence[Check]) -> Iterator[CheckFinding]:
    """Run all checks, each on a thread of its own as soon as what it needs has ended. Yields the
    findings in the order of the checks."""
    runs = {one.name: _Run(one) for one in checks}
    for one in runs.values():
        threading.Thread(
            target=_run_check, args=(one, runs), name=one.check.name, daemon=True
        ).start()
    for one in runs.values():
        one.ended.wait()
        for answer in one.answers:
            yield CheckFinding(
                one.check.name,
                answer.status,
                redact(one.check.tried),
                _one_line(answer.found),
                redact(answer.remedy),
            )


def _run_check(one: _Run, runs: dict[str, _Run]) -> None:
    try:
        for need in one.check.needs:
            if (other := runs.get(need)) is None:
                continue
            other.ended.wait()
            if not other.is_usable:
                one.answers = [CheckAnswer(CheckStatus.SKIPPED, f"{need} comes first")]
                return
        one.answers = _answer_in_time(one.check)
    finally:
        one.ended.set()


def _answer_in_time(check: Check) -> list[CheckAnswer]:
    """Return the answers of the check; a failure if it does not end in time."""
    found: list[CheckAnswer] = []
    thread = threading.Thread(target=lambda: found.extend(_answers_of(check)), daemon=True)
    thread.start()
    thread.join(check.patience_s)
    if thread.is_alive():
        text = f"no answer within {check.patience_s:g} s"
        remedy = "see whether the address is right (uri, s3.endpoint, bootstrap.servers ...), and "
        return [
            failed_answer(text, f"{remedy}whether a firewall or a proxy swallows the connection")
        ]
    return found


def _answers_of(check: Check) -> list[CheckAnswer]:
    try:
        came = check.run()
        if isinstance(came, str):
            return [CheckAnswer(CheckStatus.FINE, came)]
        return [came] if isinstance(came, CheckAnswer) else list(came)
    except Failed as error:
        return [failed_answer(error, error.remedy)]
    except NotTried as error:
        return [CheckAnswer(CheckStatus.SKIPPED, str(error))]
    except Exception as error:  # whatever a library raises: one check has failed, the others go on
        text = f"{type(error).__name__}: {error}"
        return [failed_answer(text, "unknown error: the message is from the client library")]


def _one_line(text: str) -> str:
    """Return the text on one line, without secrets, and short enough to read."""
    short = " ".join(redact(text).split())
    return short if len(short) <= MAX_CHARS else f"{short[:MAX_CHARS]} ..."
