"""Read exceptions of a Java client, of a catalog or a storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firnline_adapters.config.fleet_settings import HEAP_BYTES
from firnline_domain.errors import (
    CatalogRefused,
    CatalogUnreachable,
    HeapTooSmall,
    RetryLater,
    StorageRefused,
    StorageUnreachable,
    TaskRefused,
)
from py4j.protocol import Py4JJavaError

UNAUTHORIZED = "org.apache.iceberg.exceptions.NotAuthorizedException"
CLEANABLE = "org.apache.iceberg.exceptions.CleanableFailure"
NO_MEMORY = "java.lang.OutOfMemoryError"
FORBIDDEN = "org.apache.iceberg.exceptions.ForbiddenException"
_STORES = ("software.amazon.awssdk.", "com.azure.", "com.google.cloud.storage.")
_DENIED = ("Status Code: 403", "Status Code: 401", "Unable to load credentials", "403 Forbidden",
           "AuthorizationFailure", "AuthenticationFailed", "401 Unauthorized")  # fmt: skip
_CAUSES = 8
_OF_ICEBERG = "org.apache.iceberg.exceptions."
_RACES = tuple(
    _OF_ICEBERG + name for name in ("CommitFailedException", "ValidationException")
)  # somebody else's commit came first
_OURS = "org.apache.spark.api.python.PythonException"  # our own code, in a Spark task
_GONE = (_OF_ICEBERG + "NoSuchTableException", _OF_ICEBERG + "NoSuchNamespaceException")
_BAD_VALUE = ("java.lang.NumberFormatException", "java.lang.IllegalArgumentException")
LOST_RACE, JAVA_FAILED = "lost_race", "java_failed"


def is_unauthorized(error: Py4JJavaError) -> bool:
    """Return True if the catalog does not accept our identity."""
    return any(name == UNAUTHORIZED for name, _ in error_causes(error))


def catalog_unreachable(error: Py4JJavaError, catalog: str) -> RetryLater:
    """Return the error to retry by. `catalog`: its name."""
    for name, text in error_causes(error):
        if name == NO_MEMORY:
            said = f"the JVM of this process is out of memory ({text}); raise {HEAP_BYTES.variable}"
            return HeapTooSmall(said)
        if name == UNAUTHORIZED:
            said = f"catalog {catalog} does not take who we are (401): {text}"
            return CatalogRefused(said, catalog)
        if name == FORBIDDEN:
            return CatalogRefused(f"catalog {catalog} does not let us (403): {text}")
        if name.startswith(_STORES):
            denied = any(sign in text for sign in _DENIED)
            return (StorageRefused if denied else StorageUnreachable)(f"storage: {name}: {text}")
    return CatalogUnreachable(f"catalog {catalog}: {_message_of(error.java_exception)}")


def failure_of(error: Any) -> RetryLater | TaskRefused | None:
    """Return what to make of a failure of Java: Refused or RetryLater of a catalog or a storage
    that does not answer or not let us; TaskRefused of what Iceberg or Spark cannot do, in one line;
    None if it is a failure of our own code. `error`: Py4JJavaError."""
    found = list(error_causes(error))
    names = {name for name, _ in found}
    if _OURS in names:
        return None
    for name, text in found:
        if name in (UNAUTHORIZED, FORBIDDEN) or name.startswith(_STORES):
            return catalog_unreachable(error, "")
        if name in _GONE:
            return TaskRefused("table_gone", _first_line(text))
        if name in _RACES:
            return TaskRefused(LOST_RACE, _first_line(text), retryable=True)
    name, text = found[-1]
    told = f"{name.rpartition('.')[2]}: {_first_line(text)}"
    return TaskRefused(JAVA_FAILED, told, retryable=names.isdisjoint(_BAD_VALUE))


def _first_line(text: str) -> str:
    """Return the first line: what comes behind it is of use to developers alone."""
    return text.strip().split("\n")[0][:500]


def error_causes(error: Py4JJavaError) -> Iterator[tuple[str, str]]:
    """Yield class and message of the exception and of what caused it, outermost first."""
    found = error.java_exception
    for _ in range(_CAUSES):
        if found is None:
            return
        yield str(found.getClass().getName()), _message_of(found)
        found = found.getCause()


def _message_of(exception: Any) -> str:
    return str(exception.getMessage() or exception.toString())[:1000]
