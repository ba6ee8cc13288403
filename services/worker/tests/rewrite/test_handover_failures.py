"""What people read of a hand-over that has failed: first why the table was handed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firnline_domain.errors import TaskRefused
from firnline_worker.rewrite.iceberg_fallback import refusal_after


@dataclass
class Thrown:
    """As py4j hands over a Throwable."""

    name: str
    text: str
    cause: Thrown | None = None

    def __getattr__(self, asked: str) -> Any:
        found = {"getClass": self, "getName": self.name, "getMessage": self.text}
        return lambda: found.get(asked, self.cause)


@dataclass
class Error(Exception):
    java_exception: Thrown


WHY = "column a is string in file:/w/1.parquet and int in the table"


def told(name: str, text: str) -> Exception:
    error: Any = Error(Thrown("org.apache.spark.SparkException", "aborted", Thrown(name, text)))
    return refusal_after("type_differs", WHY, error)


def test_the_first_reason_is_what_is_read() -> None:
    found = told("java.lang.UnsupportedOperationException", "no such\n\tat org.apache.iceberg.X")
    assert isinstance(found, TaskRefused)
    assert found.reason == "type_differs"
    assert str(found).startswith(WHY)
    assert str(found).endswith("which failed: UnsupportedOperationException: no such")


def test_a_lost_race_is_one_and_is_tried_again() -> None:
    found = told("org.apache.iceberg.exceptions.ValidationException", "Missing required files")
    assert isinstance(found, TaskRefused)
    assert (found.reason, found.retryable) == ("lost_race", True)


def test_our_own_fault_stays_ours() -> None:
    assert isinstance(told("org.apache.spark.api.python.PythonException", "KeyError"), Error)
