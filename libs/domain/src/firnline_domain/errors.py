"""Four kinds of failure, by what the caller does next.

FirnlineError
├── RetryLater      try the same again after a while
│   ├── HeapTooSmall  try it once more with nothing beside it
│   └── Refused     a person has to do something first: say it once, and wait longer
├── PoisonousRecord send the record to the dead-letter topic with its reason, go on
├── TaskRefused     the task cannot be done this way; `reason` says why
└── Misconfigured   stop; the message says what to set
"""

from __future__ import annotations


class FirnlineError(Exception):
    """Base of all errors that Firnline raises on purpose."""


class RetryLater(FirnlineError):
    """Something needed is not reachable now; try the same again."""

    dependency = "other"  # what did not answer, as metrics name it


class CatalogUnreachable(RetryLater):
    """The catalog did not answer, or not as it should."""

    dependency = "catalog"


class StorageUnreachable(RetryLater):
    """The storage of a table's files did not answer."""

    dependency = "storage"


class HeapTooSmall(RetryLater):
    """The JVM of this process ran out of memory: neither catalog nor storage has failed."""

    dependency = "memory"


class AccessDenied(RetryLater):
    """The server answers, and refuses access: an operator has to give Firnline a right, or a key
    that holds. Not an outage of minutes. `of`: what refuses, a catalog or a table; reported once
    for each."""

    def __init__(self, message: str, of: str = "") -> None:
        super().__init__(message)
        self.of = of


class CatalogRefused(AccessDenied):
    """The catalog does not take who we are (401), or does not let us (403)."""

    dependency = "catalog"


class LoginRefused(CatalogRefused):
    """The catalog does not take who we are (401): that is about all its tables."""


class StorageRefused(AccessDenied):
    """The storage of a table's files does not let us read or write."""

    dependency = "storage"


class PoisonousRecord(FirnlineError):
    """A record that no retry can help; it goes to the dead-letter topic."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TaskRefused(FirnlineError):
    """A task that cannot be done; `reason` is a stable code, `retryable` says if later helps."""

    def __init__(self, reason: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable


class Misconfigured(FirnlineError):
    """A setting is missing or wrong; the message says which and what to set."""
