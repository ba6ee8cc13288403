"""Amoro's table properties: which of them mean something here, and what.

Names and defaults as of Amoro 0.9 (its page "Table Configurations", and `TableProperties`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from firnline_domain.numbers import MAX_CHARS
from firnline_domain.values import Value

PREFIX = "self-optimizing."
NEVER_MS = 100 * 365 * 86_400_000  # what Amoro writes as an interval below zero


def _same(text: str) -> str:
    return text


_BELOW_ZERO = re.compile(r"-[0-9]{1,18}", re.ASCII)


def _interval(text: str) -> str:
    """Milliseconds; below zero means never."""
    return str(NEVER_MS) if _BELOW_ZERO.fullmatch(text.strip(" \t\r\n")) else text


_DURATION = re.compile(r"(\d{1,15}) *([a-z]*)", re.ASCII)
_UNITS_MS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("", "min", "minute", "minutes"), 60_000),  # without a unit: minutes
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
}


def _duration(text: str) -> str:
    """`720min`, `7 d` in milliseconds; any other text as it is."""
    found = _DURATION.fullmatch(text.strip(" \t\r\n").lower()) if len(text) <= MAX_CHARS else None
    if found is None or found[2] not in _UNITS_MS:
        return text
    return str(int(found[1]) * _UNITS_MS[found[2]])


class Meaning(Value):
    """Fields of `Thresholds` that a property sets, its text in their terms, and how to write it
    where that differs from them."""

    fields: tuple[str, ...]
    translated: Callable[[str], str] = _same
    form: str = ""


UNDERSTOOD = {
    # Who forbids Amoro to optimize a table may have meant Amoro alone: there is advice about it.
    "self-optimizing.enabled": Meaning(("enabled",)),
    # Amoro counts both kinds together; each has its own threshold here.
    "self-optimizing.minor.trigger.file-count": Meaning(("min_fragments", "min_equality_deletes")),
    "self-optimizing.minor.trigger.interval": Meaning(("max_age_ms",), _interval),
    # Whoever has told Amoro to keep snapshots means it, whoever expires them.
    "table-expire.enabled": Meaning(("gc_enabled",)),
    "snapshot.keep.duration": Meaning(
        ("max_snapshot_age_ms",), _duration, "duration, as in 720min, 12h or 7d"
    ),
    "snapshot.keep.min-count": Meaning(("min_snapshots",)),
    "self-optimizing.group": Meaning(("group",)),
}
_SHARES = "workers take what is ordered: firnline.rewrite.max-in-flight limits one table"
_POLLING = "nothing is polled here: every commit is looked at when it comes"
_SIZES = "every engine's writers and Firnline take the file size of write.target-file-size-bytes"
_RETRIES = "a failure is tried again, then the partition is parked (docs/how-to/troubleshoot.md)"
_FULL = "a rewrite that would change nothing is never ordered, however long ago the last one was"
_TASKS = "a task is one partition and streams through its files, however many they are"
UNUSED = {
    "self-optimizing.quota": _SHARES,
    "self-optimizing.break-quota-limit-enabled": _SHARES,
    "self-optimizing.num-retries": _RETRIES,
    "self-optimizing.execute.num-retries": _RETRIES,
    "self-optimizing.allow-partial-commit": "groups that can be committed always are",
    "self-optimizing.target-size": _SIZES,
    "self-optimizing.fragment-ratio": "a fragment is below an eighth of the target size, always",
    "self-optimizing.min-target-size-ratio": "a file is undersized below 75 % of the target size, "
    "as for Iceberg itself",
    "self-optimizing.max-task-size-bytes": _TASKS,
    "self-optimizing.max-file-count": _TASKS,
    "self-optimizing.major.trigger.duplicate-ratio": "delete files are counted, not the rows in "
    "them: firnline.rewrite.min-position-deletes, firnline.rewrite.min-equality-deletes",
    "self-optimizing.full.trigger.interval": _FULL,
    "self-optimizing.full.rewrite-all-files": _FULL,
    "self-optimizing.filter": "whole partitions are maintained, and each of them",
    "self-optimizing.min-plan-interval": _POLLING,
    "self-optimizing.refresh-table.adaptive.max-interval-ms": _POLLING,
    "self-optimizing.refresh-table.adaptive.increase-step-ms": _POLLING,
    "self-optimizing.refresh-event.identifier": _POLLING,
    "self-optimizing.evaluation.fallback-interval": _POLLING,
    "self-optimizing.evaluation.file-size.mse-tolerance": _POLLING,
    "self-optimizing.rewrite.use-parquet-row-group-merge.enabled": "row groups are made anew",
    "self-optimizing.rewrite.use-parquet-row-group-merge.min-avg-row-group-size-bytes": "row "
    "groups are made anew",
}
# These texts ask for what Firnline does anyway: nothing to say about them.
NO_DIFFERENCE = frozenset(
    {
        ("self-optimizing.fragment-ratio", "8"),
        ("self-optimizing.min-target-size-ratio", "0.75"),
        ("self-optimizing.allow-partial-commit", "true"),
        ("self-optimizing.full.trigger.interval", "-1"),
    }
)
