"""What a failure of Java is told as: one line with its reason, and ours only where it is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from firnline_domain.errors import CatalogRefused, StorageRefused, TaskRefused
from firnline_iceberg.java.errors import failure_of

ICEBERG = "org.apache.iceberg.exceptions."
SPARK = "org.apache.spark.SparkException"


@dataclass
class Thrown:
    """As py4j hands over a Throwable, with what caused it."""

    name: str
    text: str | None
    cause: Thrown | None = None

    def getClass(self) -> Thrown:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getMessage(self) -> str | None:  # noqa: N802
        return self.text

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self.cause

    def toString(self) -> str:  # noqa: N802
        return f"{self.name}: {self.text}"


@dataclass
class Error:
    java_exception: Thrown


def told(*thrown: tuple[str, str | None]) -> Any:
    found = None
    for name, text in reversed(thrown):
        found = Thrown(name, text, found)
    assert found is not None
    return failure_of(Error(found))


@pytest.mark.parametrize(
    ("thrown", "reason", "retryable", "said"),
    [
        (
            ((SPARK, "Job aborted.\n\tat org.apache..."),
             ("java.lang.IllegalArgumentException", "Cannot promote int to string: col a")),
            "java_failed", False, "IllegalArgumentException: Cannot promote int to string: col a",
        ),
        (((ICEBERG + "ValidationException", "Missing required files"),), "lost_race", True,
         "Missing required files"),
        (((SPARK, "x"), (ICEBERG + "CommitFailedException", "moved\nat ...")), "lost_race", True,
         "moved"),
        (((ICEBERG + "NoSuchTableException", "gone"),), "table_gone", False, "gone"),
        (((SPARK, "Job aborted\nat x\nat y"),), "java_failed", True, "SparkException: Job aborted"),
        ((("java.lang.NumberFormatException", None),), "java_failed", False,
         "NumberFormatException: java.lang.NumberFormatException: None"),
    ],
)  # fmt: skip
def test_each_kind_has_its_reason_and_one_line(
    thrown: Any, reason: str, retryable: bool, said: str
) -> None:
    found = told(*thrown)
    assert isinstance(found, TaskRefused)
    assert (found.reason, found.retryable, str(found)) == (reason, retryable, said)


def test_who_does_not_let_us_is_no_fault_of_a_table() -> None:
    assert isinstance(told((ICEBERG + "ForbiddenException", "no")), CatalogRefused)
    denied = "software.amazon.awssdk.services.s3.model.S3Exception", "(Status Code: 403)"
    assert isinstance(told((SPARK, "x"), denied), StorageRefused)


def test_our_own_code_in_a_spark_task_is_ours() -> None:
    assert told((SPARK, "x"), ("org.apache.spark.api.python.PythonException", "KeyError")) is None
