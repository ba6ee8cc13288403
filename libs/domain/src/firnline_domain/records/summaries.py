"""A snapshot's summary: texts that any writer may have written."""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.numbers import number

REPLACE = "replace"  # Iceberg's operation of a commit that changes no row
PRODUCER, OPTIMIZE = "snapshot.producer", "OPTIMIZE"  # Amoro, which also overwrites
TASK_ID = "firnline.task-id"  # of a snapshot that Firnline committed; ids, comma-separated
BY_VERSION = "firnline.version"  # beside TASK_ID: the version that committed it
MAX_IDS = 64_000  # characters of task ids: 1,900 results in one commit
# What Firnline, and a person who reads its events, knows of a summary: Iceberg's own counts (spec,
# appendix F) and who made the snapshot.
COUNTS = tuple(
    f"{verb}-{what}"
    for verb in ("added", "deleted", "removed", "total")
    for what in (
        "data-files",
        "delete-files",
        "equality-delete-files",
        "position-delete-files",
        "dvs",
        "records",
        "files-size",
        "position-deletes",
        "equality-deletes",
    )
)
MAKERS = (
    "engine-name",
    "engine-version",
    "app-id",
    "app-name",
    "spark.app.id",
    "trino_query_id",
    "flink.job-id",
    PRODUCER,
)
KNOWN = (
    *COUNTS,
    *MAKERS,
    "wap.id",
    "published-wap-id",
    "source-snapshot-id",
    "replace-partitions",
    "changed-partition-count",
)


def number_in(summary: Mapping[str, str], name: str) -> int:
    """A count of the summary; 0 where it is absent, no number (`²` is a digit, too), below zero or
    beyond any count."""
    return int(number(summary.get(name) or "") or 0)


def task_ids_in(summary: Mapping[str, str]) -> str | None:
    """The tasks of a snapshot, cut after a whole id where there are more than any commit has."""
    text = summary.get(TASK_ID)
    if text is None or len(text) <= MAX_IDS:
        return text or None
    return text[:MAX_IDS].rpartition(",")[0] or None
