"""One line per event on stderr: `2026-11-21T15:04:05.123Z INFO worker action=ready k=v`.

Values are written as logfmt has them: in double quotes where they have spaces or signs of it. A
table is `lake:shop.orders` in every service, a sequence has commas, and a fact without a value is
left out. `trace` is the id of the request that the line is about. With FIRNLINE_LOG_FORMAT=json a
line is an object: `at`, `level`, `service`, `action` and the facts.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from types import TracebackType
from typing import Any

from firnline_domain.errors import Misconfigured
from firnline_domain.identity import TableName

from firnline_adapters.config.redaction import MASK, SECRET_NAME, redact
from firnline_adapters.observability.traces import current_trace, trace_of_task

_QUOTED = frozenset(' "=\\')
_EMPTY = frozenset({"", "[]", "{}", "()", "None"})  # "[]" is also the partition of a table without
FORMATS = ("text", "json")
FACTS = "firnline_facts"  # of a record, for who writes objects
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class Log:
    """A service's log; every line has an `action` and its numbers as key=value."""

    def __init__(self, service: str) -> None:
        self._logger = logging.getLogger(f"firnline.{service}")

    def info(self, action: str, *, table: TableName | None = None, **facts: Any) -> None:
        """Log that something happened as it should."""
        self._write_line(logging.INFO, action, table, facts)

    def warning(self, action: str, *, table: TableName | None = None, **facts: Any) -> None:
        """Log that something went wrong and was dealt with."""
        self._write_line(logging.WARNING, action, table, facts)

    def error(
        self,
        action: str,
        error: BaseException | None = None,
        *,
        table: TableName | None = None,
        **facts: Any,
    ) -> None:
        """Log that something went wrong that an operator should see; `error` adds its traceback."""
        self._write_line(logging.ERROR, action, table, facts, error)

    def _write_line(
        self,
        level: int,
        action: str,
        table: TableName | None,
        facts: dict[str, Any],
        error: BaseException | None = None,
    ) -> None:
        trace = trace_of_task(facts["task"]) if facts.get("task") else current_trace()
        name = table.full_name if table else None
        named = {"action": action, "table": name, "trace": trace, **facts}
        shown = {name: value for name, value in named.items() if _format_value(value) not in _EMPTY}
        self._logger.log(level, _format_line(shown), exc_info=error, extra={FACTS: shown})


def _format_line(facts: dict[str, Any]) -> str:
    words = []
    for name, value in facts.items():
        text = _format_value(value)
        plain = text.isprintable() and not _QUOTED.intersection(text)
        words.append(f"{name}={text if plain else json.dumps(text, ensure_ascii=False)}")
    return " ".join(words)


def _format_value(value: Any) -> str:
    """Write a value as one word of the log's language; what has no value is in `_EMPTY`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) in (list, tuple, set, frozenset):  # an Address is a tuple with a text of its own
        return ",".join(text for one in value if (text := _format_value(one)) not in _EMPTY)
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    return str(value)


class _Redacting(logging.Formatter):
    """Whatever is logged, by whom ever, tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _Json(logging.Formatter):
    """One object a line. Each value is redacted before it is quoted: a mask has no quotes."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts = getattr(record, FACTS, None) or {"text": record.getMessage()}
        if record.exc_info:
            facts = {**facts, "traceback": self.formatException(record.exc_info)}
        line = {
            "at": f"{at}.{record.msecs:03.0f}Z",
            "level": record.levelname,
            "service": self._service,
            **{name: _json_value(name, one) for name, one in facts.items()},
        }
        return json.dumps(line, ensure_ascii=False)


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    return MASK if SECRET_NAME.search(name) and value else redact(_format_value(value))


def start_logging(service: str) -> Log:
    """Send everything that this process logs to stderr, one line each, in UTC, without secrets;
    also uncaught exceptions."""
    formatter = _Redacting(
        f"%(asctime)s.%(msecs)03dZ %(levelname)s {service} %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level="INFO", handlers=[handler], force=True)
    for chatty in ("py4j", "aiokafka", "faust", "mode", "pyiceberg", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    log = Log(service)
    sys.excepthook = lambda kind, error, trace: _log_uncaught(log, kind, error, trace)
    threading.excepthook = lambda uncaught: _log_uncaught(
        log, uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback
    )
    return log


def set_format(service: str, form: str) -> None:
    """Set the form of log lines. Raises Misconfigured unless it is one of FORMATS."""
    if form not in FORMATS:
        raise Misconfigured(f"FIRNLINE_LOG_FORMAT: {form!r} is none of {', '.join(FORMATS)}")
    if form == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_Json(service))


def set_level(level: str) -> None:
    """Log nothing below FIRNLINE_LOG_LEVEL. Raises Misconfigured."""
    if level.upper() not in LEVELS:
        raise Misconfigured(f"FIRNLINE_LOG_LEVEL: {level!r} is none of {', '.join(LEVELS)}")
    logging.getLogger().setLevel(level.upper())


def _log_uncaught(
    log: Log, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error or kind(), trace)
    else:
        log.error("uncaught", error, why=kind.__name__)
