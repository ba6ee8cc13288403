"""Trace ids: what headers say, what is kept of them, and what lines of the log show."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from firnline_adapters.observability import traces
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import (
    HEADER,
    current_trace,
    following,
    keep_trace,
    new_trace,
    parse_traceparent,
    trace_of,
    write_traceparent,
)
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.records.signing import Keyring
from hypothesis import given
from hypothesis import strategies as st

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_kept", type(traces._kept)())


@pytest.mark.parametrize(
    "text", [PARENT, PARENT.encode(), f"cc{PARENT[2:]}", f"01{PARENT[2:]}-x y"]
)
def test_a_header_of_the_specification_has_its_id(text: str | bytes) -> None:
    assert parse_traceparent(text) == TRACE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        b"\xff\xfe",
        TRACE,
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        PARENT.upper(),
        f" {PARENT}",
        f"{PARENT}\n",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-00f067aa0ba902b7-01",
        f"01{PARENT[2:]}-{'x' * 200}",
        PARENT.replace("4bf9", "４bf9"),
    ],
)
def test_any_other_header_has_none(text: str | bytes | None) -> None:
    assert parse_traceparent(text) == ""


@given(st.one_of(st.text(), st.binary(), st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-")))
def test_whatever_is_sent_is_an_id_or_none(text: str | bytes) -> None:
    found = parse_traceparent(text)
    assert found == "" or (write_traceparent(found) or b"")[3:35].decode() == found


def test_a_new_id_is_one() -> None:
    made = new_trace()
    assert parse_traceparent(write_traceparent(made)) == made
    assert new_trace() != made


@pytest.mark.parametrize("trace", ["", f"{TRACE},{TRACE}", "x" * 32, f"{TRACE}\n"])
def test_what_is_not_one_id_is_no_header(trace: str) -> None:
    assert write_traceparent(trace) is None


def record(**of_it: Any) -> Any:
    return SimpleNamespace(**of_it)


def test_a_record_has_the_id_that_its_task_came_with() -> None:
    keep_trace(record(task_id="t"), [(HEADER, b"forged"), (HEADER, PARENT.encode())])
    assert trace_of(record(task_id="t", other=1)) == TRACE
    assert trace_of(record(task_id="u")) == ""
    # An event that tasks have led to is no task.
    assert trace_of(record(event_id="e", task_id="t")) == ""
    with following("f" * 32):
        assert trace_of(record(task_id="t")) == TRACE
        assert trace_of(record(task_id="u")) == trace_of(record()) == "f" * 32
    assert current_trace() == ""


@pytest.mark.parametrize("headers", [None, [], [(HEADER, None)], [(HEADER, b"x")], [("a", b"")]])
def test_a_record_without_a_header_keeps_nothing(headers: Any) -> None:
    keep_trace(record(task_id="t"), headers)
    assert traces._kept == {}


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_KEPT", 3)
    for number in (0, 1, 2, 0, 3):
        keep_trace(record(task_id=str(number)), [(HEADER, PARENT)])
    assert [*traces._kept] == ["2", "0", "3"]


def test_headers_of_a_record_have_the_id_of_what_is_worked_at() -> None:
    def parent_of(trace: str | None) -> str:
        headers = dict(RecordSigner(Keyring()).sign_headers("ticks", 0, b"", b"", trace))
        return parse_traceparent(headers.get(HEADER))

    assert parent_of(None) == ""
    with following(TRACE):
        assert (parent_of(None), parent_of(""), parent_of("f" * 32)) == (TRACE, "", "f" * 32)


def test_a_line_shows_the_id_of_its_task_or_of_what_is_worked_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keep_trace(record(task_id="t"), [(HEADER, PARENT)])
    log = Log("test")
    with caplog.at_level(logging.INFO, "firnline.test"), following("f" * 32):
        log.info("one", task="t")
        log.info("two", task="u")
        log.info("three", trace="a" * 32)
    with caplog.at_level(logging.INFO, "firnline.test"):
        log.info("four", n=1)
    assert caplog.messages == [
        f"action=one trace={TRACE} task=t",
        f"action=two trace={'f' * 32} task=u",
        f"action=three trace={'a' * 32}",
        "action=four n=1",
    ]
