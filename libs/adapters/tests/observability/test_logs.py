"""Lines of a log as logfmt has them, and what a service says where a setting is wrong."""

from __future__ import annotations

import ast
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log, set_level
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import TableName

ROOT = Path(__file__).parents[4]
OTHER_NAMES = {
    **dict.fromkeys(("error", "err", "exception", "message", "msg", "cause"), "why"),
    **dict.fromkeys(("task_id", "order", "order_id"), "task"),
    **dict.fromkeys(("table_name", "name"), "table"),
    **dict.fromkeys(("snapshot", "snapshot_id", "snapshot_ids"), "snapshots"),
    **dict.fromkeys(("trace_id", "traceparent", "request_id"), "trace"),
    **dict.fromkeys(("file", "filename"), "path"),
}
STARTS = """
from dataclasses import dataclass
from firnline_adapters.service import ServiceSettings, run_service
from firnline_adapters.config.settings import declare_setting
@dataclass(frozen=True)
class Settings(ServiceSettings):
    kafka: str = declare_setting("FIRNLINE_KAFKA", "Kafka's address.")
    example: bool = declare_setting("FIRNLINE_EXAMPLE", "", False)
with run_service("test", Settings, waits_for_kafka=False) as (settings, log):
    log.info("ready")
"""
ENDS = f"""{STARTS}
    from firnline_domain.errors import RetryLater
    raise RetryLater("the broker is away")
"""


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        (5, "5"),
        ("it's plain", '''"it's plain"'''),
        ('a "b"', r'"a \"b\""'),
        ("two\nlines", r'"two\nlines"'),
        ("k=v", '"k=v"'),
        ("\\", r'"\\"'),
        ("é", "é"),
        (0, "0"),
        (True, "true"),
        (False, "false"),
        ([5, None, "b"], "5,b"),
        ((True, ""), "true"),
        (ListenAddress("::1", 80), "[::1]:80"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("bad"), "bad"),
    ],
)
def test_values_are_quoted_as_logfmt_has_them(
    value: object, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "firnline.test"):
        Log("test").info("said", why=value)
    assert caplog.messages == [f"action=said why={written}"]


@pytest.mark.parametrize("value", [None, "", [], (), {}, set(), [None, ""], "[]", "None"])
def test_a_fact_without_a_value_is_left_out(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "firnline.test"):
        Log("test").info("said", partition=value, n=0)
    assert caplog.messages == ["action=said n=0"]


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_a_table_has_one_form_at_every_level(level: str, caplog: pytest.LogCaptureFixture) -> None:
    table = TableName("u", ("shop", "eu"), "orders", "archive", "dev")
    with caplog.at_level(logging.INFO, "firnline.test"):
        getattr(Log("test"), level)("said", table=table, n=1)
        getattr(Log("test"), level)("said", table=None, n=1)
    assert caplog.messages == [
        "action=said table=archive/dev:shop.eu.orders n=1",
        "action=said n=1",
    ]


def keys_in(source: str) -> Iterator[str]:
    """The names of the facts that code logs, but for those of settings."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=log, attr="info" | "warning" | "error"),
                args=[ast.Constant(value=str()), *_],
                keywords=facts,
            ) if ast.unparse(log).lower().endswith("log"):
                yield from (one.arg for one in facts if one.arg)


def test_all_services_call_one_thing_by_one_name() -> None:
    folders = ("libs", "services", "infra")
    paths = [path for one in folders for path in ROOT.glob(f"{one}/*/src/**/*.py")]
    found = {key for path in paths for key in keys_in(path.read_text())}
    assert {"table", "task", "why", "snapshots", "topic"} <= found
    assert {key: OTHER_NAMES[key] for key in found & OTHER_NAMES.keys()} == {}
    assert [key for key in found if not re.fullmatch("[a-z]+(_[a-z]+)*", key)] == []
    assert found & {"at", "level", "service", "action"} == set()  # of the line itself


@pytest.mark.parametrize("call", ['self._log.info("x", error=1)', 'LOG.error("x", e, error=1)'])
def test_another_name_is_seen(call: str) -> None:
    assert [*keys_in(call)] == ["error"]


def start(code: str = STARTS, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )


def test_each_wrong_setting_has_a_line_of_its_own() -> None:
    ended = start(FIRNLINE_METRICS_ADDRESS="x")
    assert ended.returncode == 2
    lines = ended.stderr.splitlines()
    assert all("ERROR test action=misconfigured why=" in line for line in lines)
    assert [any(name in line for line in lines) for name in ("FIRNLINE_KAFKA", "_ADDRESS")] == [
        True,
        True,
    ]
    assert len(lines) == 3


def test_a_service_that_a_restart_helps_says_why_and_ends_with_a_code_of_its_own() -> None:
    ended = start(ENDS, FIRNLINE_KAFKA="127.0.0.1:1", FIRNLINE_SIGNING_KEYS="off")
    assert ended.returncode == 75
    assert 'ERROR test action=starting_anew why="the broker is away"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_level_leaves_out_what_is_less_severe() -> None:
    assert "action=ready" in start(FIRNLINE_KAFKA="127.0.0.1:1").stderr
    said = start(FIRNLINE_KAFKA="127.0.0.1:1", FIRNLINE_LOG_LEVEL="warning").stderr
    assert "WARNING test action=kafka_unreached" in said
    assert "INFO" not in said


def test_lines_are_objects_where_that_is_asked_for() -> None:
    said = start(FIRNLINE_KAFKA="127.0.0.1:1", FIRNLINE_LOG_FORMAT="json").stderr
    lines = [json.loads(line) for line in said.splitlines()]
    assert [one["action"] for one in lines] == ["starting", "kafka_unreached", "ready"]
    assert {one["service"] for one in lines} == {"test"}
    assert lines[1]["level"] == "WARNING"
    assert lines[0]["kafka"] == "127.0.0.1:1"
    values = [value for line in lines for value in line.values()]
    assert [one for one in values if one in ("", "None", "False", "[]", None)] == []
    assert lines[0]["example"] is False


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_LOG_LEVEL: 'LOUD' is none of DEBUG"):
        set_level("LOUD")
